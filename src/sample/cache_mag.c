/* MagCache: a table says how much the residual's magnitude changes from each step to the next; the
 * product over the steps left out, and how far it strays from 1, decide. Nothing is measured, so
 * the schedule is known before the run. Source: Zehong-Ma/MagCache MagCache4Wan2.2; rule diffusers:
 * huggingface/diffusers hooks/mag_cache.py. */
#include "sample/cache_method.h"

static void mag_defaults(zoe_cache_params *p)
{
    p->judge = ZOE_CACHE_JUDGE_NONE;
    p->threshold = 0.04;
    p->max_skips = 2;
    p->retention = 0.2;
    if (p->rule == ZOE_CACHE_DIFFUSERS) {
        p->threshold = 0.06;
        p->max_skips = 3;
    }
}

static size_t lanes(const zoe_cache_params *p)
{
    return p->rule == ZOE_CACHE_DIFFUSERS ? 1 : ZOE_CACHE_BRANCHES;
}

static zoe_status mag_check(zoe_context *ctx, const zoe_cache_params *p,
                            const zoe_cache_shape *shape)
{
    if (p->ratio_count == 0 || p->ratio_count % lanes(p) != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "MagCache: %zu mag_ratios; the model's table is needed, a value for each "
                        "step%s: mag_ratios=i2v_A14B and its like, or a list (docs/CACHES.md)",
                        p->ratio_count, lanes(p) == 1 ? "" : " and branch");
    if (shape->high_steps > shape->steps)
        return zoe_fail(ctx, ZOE_INVALID, "MagCache: %zu of %zu steps are the high-noise expert's",
                        shape->high_steps, shape->steps);
    return ZOE_OK;
}

/* The table's value for a step, by the nearest of its own steps. */
static double ratio(const zoe_cache *c, size_t step, size_t lane)
{
    const size_t n = lanes(&c->params), have = c->params.ratio_count / n, want = c->shape.steps;
    size_t i = have - 1;
    if (have == want)
        i = step;
    else if (want > 1)
        i = (size_t)nearbyint((double)(step * (have - 1)) / (double)(want - 1));
    return c->params.ratios[i * n + (n > 1 ? lane : 0)];
}

static void forget(cache_branch *s)
{
    s->product = 1.0;
    s->error = 0.0;
    s->run = 0;
}

/* Goes one step on in the table; may the step be left out? */
static bool advance(const zoe_cache *c, cache_branch *s, size_t lane)
{
    s->product *= ratio(c, (size_t)c->memory->step, lane);
    s->run++;
    s->error += fabs(1.0 - s->product);
    const bool near = c->params.rule == ZOE_CACHE_DIFFUSERS ? s->error <= c->params.threshold
                                                            : s->error < c->params.threshold;
    return near && s->run <= c->params.max_skips;
}

void zoe_cache_mag_step(zoe_cache *c)
{
    cache_memory *m = c->memory;
    const size_t high = c->shape.high_steps;
    const size_t length = m->expert == ZOE_HIGH_NOISE ? high : c->shape.steps - high;
    const double retained = ceil(c->params.retention * (double)length);
    bool skip = zoe_cache_foresee_ends(c) == CACHE_MEASURE && (double)m->since >= retained;
    for (size_t lane = 0; skip && lane < ZOE_CACHE_BRANCHES; lane++)
        skip = advance(c, &m->branch[lane], lane);
    for (size_t lane = 0; !skip && lane < ZOE_CACHE_BRANCHES; lane++)
        forget(&m->branch[lane]);
    c->mag_skip = skip;
}

/* Is the pass one of those that the official rule lets go? Passes are counted, two a step. */
static bool in_span(const zoe_cache *c)
{
    const double rho = c->params.retention;
    const size_t pass = 2 * (size_t)c->memory->step + c->branch;
    const size_t split = 2 * c->shape.high_steps, total = 2 * c->shape.steps;
    const double low = (double)split + (double)(total - split) * rho;
    switch (c->params.span) {
    case ZOE_CACHE_SPAN_T2V:
        return !(pass < (size_t)((double)split * rho) || (split <= pass && (double)pass <= low));
    case ZOE_CACHE_SPAN_TI2V: return pass >= (size_t)((double)total * rho);
    default: return pass >= (size_t)low;
    }
}

static cache_verdict mag_foresee(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    (void)trace;
    if (c->params.rule == ZOE_CACHE_ZOETROPE)
        return c->mag_skip ? CACHE_SKIP : CACHE_COMPUTE;
    const size_t step = (size_t)c->memory->step;
    const bool diffusers = c->params.rule == ZOE_CACHE_DIFFUSERS;
    const size_t start = (size_t)(c->params.retention * (double)c->shape.steps + 0.5);
    if (diffusers ? step < start : !in_span(c))
        return CACHE_COMPUTE;
    if (advance(c, s, c->branch) && !(diffusers && s->points == 0))
        return CACHE_SKIP;
    forget(s);
    return CACHE_COMPUTE;
}

const cache_method zoe_cache_mag = {
    .name = "MagCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_OFFICIAL | 1u << ZOE_CACHE_DIFFUSERS,
    .carries = 1u << ZOE_CACHE_OFFICIAL,
    .defaults = mag_defaults,
    .check = mag_check,
    .foresee = mag_foresee,
};
