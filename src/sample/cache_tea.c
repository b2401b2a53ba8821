/* TeaCache: a polynomial of the change of the network's modulated input estimates how much its
 * output changed; estimates are added up, and the sum below the threshold means: leave the step
 * out. Source: ali-vilab/TeaCache TeaCache4Wan2.1; rule recipe: hicann/cann-recipes-infer
 * module/dit_cache, which takes the estimate's absolute value, compares with the last computed step
 * instead of the last one, and counts passes as if they were steps.
 *
 * The published polynomials are below 0 for small changes. There the rule zoetrope takes 0:
 * otherwise a calm start would give a credit that later lets dozens of steps go. */
#include "sample/cache_method.h"

static void tea_defaults(zoe_cache_params *p)
{
    static const double seed[] = {733.226126, -401.131952, 67.5869174, -3.149879, 0.0961237896};
    p->judge = ZOE_CACHE_JUDGE_MODULATED;
    p->threshold = 0.15;
    p->warmup = 2;
    memcpy(p->coefficients, seed, sizeof seed);
    p->coefficient_count = sizeof seed / sizeof *seed;
    if (p->rule == ZOE_CACHE_OFFICIAL) {
        p->judge = ZOE_CACHE_JUDGE_EMBEDDING;
        p->threshold = 0.2;
        p->warmup = p->cooldown = 1;
        p->coefficient_count = 0; /* they are those of a model and a judge: none suits all */
    }
}

static zoe_status tea_check(zoe_context *ctx, const zoe_cache_params *p,
                            const zoe_cache_shape *shape)
{
    if (p->coefficient_count == 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "TeaCache: no coefficients are given; they belong to a model: "
                        "coefficients=NAME or a list (docs/CACHES.md)");
    if (p->judge == ZOE_CACHE_JUDGE_NONE || p->judge == ZOE_CACHE_JUDGE_RESIDUAL)
        return zoe_fail(ctx, ZOE_INVALID,
                        "TeaCache can judge by modulated, embedding, projection or hidden");
    if (p->rule == ZOE_CACHE_RECIPE && p->warmup > shape->steps)
        return zoe_fail(ctx, ZOE_INVALID, "TeaCache: warmup %zu is more than the %zu steps",
                        p->warmup, shape->steps);
    return ZOE_OK;
}

static cache_verdict tea_foresee(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace)
{
    (void)s;
    (void)trace;
    if (c->params.rule != ZOE_CACHE_RECIPE)
        return zoe_cache_foresee_ends(c);
    const size_t pass = c->memory->calls % c->shape.steps;
    const bool end = pass < c->params.warmup || pass >= c->shape.steps - c->params.warmup;
    return end ? CACHE_COMPUTE : CACHE_MEASURE;
}

static double tea_weigh(zoe_cache *c, cache_branch *s, float ratio)
{
    const zoe_cache_params *p = &c->params;
    double estimate = 0.0;
    for (size_t i = 0; i < p->coefficient_count; i++)
        estimate = estimate * (double)ratio + p->coefficients[i];
    if (p->rule == ZOE_CACHE_RECIPE)
        estimate = fabs(estimate);
    else if (p->rule == ZOE_CACHE_ZOETROPE && estimate < 0.0)
        estimate = 0.0;
    s->accumulated += estimate;
    return s->accumulated;
}

const cache_method zoe_cache_tea = {
    .name = "TeaCache",
    .rules = 1u << ZOE_CACHE_ZOETROPE | 1u << ZOE_CACHE_RECIPE | 1u << ZOE_CACHE_OFFICIAL,
    .carries = 1u << ZOE_CACHE_RECIPE | 1u << ZOE_CACHE_OFFICIAL,
    .clears = true,
    .defaults = tea_defaults,
    .check = tea_check,
    .foresee = tea_foresee,
    .weigh = tea_weigh,
};
