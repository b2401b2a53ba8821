/* EasyCache: works on latents alone. Between computed steps it measures how much the network's
 * output changes for a change of its input; with that rate the change of the input since the last
 * step estimates that of the output, relative to its size, and estimates are added up. A step left
 * out costs one addition: the latent and the last output's difference from its latent. The branch
 * that comes first decides for both. Source: H-EmbodVis/EasyCache EasyCache4Wan2.1. */
#include "sample/cache_method.h"
#include "sample/solver.h"

enum { INPUT, OUTPUT, COMPUTED_INPUT }; /* of c->easy */

void zoe_cache_easy_buffers(zoe_cache *c)
{
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++)
        c->buffers[b].delta = zoe_cache_take(c, c->shape.latent, sizeof(float), 0, b);
    for (size_t k = 0; k < sizeof c->easy / sizeof *c->easy; k++)
        c->easy[k] = zoe_cache_take(c, c->shape.latent, sizeof(float), 0, 0);
}

static void easy_defaults(zoe_cache_params *p)
{
    p->judge = ZOE_CACHE_JUDGE_NONE;
    p->threshold = 0.05;
    if (p->rule == ZOE_CACHE_OFFICIAL) {
        p->warmup = 10;
        p->cooldown = 1;
    }
}

/* Mean |x - y| and mean |y|, in f32. */
static void means(const zoe_context *ctx, const zoe_cache *c, const float *x, const float *y,
                  float *change, float *size)
{
    double sums[CACHE_SUMS];
    zoe_cache_measure(ctx, c->partial, sums, x, y, ZOE_F32, 1, c->shape.latent, 1);
    *change = (float)(sums[SUM_CHANGE] / sums[SUM_COUNT]);
    *size = (float)(sums[SUM_BEFORE] / sums[SUM_COUNT]);
}

static zoe_status compare(zoe_context *ctx, zoe_cache *c, cache_branch *s, const float *latent,
                          cache_verdict *verdict)
{
    zoe_cache_trace *trace = cache_trace(c);
    float change, size, unused;
    means(ctx, c, latent, c->easy[INPUT], &change, &unused);
    means(ctx, c, c->easy[OUTPUT], c->easy[OUTPUT], &unused, &size);
    trace->distance = (float)s->rate * change / size;
    trace->measured = true;
    trace->bad = !isfinite(trace->distance) || !(change > 0.0f);
    s->accumulated = (double)((float)s->accumulated + trace->distance);
    double value = s->accumulated;
    if (c->params.rule == ZOE_CACHE_ZOETROPE && (trace->bad || !isfinite(value)))
        value = (double)INFINITY;
    if (!(c->memory->mask & 1u) && c->params.joint && c->group.max)
        value = -(double)INFINITY; /* the rank of the conditional branch decides */
    return zoe_cache_agree(c, s, value, verdict);
}

/* out = latent + delta, or delta = out - latent */
typedef struct shift {
    float *y;
    const float *a, *b;
    float sign;
} shift;

static void shift_piece(const void *arg, size_t begin, size_t end)
{
    const shift *p = arg;
    for (size_t i = begin; i < end; i++)
        p->y[i] = p->a[i] + p->sign * p->b[i];
}

zoe_status zoe_cache_easy_begin(zoe_context *ctx, zoe_cache *c, const float *latent,
                                float *velocity)
{
    cache_branch *s = &c->memory->branch[c->branch];
    const size_t n = c->shape.latent;
    cache_verdict verdict;
    if (c->done) {
        verdict = c->left ? CACHE_SKIP : CACHE_COMPUTE;
    } else {
        verdict = zoe_cache_foresee_ends(c);
        if (verdict == CACHE_MEASURE) {
            verdict = CACHE_COMPUTE;
            if (s->outputs > 1) /* the rate is known */
                TRY(compare(ctx, c, s, latent, &verdict));
        }
        memcpy(c->easy[INPUT], latent, n * sizeof *latent);
    }
    if (verdict == CACHE_SKIP && s->points == 0) {
        cache_trace(c)->empty = true;
        verdict = CACHE_COMPUTE;
    }
    TRY(zoe_cache_audit(ctx, c, verdict));
    zoe_cache_note(c, s, verdict);
    if (verdict == CACHE_SKIP)
        zoe_solver_sweep(
            ctx, n, shift_piece,
            &(shift){.y = velocity, .a = latent, .b = c->buffers[c->branch].delta, .sign = 1.0f});
    return ZOE_OK;
}

/* After the first branch computed: the rate from the last two computed steps. */
static void learn(const zoe_context *ctx, zoe_cache *c, cache_branch *s, const float *velocity)
{
    const size_t bytes = c->shape.latent * sizeof(float);
    if (s->outputs > 0) {
        float output, input, unused;
        means(ctx, c, velocity, c->easy[OUTPUT], &output, &unused);
        means(ctx, c, c->easy[INPUT], c->easy[COMPUTED_INPUT], &input, &unused);
        s->rate = (double)(output / input);
    }
    memcpy(c->easy[COMPUTED_INPUT], c->easy[INPUT], bytes);
    memcpy(c->easy[OUTPUT], velocity, bytes);
    s->outputs++;
}

void zoe_cache_easy_end(zoe_context *ctx, zoe_cache *c, const float *latent, const float *velocity)
{
    cache_branch *s = &c->memory->branch[c->branch];
    const size_t decider = c->memory->mask & 1u ? 0 : 1;
    zoe_cache_trace *trace = cache_trace(c);
    if (!c->skip) {
        if (c->branch == decider)
            learn(ctx, c, s, velocity);
        zoe_solver_sweep(
            ctx, c->shape.latent, shift_piece,
            &(shift){.y = c->buffers[c->branch].delta, .a = velocity, .b = latent, .sign = -1.0f});
        s->points = 1;
    }
    trace->rate = c->memory->branch[decider].rate;
    trace->accumulated = c->memory->branch[decider].accumulated;
}

const cache_method zoe_cache_easy = {
    .name = "EasyCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_OFFICIAL,
    .carries = 1u << ZOE_CACHE_OFFICIAL,
    .clears = true,
    .defaults = easy_defaults,
    .foresee = NULL,
};
