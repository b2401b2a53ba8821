/* What changed from one computed pass to the next. The relative L1 change is TeaCache's measure
 * (arXiv 2411.19108; ali-vilab/TeaCache), the ratio of magnitudes MagCache's (arXiv 2506.09045;
 * Zehong-Ma/MagCache, calibration in MagCache4Wan2.2/magcache_generate.py). */
#include "sample/gauge.h"

#include "sample/cache_method.h"

/* What is kept of a branch's last pass. */
typedef struct gauge_branch {
    bool begun;
    size_t step;
    zoe_expert expert;
    float *modulated, *residual;   /* [tokens, width] */
    float *embedding, *projection; /* [width], [6, width] */
    float *velocity;               /* [latent] */
} gauge_branch;

struct zoe_gauge {
    zoe_cache_shape shape;
    zoe_arena arena;
    gauge_branch branch[ZOE_CACHE_BRANCHES];
    float *spare; /* [tokens, width]: what is made now; it takes the place of what was kept */
    double *partial;
    /* the pass at work */
    gauge_branch *now;
    size_t step;
    zoe_expert expert;
    bool follows;  /* the pass kept is that of the step before */
    bool compares; /* and of the same expert */
    bool complete;
    zoe_cache_change change;
};

/* ---- memory ---- */

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(zoe_gauge *g)
{
    const zoe_cache_shape *s = &g->shape;
    const size_t n = s->tokens * s->width, f = sizeof(float);
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++) {
        gauge_branch *k = &g->branch[b];
        k->modulated = zoe_arena_take(&g->arena, n, f);
        k->residual = zoe_arena_take(&g->arena, n, f);
        k->embedding = zoe_arena_take(&g->arena, s->width, f);
        k->projection = zoe_arena_take(&g->arena, 6 * s->width, f);
        k->velocity = zoe_arena_take(&g->arena, s->latent, f);
    }
    g->spare = zoe_arena_take(&g->arena, n, f);
    const size_t parts = most(zoe_cache_measure_parts(s->tokens, s->width), 1);
    g->partial = zoe_arena_take(&g->arena, parts * CACHE_SUMS, sizeof(double));
}

static bool sizes_fit(const zoe_cache_shape *s)
{
    size_t n;
    return zoe_size_mul(&n, s->tokens, s->width) && zoe_size_mul(&n, n, sizeof(double)) &&
           zoe_size_mul(&n, s->width, 6 * sizeof(float)) &&
           zoe_size_mul(&n, s->latent, sizeof(float));
}

size_t zoe_gauge_bytes(const zoe_cache_shape *shape)
{
    zoe_gauge g = {.shape = *shape};
    if (!sizes_fit(shape))
        return SIZE_MAX;
    lay_out(&g);
    return g.arena.used;
}

zoe_status zoe_gauge_new(zoe_context *ctx, zoe_gauge **gauge, const zoe_cache_shape *shape)
{
    void *p;
    zoe_status status;
    *gauge = NULL;
    if (!sizes_fit(shape))
        return zoe_fail(ctx, ZOE_INVALID, "calibration: %zu tokens of width %zu are too many",
                        shape->tokens, shape->width);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **gauge, "calibration"));
    zoe_gauge *g = p;
    g->shape = *shape;
    TRY_GOTO(zoe_arena_new(ctx, &g->arena, zoe_gauge_bytes(shape), "calibration"));
    lay_out(g);
    TRY_GOTO(zoe_arena_status(ctx, &g->arena, "calibration"));
    *gauge = g;
done:
    if (status != ZOE_OK)
        zoe_gauge_free(g);
    return status;
}

void zoe_gauge_free(zoe_gauge *gauge)
{
    if (!gauge)
        return;
    zoe_arena_free(&gauge->arena);
    zoe_free(gauge);
}

/* ---- measures ---- */

static double relative_change(const zoe_context *ctx, const zoe_gauge *g, const float *now,
                              const float *before, size_t rows, size_t width)
{
    double sums[CACHE_SUMS];
    zoe_cache_measure(ctx, g->partial, sums, now, before, ZOE_F32, rows, width, 1);
    return sums[SUM_CHANGE] / sums[SUM_BEFORE];
}

typedef struct magnitudes {
    const float *now, *before;
    size_t rows, width, each; /* rows of a piece */
    double *partial;          /* sum and count of each piece */
} magnitudes;

