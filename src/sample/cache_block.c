/* Step caches that watch the first blocks: FBCache (one block) and DBCache (Fn of them, and Bn at
 * the end that run in any case). NoCache is here too: it has nothing to watch.
 *
 * The distance is mean|f' - f| / mean|f'| of f, what the first blocks added in this step, and f',
 * the same in the last computed step. Source: chengzeyi/ParaAttention first_block_cache, vipshop/
 * cache-dit 1.5.3; rule recipe: hicann/cann-recipes-infer module/dit_cache, which compares the
 * hidden state itself and divides by that of now. */
#include "sample/cache_method.h"

static void no_defaults(zoe_cache_params *p)
{
    (void)p;
}

static cache_verdict always(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    (void)c;
    (void)s;
    (void)trace;
    return CACHE_COMPUTE;
}

const cache_method zoe_cache_none = {
    .name = "NoCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_RECIPE,
    .defaults = no_defaults,
    .foresee = always,
};

/* ---- FBCache ---- */

static void first_defaults(zoe_cache_params *p)
{
    p->threshold = p->rule == ZOE_CACHE_PARAATTENTION ? 0.0 : 0.05;
    p->order = p->rule == ZOE_CACHE_PARAATTENTION ? 2 : 1;
    p->judge = p->rule == ZOE_CACHE_RECIPE ? ZOE_CACHE_JUDGE_HIDDEN : ZOE_CACHE_JUDGE_RESIDUAL;
}

static zoe_status first_check(zoe_context *ctx, const zoe_cache_params *p,
                              const zoe_cache_shape *shape)
{
    if (shape->blocks < 2)
        return zoe_fail(ctx, ZOE_INVALID,
                        "FBCache needs a model of at least 2 blocks, this one has %zu",
                        shape->blocks);
    if (p->judge != ZOE_CACHE_JUDGE_HIDDEN && p->judge != ZOE_CACHE_JUDGE_RESIDUAL)
        return zoe_fail(ctx, ZOE_INVALID, "FBCache can judge by residual or hidden only");
    return ZOE_OK;
}

static cache_verdict first_foresee(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    (void)s;
    (void)trace;
    if (c->params.rule == ZOE_CACHE_PARAATTENTION && !(c->params.threshold > 0.0))
        return CACHE_COMPUTE;
    return zoe_cache_foresee_ends(c);
}

static double first_weigh(zoe_cache *c, cache_branch *s, float ratio)
{
    (void)c;
    (void)s;
    return (double)ratio;
}

const cache_method zoe_cache_first = {
    .name = "FBCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_RECIPE | 1u << ZOE_CACHE_PARAATTENTION |
             1u << ZOE_CACHE_DIFFUSERS,
    .carries = 1u << ZOE_CACHE_RECIPE,
    .defaults = first_defaults,
    .check = first_check,
    .foresee = first_foresee,
    .weigh = first_weigh,
};

/* ---- DBCache ---- */

static void dual_defaults(zoe_cache_params *p)
{
    p->threshold = 0.08;
    p->judge = ZOE_CACHE_JUDGE_RESIDUAL;
    p->order = 1;
    p->first_blocks = 8;
    p->warmup = 8;
}

static zoe_status dual_check(zoe_context *ctx, const zoe_cache_params *p,
                             const zoe_cache_shape *shape)
{
    if (p->first_blocks < 1 || p->first_blocks > shape->blocks ||
        p->last_blocks > shape->blocks - p->first_blocks)
        return zoe_fail(ctx, ZOE_INVALID,
                        "DBCache: Fn_compute_blocks %zu and Bn_compute_blocks %zu do not fit the "
                        "model's %zu blocks; at least 1 and together at most %zu are possible",
                        p->first_blocks, p->last_blocks, shape->blocks, shape->blocks);
    if (p->rule == ZOE_CACHE_ZOETROPE && p->warmup_interval != 1)
        return zoe_fail(ctx, ZOE_INVALID,
                        "DBCache: warmup_interval %zu leaves steps of the warm-up out; take 1, or "
                        "rule cache-dit",
                        p->warmup_interval);
    return ZOE_OK;
}

/* What step and counters say. */
static cache_verdict dual_counts(const zoe_cache *c, const cache_branch *s)
{
    const zoe_cache_params *p = &c->params;
    const size_t step = c->memory->since;
    size_t lead = 0;
    while (lead < p->mask_count && p->mask[lead])
        lead++;
    const size_t warmup = p->mask_count > 0 && lead < p->warmup ? lead : p->warmup;
    if (step < warmup && step % p->warmup_interval == 0)
        return CACHE_COMPUTE;
    if (step < p->mask_count && p->mask[step])
        return CACHE_COMPUTE;
    if (step < p->mask_count && p->mask_static)
        return CACHE_SKIP;
    if (s->skipped >= p->max_cached || s->streak >= p->max_skips)
        return CACHE_COMPUTE;
    return CACHE_MEASURE;
}

static cache_verdict dual_cache_dit(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    const zoe_cache_params *p = &c->params;
    const cache_verdict verdict = dual_counts(c, s);
    if (verdict != CACHE_MEASURE)
        return verdict;
    if (p->max_accumulated > 0.0 && s->accumulated >= p->max_accumulated)
        return CACHE_COMPUTE;
    if (p->threshold <= 0.0 || p->threshold >= 1.0) { /* the numbers that it notes */
        trace->measured = true;
        trace->distance = p->threshold <= 0.0 ? -0.0f : -1.0f;
        return p->threshold >= 1.0 && s->judged ? CACHE_SKIP : CACHE_COMPUTE;
    }
    return CACHE_MEASURE;
}

static cache_verdict dual_foresee(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    const zoe_cache_params *p = &c->params;
    cache_verdict verdict = CACHE_COMPUTE;
    if (p->rule == ZOE_CACHE_CACHE_DIT)
        verdict = dual_cache_dit(c, s, trace);
    else if (zoe_cache_foresee_ends(c) == CACHE_MEASURE)
        verdict = dual_counts(c, s);
    if (verdict != CACHE_MEASURE || !p->reuse_distance || c->branch == 0 || !(c->done & 1u))
        return verdict;
    const zoe_cache_trace *other = zoe_cache_trace_at(c, (size_t)c->memory->step, 0);
    if (!other->measured || !s->judged)
        return verdict;
    trace->distance = other->distance;
    trace->bad = other->bad;
    trace->measured = true;
    s->accumulated += (double)trace->distance;
    return (double)trace->distance < p->threshold ? CACHE_SKIP : CACHE_COMPUTE;
}

static double dual_weigh(zoe_cache *c, cache_branch *s, float ratio)
{
    const double most = c->params.max_accumulated;
    const bool over = c->params.rule == ZOE_CACHE_ZOETROPE && most > 0.0 && s->accumulated >= most;
    s->accumulated += (double)ratio;
    return over ? (double)INFINITY : (double)ratio;
}

const cache_method zoe_cache_dual = {
    .name = "DBCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_CACHE_DIT,
    .defaults = dual_defaults,
    .check = dual_check,
    .foresee = dual_foresee,
    .weigh = dual_weigh,
};
