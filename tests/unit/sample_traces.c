/* Whole trajectories of each solver on a small field whose values are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample/solver.h"

enum { N = 4 };

typedef struct trace {
    zoe_solver_kind kind;
    size_t steps;
    double shift;
    size_t step; /* after which x was noted */
    float x[N];
} trace;

static const trace traces[] = {
    {ZOE_SOLVER_UNIPC, 4, 5, 0, {1.01250684f, -0.515633583f, 0.248436645f, 2.03126717f}},
    {ZOE_SOLVER_UNIPC, 4, 5, 1, {1.01986516f, -0.556352496f, 0.231756315f, 2.0706768f}},
    {ZOE_SOLVER_UNIPC, 4, 5, 2, {1.00715554f, -0.669654369f, 0.168750539f, 2.12502885f}},
    {ZOE_SOLVER_UNIPC, 4, 5, 3, {0.946027815f, -1.04502678f, -0.0494995117f, 2.27339745f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 0, {1.01250362f, -0.51562953f, 0.248437047f, 2.03125906f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 1, {1.01759768f, -0.547666132f, 0.234965786f, 2.06110692f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 2, {1.01094425f, -0.605458736f, 0.202742755f, 2.08854628f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 3, {0.986840963f, -0.703806341f, 0.141517252f, 2.11393929f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 4, {0.922625184f, -0.886027694f, 0.0182986427f, 2.12839389f}},
    {ZOE_SOLVER_UNIPC, 6, 3, 5, {0.801511407f, -1.21046233f, -0.204475537f, 2.14282727f}},
    {ZOE_SOLVER_UNIPC, 20, 5, 10, {0.908987641f, -0.682095051f, 0.113446303f, 1.9697094f}},
    {ZOE_SOLVER_UNIPC, 20, 5, 19, {-0.449250102f, -2.47090602f, -1.46007824f, 0.898520112f}},
    {ZOE_SOLVER_DPMPP, 4, 5, 0, {1.01250005f, -0.515625f, 0.248437494f, 2.03125f}},
    {ZOE_SOLVER_DPMPP, 4, 5, 1, {1.02330732f, -0.552571654f, 0.235367835f, 2.07389331f}},
    {ZOE_SOLVER_DPMPP, 4, 5, 2, {1.01468515f, -0.661178589f, 0.176753223f, 2.13192749f}},
    {ZOE_SOLVER_DPMPP, 4, 5, 3, {0.95493865f, -1.03514957f, -0.0401055515f, 2.28166389f}},
    {ZOE_SOLVER_DPMPP, 6, 3, 5, {0.812103927f, -1.19845867f, -0.193177372f, 2.15247941f}},
    {ZOE_SOLVER_DPMPP, 20, 5, 19, {-0.450501651f, -2.47219229f, -1.46134686f, 0.897292316f}},
};

static int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

/* The field: v = (k + 1) / 10 - 3 x / 10 at step k. */
static void run_until(zoe_context *ctx, float *x, const trace *t)
{
    zoe_schedule schedule;
    zoe_solver *solver;
    assert_int_equal(
        zoe_schedule_new(ctx, &schedule, t->kind, ZOE_SCHEDULE_WAN, t->steps, t->shift), ZOE_OK);
    assert_int_equal(zoe_solver_new(ctx, &solver, &schedule, N), ZOE_OK);
    memcpy(x, (const float[N]){1.0f, -0.5f, 0.25f, 2.0f}, N * sizeof *x);
    for (size_t k = 0; k <= t->step; k++) {
        float v[N];
        for (size_t i = 0; i < N; i++)
            v[i] = 0.1f * (float)(k + 1) - 0.3f * x[i];
        assert_int_equal(zoe_solver_step(ctx, solver, x, v, k), ZOE_OK);
    }
    zoe_solver_free(solver);
    zoe_schedule_free(&schedule);
}

static void trajectories(void **state)
{
    for (size_t k = 0; k < sizeof traces / sizeof *traces; k++) {
        float x[N];
        run_until(*state, x, &traces[k]);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(x[i] - traces[k].x[i]) <= 3e-6f);
    }
}

/* The scalars of UniPC's corrector to level i of 40 steps with shift 5. */
static void unipc_coefficients(void **state)
{
    static const struct {
        size_t i;
        float h, phi, keep, alpha, r, rho1, rho;
    } rows[] = {
        {1, 3.28248882f, -0.962465286f, 0.994893909f, 0.00530523062f, 0.0f, 0.0f, 0.5f},
        {2, 0.699686527f, -0.503259003f, 0.994653881f, 0.0106229782f, -4.69137049f, 0.0290478859f,
         0.528789043f},
        {3, 0.425571442f, -0.346603692f, 0.994396448f, 0.016166985f, -1.64411068f, 0.0628436282f,
         0.472514033f},
        {10, 0.13770771f, -0.128646657f, 0.991929412f, 0.0627345443f, -1.08184552f, 0.0800324529f,
         0.431439668f},
        {20, 0.0999782085f, -0.0951428637f, 0.984116375f, 0.166944623f, -1.00492203f, 0.0831148028f,
         0.425215364f},
        {39, 0.719095945f, -0.512807488f, 0.545413196f, 0.88646698f, -0.600900114f, 0.103221953f,
         0.456192613f},
    };
    zoe_schedule s;
    assert_int_equal(zoe_schedule_new(*state, &s, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 40, 5.0),
                     ZOE_OK);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const size_t i = rows[k].i;
        const zoe_unipc_update u = zoe_unipc_update_of(s.sigma, i - 1, i == 1 ? 1 : 2);
        assert_true(fabsf(u.h - rows[k].h) <= 1e-6f);
        assert_true(fabsf(u.phi - rows[k].phi) <= 1e-6f);
        assert_true(u.keep == rows[k].keep);
        assert_true(fabsf(u.lean - rows[k].alpha * rows[k].phi) <= 1e-6f);
        assert_true(fabsf(u.r - rows[k].r) <= 2e-5f);
        /* b1 and b2 lose about six bits to cancellation when h is small. */
        assert_true(fabsf(u.rho1 - rows[k].rho1) <= 5e-5f);
        assert_true(fabsf(u.rho - rows[k].rho) <= 5e-5f);
    }
    assert_true(fabsf(zoe_half_log_snr(s.sigma[0]) - -8.51623154f) <= 1e-6f);
    assert_true(fabsf(zoe_half_log_snr(s.sigma[39]) - 2.05515003f) <= 1e-6f);
    zoe_schedule_free(&s);
    assert_true(isinf(zoe_half_log_snr(0.0f)) && zoe_half_log_snr(0.0f) > 0.0f);
    assert_true(isinf(zoe_half_log_snr(1.0f)) && zoe_half_log_snr(1.0f) < 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(trajectories, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unipc_coefficients, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
