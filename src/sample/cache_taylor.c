/* Step caches: the residual of the blocks that may be left out, kept from step to step and
 * forecast; and TaylorSeer, which leaves steps out by a fixed schedule.
 *
 * A series of order n over the residuals r at the computed steps t0 > t1 > ...:
 *
 *     F0 = r(t0),  F(i+1) = (Fi - Fi of the step before) / (t0 - t1),  r(t) ~ sum Fi (t - t0)^i /
 * i!
 *
 * Backward divided differences: on uneven steps they are no exact derivatives, and are not meant to
 * be. Source: Shenyi-Z/TaylorSeer and vipshop/cache-dit, calibrators; schedules from those,
 * huggingface/diffusers and hicann/cann-recipes-infer. */
#include "sample/cache_method.h"
#include "sample/solver.h"

enum { SPAN = 1024, FULL = 0, FULL_BEFORE, LATEST, LATEST_BEFORE /* factors of FoCa */ };

size_t zoe_cache_series_factors(const zoe_cache_params *p)
{
    switch (p->forecast) {
    case ZOE_CACHE_SERIES: return p->order + 1;
    case ZOE_CACHE_FOCA: return FOCA_FACTORS;
    default: return 1;
    }
}

/* The first step from which on differences are taken. Some references begin late; within DBCache
 * the series of cache-dit counts steps one behind, so that there it is one more. */
static size_t slopes_from(const zoe_cache_params *p)
{
    if (p->rule == ZOE_CACHE_CACHE_DIT)
        return p->method == ZOE_CACHE_DUAL ? 3 : 2;
    if (p->rule == ZOE_CACHE_PARAATTENTION)
        return 2;
    if (p->method == ZOE_CACHE_TAYLOR && p->rule == ZOE_CACHE_OFFICIAL)
        return p->warmup > 0 ? p->warmup - 1 : 0;
    return 0;
}

typedef struct series {
    const cache_buffers *b;
    zoe_dtype type;
    size_t order;   /* highest factor to write, or to read */
    float distance; /* steps since the last computed one */
    const float *x; /* hidden state, and that before the blocks */
    const float *base;
    float *hidden;
    bool rewrites;
    bool values, both; /* FoCa */
    bool again;
} series;

static void load(float *dst, const series *r, size_t k, size_t first, size_t n)
{
    zoe_widen(dst, (const unsigned char *)r->b->factor[k] + first * zoe_dtype_bytes(r->type),
              r->type, n);
}

static void save(const series *r, size_t k, size_t first, const float *src, size_t n)
{
    zoe_narrow((unsigned char *)r->b->factor[k] + first * zoe_dtype_bytes(r->type), r->type, src,
               n);
}

static void update_taylor(const series *r, size_t first, size_t n)
{
    float fresh[SPAN], old[SPAN];
    for (size_t i = 0; i < n; i++)
        fresh[i] = r->x[first + i] - r->base[first + i];
    for (size_t k = 0; k < r->order; k++) {
        load(old, r, k, first, n);
        save(r, k, first, fresh, n);
        for (size_t i = 0; i < n; i++)
            fresh[i] = (fresh[i] - old[i]) / r->distance;
    }
    save(r, r->order, first, fresh, n);
}

static void move(const series *r, size_t to, size_t from, size_t first, size_t n)
{
    const size_t size = zoe_dtype_bytes(r->type);
    memcpy((unsigned char *)r->b->factor[to] + first * size,
           (const unsigned char *)r->b->factor[from] + first * size, n * size);
}

static void update_foca(const series *r, size_t first, size_t n)
{
    float fresh[SPAN];
    for (size_t i = 0; i < n; i++)
        fresh[i] = r->x[first + i] - r->base[first + i];
    move(r, FULL_BEFORE, FULL, first, n);
    if (!r->again) /* a forecast of this very step stands in for nothing */
        move(r, LATEST_BEFORE, LATEST, first, n);
    save(r, FULL, first, fresh, n);
    save(r, LATEST, first, fresh, n);
}

typedef void (*span_fn)(const series *r, size_t first, size_t n);

typedef struct spans {
    const series *r;
    span_fn fn;
} spans;

static void span_piece(const void *arg, size_t begin, size_t end)
{
    const spans *s = arg;
    for (size_t first = begin; first < end; first += SPAN)
        s->fn(s->r, first, end - first < SPAN ? end - first : SPAN);
}

static void sweep(const zoe_context *ctx, const zoe_cache *c, const series *r, span_fn fn)
{
    zoe_solver_sweep(ctx, c->shape.tokens * c->shape.width, span_piece, &(spans){.r = r, .fn = fn});
}

void zoe_cache_series_update(const zoe_context *ctx, zoe_cache *c, cache_branch *s,
                             const cache_buffers *b, const float *hidden, const float *base)
{
    const size_t now = c->memory->since;
    series r = {.b = b,
                .type = c->params.store,
                .distance = (float)(now - s->last),
                .x = hidden,
                .base = base,
                .again = c->again};
    if (c->params.forecast == ZOE_CACHE_FOCA) {
        sweep(ctx, c, &r, update_foca);
        s->values += r.again ? 0 : 1;
        s->points++;
    } else {
        const bool slopes = s->points > 0 && now > s->last && now >= slopes_from(&c->params);
        const size_t most = c->factors - 1;
        r.order = !slopes ? 0 : s->points < most ? s->points : most;
        sweep(ctx, c, &r, update_taylor);
        s->points = r.order + 1;
    }
    s->last = now;
}