static double squares(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* A token that was 0 has no ratio and is not counted. */
static void magnitude_piece(void *arg, size_t i, size_t worker)
{
    const magnitudes *m = arg;
    const size_t begin = i * m->each;
    const size_t end = m->rows - begin < m->each ? m->rows : begin + m->each;
    double sum = 0.0, count = 0.0;
    (void)worker;
    for (size_t row = begin; row < end; row++) {
        const double before = squares(m->before + row * m->width, m->width);
        if (before == 0.0)
            continue;
        sum += sqrt(squares(m->now + row * m->width, m->width)) / sqrt(before);
        count += 1.0;
    }
    m->partial[2 * i] = sum;
    m->partial[2 * i + 1] = count;
}

static double magnitude_ratio(const zoe_context *ctx, const zoe_gauge *g, const float *now,
                              const float *before)
{
    const size_t tokens = g->shape.tokens;
    const size_t parts = zoe_cache_measure_parts(tokens, g->shape.width);
    const size_t each = parts > 0 ? tokens / parts + (tokens % parts != 0) : 1;
    magnitudes m = {.now = now,
                    .before = before,
                    .rows = tokens,
                    .width = g->shape.width,
                    .each = each,
                    .partial = g->partial};
    const size_t pieces = tokens / each + (tokens % each != 0);
    zoe_parallel_for(ctx, pieces, magnitude_piece, &m);
    double sum = 0.0, count = 0.0;
    for (size_t i = 0; i < pieces; i++) {
        sum += g->partial[2 * i];
        count += g->partial[2 * i + 1];
    }
    return sum / count;
}

/* ---- a pass ---- */

void zoe_gauge_begin(zoe_gauge *g, size_t step, zoe_expert expert, size_t branch)
{
    const double none = (double)NAN;
    g->now = &g->branch[branch];
    g->step = step;
    g->expert = expert;
    g->follows = g->now->begun && g->now->step + 1 == step;
    g->compares = g->follows && g->now->expert == expert;
    g->complete = false;
    g->change = (zoe_cache_change){none, none, none, none, none, none};
}

/* What is in the spare buffer takes the place of what was kept. */
static void exchange(zoe_gauge *g, float **kept)
{
    float *old = *kept;
    *kept = g->spare;
    g->spare = old;
}

static zoe_status see_input(zoe_context *ctx, zoe_gauge *g, const zoe_cache_point *p)
{
    const zoe_cache_shape *s = &g->shape;
    gauge_branch *k = g->now;
    if (!p->embedding || !p->projection || !p->shift || !p->scale)
        return zoe_fail(ctx, ZOE_INVALID,
                        "calibration: the network does not give what is to be compared");
    zoe_cache_modulate(ctx, g->spare, p, s->tokens, s->width, 1);
    if (g->compares) {
        zoe_cache_change *c = &g->change;
        c->modulated = relative_change(ctx, g, g->spare, k->modulated, s->tokens, s->width);
        c->embedding = relative_change(ctx, g, p->embedding, k->embedding, 1, s->width);
        c->projection = relative_change(ctx, g, p->projection, k->projection, 1, 6 * s->width);
    }
    exchange(g, &k->modulated);
    memcpy(k->embedding, p->embedding, s->width * sizeof *k->embedding);
    memcpy(k->projection, p->projection, 6 * s->width * sizeof *k->projection);
    memcpy(g->spare, p->hidden, s->tokens * s->width * sizeof *g->spare);
    return ZOE_OK;
}

/* The spare buffer holds the input of block 0. */
static void see_output(zoe_context *ctx, zoe_gauge *g, const zoe_cache_point *p)
{
    const zoe_cache_shape *s = &g->shape;
    gauge_branch *k = g->now;
    zoe_cache_subtract(ctx, g->spare, p->hidden, s->tokens * s->width);
    if (g->compares)
        g->change.residual = relative_change(ctx, g, g->spare, k->residual, s->tokens, s->width);
    if (g->follows)
        g->change.magnitude = magnitude_ratio(ctx, g, g->spare, k->residual);
    exchange(g, &k->residual);
    g->complete = true;
}

zoe_status zoe_gauge_at(zoe_context *ctx, zoe_gauge *g, const zoe_cache_point *point)
{
    if (point->block == 0)
        TRY(see_input(ctx, g, point));
    if (point->block == g->shape.blocks)
        see_output(ctx, g, point);
    return ZOE_OK;
}

zoe_status zoe_gauge_end(zoe_context *ctx, zoe_gauge *g, const float *velocity,
                         zoe_cache_change *change)
{
    gauge_branch *k = g->now;
    if (!g->complete)
        return zoe_fail(ctx, ZOE_INTERNAL, "calibration: the pass ended before its last block");
    if (g->compares)
        g->change.output = relative_change(ctx, g, velocity, k->velocity, 1, g->shape.latent);
    memcpy(k->velocity, velocity, g->shape.latent * sizeof *velocity);
    k->begun = true;
    k->step = g->step;
    k->expert = g->expert;
    *change = g->change;
    return ZOE_OK;
}
