/* A threshold that suits the figures of a calibration. Thresholds are in the unit of what a method adds
 * up, which depends on the model: one that is right for another model leaves out everything or nothing.
 * So the schedule is foretold from the samples for many, and the one is taken that comes nearest to the
 * share of steps that is wanted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "job/job.h"
#include "sample/polynomial.h"

/* Steps of one run that TeaCache would leave out by its rule zoetrope, if leaving out steps did not
 * change what comes after. */
static size_t foretell_run(const zoe_calibration *c, const zoe_cache_params *p, size_t run)
{
    const zoe_sample *at = &c->samples[run * c->steps * 2];
    double sum[2] = {0.0, 0.0};
    size_t since = 0, streak = 0, skipped = 0;
    for (size_t step = 0; step < c->steps; step++, at += 2) {
        since = step > 0 && at[0].low_noise == at[-2].low_noise && at[1].seen == at[-1].seen
                    ? since + 1
                    : 0;
        bool skip = since >= p->warmup && c->steps - step > p->cooldown && streak < p->max_skips;
        for (size_t b = 0; b < 2; b++) {
            if (!at[b].seen || since == 0)
                continue;
            const double y = zoe_polynomial_at(p->coefficients, p->coefficient_count,
                                               zoe_calibrate_x(c, &at[b]));
            sum[b] += y > 0.0 ? y : 0.0;
            skip = skip && isfinite(y) && sum[b] < p->threshold;
        }
        streak = skip ? streak + 1 : 0;
        skipped += skip;
        if (!skip)
            sum[0] = sum[1] = 0.0;
    }
    return skipped;
}

static zoe_status foretell_tea(const zoe_calibration *c, const zoe_cache_params *p, double *skipped)
{
    *skipped = 0.0;
    for (size_t run = 0; run < c->n; run++)
        *skipped += (double)foretell_run(c, p, run) / (double)c->n;
    return ZOE_OK;
}

/* MagCache goes by its table alone. */
static zoe_status foretell_mag(const zoe_calibration *c, const zoe_cache_params *p, double *skipped)
{
    const zoe_cache_shape shape = {
        .steps = c->steps, .high_steps = c->plan.high_steps, .blocks = 1};
    bool known, computed[ZOE_CACHE_RATIOS / 2];
    *skipped = 0.0;
    TRY(zoe_cache_foretell(c->ctx, p, &shape, &known, computed));
    for (size_t step = 0; step < c->steps; step++)
        *skipped += !computed[step];
    return ZOE_OK;
}

typedef zoe_status (*foretell)(const zoe_calibration *c, const zoe_cache_params *p,
                               double *skipped);

/* The least one of those that leave out the most, but no more than is wanted. */
static zoe_status choose(const zoe_calibration *c, zoe_cache_params *p, foretell how,
                         zoe_calibrate_threshold *t)
{
    static const double digits[] = {1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2};
    static const double powers[] = {1e4, 1e3, 1e2, 1e1, 1.0, 0.1};
    const size_t n = sizeof digits / sizeof *digits;
    *t = (zoe_calibrate_threshold){0};
    for (size_t i = 0; i < n * (sizeof powers / sizeof *powers); i++) {
        double skipped;
        p->threshold = digits[i % n] / powers[i / n];
        TRY(how(c, p, &skipped));
        if (skipped <= c->skip * (double)c->steps + 1e-9 && skipped > t->skipped)
            *t = (zoe_calibrate_threshold){p->threshold, skipped};
    }
    return ZOE_OK;
}

zoe_status zoe_calibrate_thresholds(const zoe_calibration *c, zoe_calibrate_result *r)
{
    zoe_cache_params p;
    zoe_cache_params_init(&p, ZOE_CACHE_TEA, ZOE_CACHE_ZOETROPE);
    memcpy(p.coefficients, r->coefficients, sizeof r->coefficients);
    p.coefficient_count = ZOE_CALIBRATE_TERMS;
    TRY(choose(c, &p, foretell_tea, &r->threshold[0]));
    zoe_cache_params_init(&p, ZOE_CACHE_MAG, ZOE_CACHE_ZOETROPE);
    memcpy(p.ratios, r->ratios, 2 * c->steps * sizeof *r->ratios);
    p.ratio_count = 2 * c->steps;
    return choose(c, &p, foretell_mag, &r->threshold[1]);
}
