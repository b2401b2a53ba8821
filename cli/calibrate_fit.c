/* What is made of the samples of a calibration. */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "calibrate.h"
#include "sample/polynomial.h"

double zoe_calibrate_x(const zoe_calibration *c, const zoe_sample *s)
{
    const double judges[] = {s->change.modulated, s->change.embedding, s->change.projection};
    return judges[c->judge];
}

double zoe_calibrate_y(const zoe_calibration *c, const zoe_sample *s)
{
    return c->target == 0 ? s->change.output : s->change.residual;
}

/* Is it a pass that follows one of its expert? Only such a one was compared with another. */
static bool follows(size_t step, const zoe_sample *s)
{
    return s->seen && step > 0 && s[-2].seen && s[-2].low_noise == s->low_noise;
}

typedef struct points {
    double *x, *y;
    size_t n;
} points;

/* Those of an expert: 0 high noise, 1 low noise, 2 all. */
static void gather(const zoe_calibration *c, points *p, unsigned expert, size_t *unfit)
{
    p->n = 0;
    for (size_t i = 0; i < c->n * c->steps * 2; i++) {
        const zoe_sample *s = &c->samples[i];
        if (!follows(i / 2 % c->steps, s) || (expert < 2 && expert != (unsigned)s->low_noise))
            continue;
        p->x[p->n] = zoe_calibrate_x(c, s);
        p->y[p->n] = zoe_calibrate_y(c, s);
        if (isfinite(p->x[p->n]) && isfinite(p->y[p->n]))
            p->n++;
        else
            ++*unfit;
    }
}

static zoe_calibrate_error judge(const zoe_calibrate_result *r, const points *p)
{
    zoe_calibrate_error e = {.n = p->n, .low = (double)INFINITY, .high = -(double)INFINITY};
    double mean = 0.0, errors = 0.0, spread = 0.0;
    for (size_t i = 0; i < p->n; i++)
        mean += p->y[i] / (double)p->n;
    for (size_t i = 0; i < p->n; i++) {
        const double error =
            zoe_polynomial_at(r->coefficients, ZOE_CALIBRATE_TERMS, p->x[i]) - p->y[i];
        errors += error * error;
        spread += (p->y[i] - mean) * (p->y[i] - mean);
        e.low = fmin(e.low, p->x[i]);
        e.high = fmax(e.high, p->x[i]);
    }
    e.rmse = sqrt(errors / (double)p->n);
    e.r2 = spread > 0.0 ? 1.0 - errors / spread : 1.0;
    return e;
}

static zoe_status fit_tea(const zoe_calibration *c, zoe_calibrate_result *r)
{
    const size_t count = c->n * c->steps * 2;
    void *x = NULL, *y = NULL;
    points p = {NULL, NULL, 0};
    zoe_polynomial_fit fit;
    zoe_status status;
    size_t ignored = 0;
    TRY_GOTO(zoe_alloc(c->ctx, &x, count, sizeof(double), "samples"));
    TRY_GOTO(zoe_alloc(c->ctx, &y, count, sizeof(double), "samples"));
    p.x = x;
    p.y = y;
    gather(c, &p, 2, &r->unfit);
    TRY_GOTO(zoe_polynomial_by_squares(c->ctx, r->coefficients, ZOE_CALIBRATE_TERMS, p.x, p.y, p.n,
                                       "TeaCache's judge", &fit));
    r->all = judge(r, &p);
    for (unsigned expert = 0; expert < 2; expert++) {
        gather(c, &p, expert, &ignored);
        r->expert[expert] = judge(r, &p);
    }
done:
    zoe_free(x);
    zoe_free(y);
    return status;
}

/* Mean over the runs; NAN if no run has such a pass. */
static double mean_ratio(const zoe_calibration *c, size_t step, size_t branch, double *deviation,
                         size_t *unfit)
{
    double sum = 0.0, squares = 0.0;
    size_t n = 0;
    for (size_t run = 0; run < c->n; run++) {
        const zoe_sample *s = &c->samples[(run * c->steps + step) * 2 + branch];
        if (!s->seen || !s[-2].seen)
            continue;
        if (!isfinite(s->change.magnitude)) {
            ++*unfit;
            continue;
        }
        sum += s->change.magnitude;
        squares += s->change.magnitude * s->change.magnitude;
        n++;
    }
    const double mean = sum / (double)n;
    *deviation = n > 1 ? sqrt(fmax(0.0, squares / (double)n - mean * mean)) : 0.0;
    return mean;
}

/* Five decimals, as published tables have them. Without guidance the table's other column is that of
 * the conditional branch: no pass goes by it. */
static zoe_status fit_mag(const zoe_calibration *c, zoe_calibrate_result *r)
{
    r->ratios[0] = r->ratios[1] = 1.0;
    r->guided = c->samples[1].seen;
    for (size_t step = 1; step < c->steps; step++)
        for (size_t branch = 0; branch < 2; branch++) {
            double deviation, *ratio = &r->ratios[2 * step + branch];
            *ratio = mean_ratio(c, step, branch, &deviation, &r->unfit);
            const bool other = branch == 1 && isnan(*ratio);
            r->guided = r->guided && !other;
            if (other)
                *ratio = ratio[-1];
            if (!isfinite(*ratio) || *ratio > 1e3)
                return zoe_fail(c->ctx, ZOE_INVALID,
                                "MagCache: step %zu of %zu has no ratio of magnitudes (%g): the "
                                "blocks of the step before added nothing",
                                step + 1, c->steps, *ratio);
            *ratio = nearbyint(*ratio * 1e5) / 1e5;
            if (deviation > r->spread) {
                r->spread = deviation;
                r->ratio_step = step;
            }
        }
    return ZOE_OK;
}

zoe_status zoe_calibrate_fit(const zoe_calibration *c, zoe_calibrate_result *r)
{
    TRY(fit_tea(c, r));
    TRY(fit_mag(c, r));
    return zoe_calibrate_thresholds(c, r);
}
