/* Sigma schedules: levels that are evenly spaced or listed, bent by the shift towards the noisy end. */
#include "sample/sample.h"

static const double TRAIN_STEPS = 1000.0;

static double shifted(double s, double shift)
{
    return shift * s / (1.0 + (shift - 1.0) * s);
}

/* Point i of n evenly spaced ones from a to b, both included, rounded as numpy.linspace does. */
static double spaced(double a, double b, size_t n, size_t i)
{
    if (n > 1 && i == n - 1)
        return b;
    return n > 1 ? (double)i * ((b - a) / (double)(n - 1)) + a : a;
}

/* Wan's UniPC starts at the largest level of its training table, which is kept in f32; timesteps
 * lose their fraction, sigmas do not. */
static void fill_unipc_wan(zoe_schedule *s)
{
    const double highest = (double)(float)(1.0 - 1.0 / TRAIN_STEPS);
    for (size_t i = 0; i < s->steps; i++) {
        const double sigma = shifted(spaced(highest, 0.0, s->steps + 1, i), s->shift);
        s->sigma[i] = (float)sigma;
        s->timestep[i] = (float)trunc(sigma * TRAIN_STEPS);
    }
}

/* Wan's DPM++ starts at exactly 1. */
static void fill_dpmpp_wan(zoe_schedule *s)
{
    for (size_t i = 0; i < s->steps; i++) {
        const double sigma = shifted(spaced(1.0, 0.0, s->steps + 1, i), s->shift);
        s->sigma[i] = (float)sigma;
        s->timestep[i] = (float)trunc(sigma * TRAIN_STEPS);
    }
}

/* The official code has no Euler. This is its DPM++ schedule with t = 1000 sigma unrounded: what
 * hosts of few-step distilled models use (shift 5, four steps: sigma 1, 0.9375, 0.8333, 0.625, 0).
 */
static void fill_euler_wan(zoe_schedule *s)
{
    for (size_t i = 0; i < s->steps; i++) {
        s->sigma[i] = (float)shifted(spaced(1.0, 0.0, s->steps + 1, i), s->shift);
        s->timestep[i] = s->sigma[i] * (float)TRAIN_STEPS;
    }
}

/* UniPCMultistepScheduler(use_flow_sigmas=True): down to a last level near 1/1000, and off 1 by a
 * hair, where the half log SNR would be -inf. */
static void fill_unipc_diffusers(zoe_schedule *s)
{
    const double hair = 1e-6;
    for (size_t i = 0; i < s->steps; i++) {
        double sigma = shifted(spaced(1.0, 1.0 / TRAIN_STEPS, s->steps + 1, i), s->shift);
        if (i == 0 && fabs(sigma - 1.0) < hair)
            sigma -= hair;
        s->sigma[i] = (float)sigma;
        s->timestep[i] = (float)trunc(sigma * TRAIN_STEPS);
    }
}

/* DPMSolverMultistepScheduler(use_flow_sigmas=True): evenly spaced in alpha = 1 - sigma, counted
 * from the clean end. */
static void fill_dpmpp_diffusers(zoe_schedule *s)
{
    for (size_t i = 0; i < s->steps; i++) {
        const double alpha = spaced(1.0, 1.0 / TRAIN_STEPS, s->steps + 1, s->steps - i);
        const double sigma = shifted(1.0 - alpha, s->shift);
        s->sigma[i] = (float)sigma;
        s->timestep[i] = (float)trunc(sigma * TRAIN_STEPS);
    }
}

/* FlowMatchEulerDiscreteScheduler: spaced between the ends of a training table that is already
 * shifted (in f32), then shifted again, so the low end is bent twice. */
static void fill_euler_diffusers(zoe_schedule *s)
{
    const float shift = (float)s->shift, less = (float)(s->shift - 1.0);
    const float highest = shift / (1.0f + less);
    const float first = 1.0f / (float)TRAIN_STEPS, lowest = shift * first / (1.0f + less * first);
    for (size_t i = 0; i < s->steps; i++) {
        const double t =
            spaced((double)highest * TRAIN_STEPS, (double)lowest * TRAIN_STEPS, s->steps, i);
        s->sigma[i] = (float)shifted(t / TRAIN_STEPS, s->shift);
        s->timestep[i] = s->sigma[i] * (float)TRAIN_STEPS;
    }
}

static zoe_status fill(zoe_context *ctx, zoe_schedule *s)
{
    const bool wan = s->form == ZOE_SCHEDULE_WAN;
    if (!wan && s->form != ZOE_SCHEDULE_DIFFUSERS)
        return zoe_fail(ctx, ZOE_INVALID, "schedule form %d is not known", (int)s->form);
    switch (s->solver) {
    case ZOE_SOLVER_UNIPC: (wan ? fill_unipc_wan : fill_unipc_diffusers)(s); break;
    case ZOE_SOLVER_DPMPP: (wan ? fill_dpmpp_wan : fill_dpmpp_diffusers)(s); break;
    case ZOE_SOLVER_EULER: (wan ? fill_euler_wan : fill_euler_diffusers)(s); break;
    default: return zoe_fail(ctx, ZOE_INVALID, "solver %d is not known", (int)s->solver);
    }
    s->sigma[s->steps] = 0.0f;
    return ZOE_OK;
}