/* ---- forecast ---- */

static void add(const series *r, size_t first, const float *forecast, size_t n)
{
    float *hidden = r->hidden + first;
    for (size_t i = 0; i < n; i++) {
        const float base = hidden[i];
        hidden[i] = base + forecast[i];
        if (r->rewrites)
            ((float *)r->b->factor[0])[first + i] = hidden[i] - base;
    }
}

static void add_taylor(const series *r, size_t first, size_t n)
{
    float sum[SPAN], factor[SPAN];
    float weight = 1.0f;
    load(sum, r, 0, first, n);
    for (size_t k = 1; k <= r->order; k++) {
        weight *= r->distance / (float)k;
        load(factor, r, k, first, n);
        for (size_t i = 0; i < n; i++)
            sum[i] += weight * factor[i];
    }
    add(r, first, sum, n);
}

static void add_foca(const series *r, size_t first, size_t n)
{
    float f[FOCA_FACTORS][SPAN], forecast[SPAN];
    const float far = r->distance > 3.0f ? 3.0f / r->distance : 1.0f;
    const float reach = r->distance > 3.0f ? 1.5f : r->distance / 2.0f;
    for (size_t k = 0; k < FOCA_FACTORS; k++)
        load(f[k], r, k, first, n);
    for (size_t i = 0; i < n; i++) {
        const float slope = (f[FULL][i] - f[FULL_BEFORE][i]) + (f[LATEST][i] - f[LATEST_BEFORE][i]);
        const float ahead = f[FULL][i] + reach * slope;
        forecast[i] = r->both ? far * ahead + (1.0f - far) * f[FULL][i] : f[FULL][i];
    }
    move(r, LATEST_BEFORE, LATEST, first, n);
    save(r, LATEST, first, forecast, n);
    add(r, first, forecast, n);
}

void zoe_cache_series_add(const zoe_context *ctx, const zoe_cache *c, cache_branch *s,
                          const cache_buffers *b, float *hidden)
{
    const size_t most = c->factors - 1;
    series r = {.b = b,
                .type = c->params.store,
                .distance = (float)(c->memory->since - s->last),
                .hidden = hidden,
                .rewrites = c->params.rule == ZOE_CACHE_RECIPE && c->params.store == ZOE_F32 &&
                            c->params.forecast == ZOE_CACHE_LAST};
    if (c->params.forecast == ZOE_CACHE_FOCA) {
        r.both = s->points > 1 && s->values > 1;
        sweep(ctx, c, &r, add_foca);
        s->values++;
    } else {
        r.order = s->points > 0 && s->points - 1 < most ? s->points - 1 : most;
        sweep(ctx, c, &r, add_taylor);
    }
}

/* ---- TaylorSeer ---- */

static void taylor_defaults(zoe_cache_params *p)
{
    p->forecast = ZOE_CACHE_SERIES;
    p->judge = ZOE_CACHE_JUDGE_NONE;
    p->max_skips = SIZE_MAX; /* the interval is the cap */
    switch (p->rule) {
    case ZOE_CACHE_OFFICIAL:
        p->warmup = 1;
        p->interval = 5;
        p->order = 1;
        break;
    case ZOE_CACHE_DIFFUSERS:
        p->warmup = 3;
        p->interval = 5;
        p->order = 1;
        p->cooldown = SIZE_MAX; /* here: the step from which on all compute */
        break;
    case ZOE_CACHE_CACHE_DIT:
        p->warmup = 1;
        p->interval = 1;
        p->order = 2;
        break;
    default:
        p->warmup = 3;
        p->interval = 4;
        p->order = 3;
        p->cooldown = 1;
    }
}

static cache_verdict taylor_foresee(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    const zoe_cache_params *p = &c->params;
    const size_t since = c->memory->since, interval = p->interval;
    const size_t past = since >= p->warmup ? since - p->warmup : 0; /* steps after the warm-up */
    bool full = since < p->warmup;
    (void)trace;
    switch (p->rule) {
    case ZOE_CACHE_OFFICIAL: full = full || s->streak == interval - 1; break;
    case ZOE_CACHE_CACHE_DIT: full = full || (past + 1) % interval == 0; break;
    case ZOE_CACHE_DIFFUSERS:
        full = full || (past + interval - 1) % interval == 0 || since >= p->cooldown;
        break;
    default: full = full || past % interval == 0 || c->shape.steps - c->memory->step <= p->cooldown;
    }
    return full ? CACHE_COMPUTE : CACHE_SKIP;
}

const cache_method zoe_cache_taylor = {
    .name = "TaylorSeer",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_RECIPE | 1u << ZOE_CACHE_DIFFUSERS |
             1u << ZOE_CACHE_OFFICIAL | 1u << ZOE_CACHE_CACHE_DIT,
    .defaults = taylor_defaults,
    .foresee = taylor_foresee,
};