static zoe_status check_levels(zoe_context *ctx, const zoe_schedule *s)
{
    for (size_t i = 0; i < s->steps; i++)
        if (!(s->sigma[i] > s->sigma[i + 1]))
            return zoe_fail(ctx, ZOE_INVALID,
                            "%zu steps with shift %g: noise levels %zu and %zu are %.9g and %.9g, "
                            "they must fall; take fewer steps or a shift nearer to 1",
                            s->steps, s->shift, i, i + 1, (double)s->sigma[i],
                            (double)s->sigma[i + 1]);
    return ZOE_OK;
}

static zoe_status check(zoe_context *ctx, const zoe_schedule *s)
{
    TRY(check_levels(ctx, s));
    /* The official solvers look their first step up by its timestep and take the second of two
     * equal ones; they then run past the end of the table. */
    if (s->steps > 1 && s->timestep[0] == s->timestep[1])
        return zoe_fail(ctx, ZOE_INVALID,
                        "%zu steps with shift %g: the first two timesteps are both %g, which the "
                        "reference solver cannot run; take fewer steps or a smaller shift",
                        s->steps, s->shift, (double)s->timestep[0]);
    return ZOE_OK;
}

/* Memory for the levels; what was taken before an error is the caller's to free. */
static zoe_status take(zoe_context *ctx, zoe_schedule *s)
{
    size_t levels;
    void *p;
    if (!(s->shift > 0.0) || !isfinite(s->shift))
        return zoe_fail(ctx, ZOE_INVALID, "shift is %g, a positive number is needed", s->shift);
    if (!zoe_size_add(&levels, s->steps, 1))
        return zoe_fail(ctx, ZOE_INVALID, "%zu sampling steps are too many", s->steps);
    TRY(zoe_alloc(ctx, &p, levels, sizeof(float), "noise levels"));
    s->sigma = p;
    TRY(zoe_alloc(ctx, &p, s->steps, sizeof(float), "timesteps"));
    s->timestep = p;
    return ZOE_OK;
}

zoe_status zoe_schedule_new(zoe_context *ctx, zoe_schedule *schedule, zoe_solver_kind solver,
                            zoe_schedule_form form, size_t steps, double shift)
{
    *schedule = (zoe_schedule){0};
    if (steps < 1)
        return zoe_fail(ctx, ZOE_INVALID, "0 sampling steps, at least 1 is needed");
    zoe_schedule s = {.solver = solver, .form = form, .steps = steps, .shift = shift};
    zoe_status status;
    TRY_GOTO(take(ctx, &s));
    TRY_GOTO(fill(ctx, &s));
    TRY_GOTO(check(ctx, &s));
    *schedule = s;
done:
    if (status != ZOE_OK)
        zoe_schedule_free(&s);
    return status;
}

zoe_status zoe_step_list_check(zoe_context *ctx, const double *list, size_t n)
{
    if (n < 1)
        return zoe_fail(ctx, ZOE_INVALID, "step list: it is empty, at least 1 step is needed");
    for (size_t i = 0; i < n; i++) {
        if (!(list[i] > 0.0 && list[i] <= TRAIN_STEPS))
            return zoe_fail(ctx, ZOE_INVALID,
                            "step list: step %zu is %g; above 0 and up to %g is wanted", i + 1,
                            list[i], TRAIN_STEPS);
        if (i > 0 && !(list[i] < list[i - 1]))
            return zoe_fail(
                ctx, ZOE_INVALID,
                "step list: %g stands after %g; from noise to none, each step below the "
                "one before it, is wanted",
                list[i], list[i - 1]);
    }
    return ZOE_OK;
}

zoe_status zoe_schedule_new_list(zoe_context *ctx, zoe_schedule *schedule, const double *list,
                                 size_t n, double shift)
{
    *schedule = (zoe_schedule){0};
    TRY(zoe_step_list_check(ctx, list, n));
    zoe_schedule s = {
        .solver = ZOE_SOLVER_EULER, .form = ZOE_SCHEDULE_LIST, .steps = n, .shift = shift};
    zoe_status status;
    TRY_GOTO(take(ctx, &s));
    for (size_t i = 0; i < n; i++) {
        s.sigma[i] = (float)shifted(list[i] / TRAIN_STEPS, shift);
        s.timestep[i] = s.sigma[i] * (float)TRAIN_STEPS;
    }
    s.sigma[n] = 0.0f;
    TRY_GOTO(check_levels(ctx, &s));
    *schedule = s;
done:
    if (status != ZOE_OK)
        zoe_schedule_free(&s);
    return status;
}

void zoe_schedule_free(zoe_schedule *schedule)
{
    zoe_free(schedule->sigma);
    zoe_free(schedule->timestep);
    *schedule = (zoe_schedule){0};
}
