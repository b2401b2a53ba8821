/* What holds for every solver: few steps, order of steps, threads, NaN, resuming; and guidance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sample/sample.h"

static const zoe_solver_kind kinds[] = {ZOE_SOLVER_UNIPC, ZOE_SOLVER_DPMPP, ZOE_SOLVER_EULER};
enum { KINDS = 3 };

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

typedef struct run {
    zoe_schedule schedule;
    zoe_solver *solver;
    size_t n;
    float *x, *v;
} run;

static run run_new(zoe_context *ctx, zoe_solver_kind kind, size_t steps, size_t n)
{
    run r = {.n = n};
    assert_int_equal(zoe_schedule_new(ctx, &r.schedule, kind, ZOE_SCHEDULE_WAN, steps, 5.0),
                     ZOE_OK);
    assert_int_equal(zoe_solver_new(ctx, &r.solver, &r.schedule, n), ZOE_OK);
    r.x = malloc((n + 1) * sizeof *r.x);
    r.v = malloc((n + 1) * sizeof *r.v);
    assert_non_null(r.x);
    assert_non_null(r.v);
    for (size_t i = 0; i < n; i++)
        r.x[i] = sinf(0.7f * (float)(i % 1009));
    return r;
}

static void run_free(run *r)
{
    zoe_solver_free(r->solver);
    zoe_schedule_free(&r->schedule);
    free(r->x);
    free(r->v);
}

static void velocity(run *r, size_t step)
{
    for (size_t i = 0; i < r->n; i++)
        r->v[i] = 0.3f * r->x[i] + 0.5f * (float)((i + 7 * step) % 11) - 2.0f;
}

static void run_steps(zoe_context *ctx, run *r, size_t begin, size_t end)
{
    for (size_t k = begin; k < end; k++) {
        velocity(r, k);
        assert_int_equal(zoe_solver_step(ctx, r->solver, r->x, r->v, k), ZOE_OK);
    }
}

/* The last sample is the last x0 prediction x - sigma v, exactly, for any number of steps. */
static void the_last_sample_is_the_last_prediction(void **state)
{
    enum { N = 50 };
    for (size_t k = 0; k < KINDS; k++)
        for (size_t steps = 1; steps <= 5; steps++) {
            run r = run_new(*state, kinds[k], steps, N);
            run_steps(*state, &r, 0, steps - 1);
            float want[N];
            velocity(&r, steps - 1);
            for (size_t i = 0; i < N; i++)
                want[i] = r.x[i] - r.schedule.sigma[steps - 1] * r.v[i];
            assert_int_equal(zoe_solver_step(*state, r.solver, r.x, r.v, steps - 1), ZOE_OK);
            for (size_t i = 0; i < N; i++)
                assert_true(r.x[i] == want[i]);
            run_free(&r);
        }
}

/* A constant x0 is met exactly by every method: all corrections vanish. */
static void a_constant_target_is_met_on_a_straight_line(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        run r = run_new(*state, kinds[k], 12, 1);
        const float target = 0.75f, start = -1.5f;
        const float sigma0 = r.schedule.sigma[0],
                    noise = (start - (1.0f - sigma0) * target) / sigma0;
        r.x[0] = start;
        for (size_t i = 0; i < 12; i++) {
            r.v[0] = (r.x[0] - target) / r.schedule.sigma[i];
            assert_int_equal(zoe_solver_step(*state, r.solver, r.x, r.v, i), ZOE_OK);
            const float s = r.schedule.sigma[i + 1];
            assert_true(fabsf(r.x[0] - ((1.0f - s) * target + s * noise)) < 2e-6f);
        }
        run_free(&r);
    }
}

static void steps_must_come_in_order(void **state)
{
    zoe_context *ctx = *state;
    for (size_t k = 0; k < KINDS; k++) {
        run r = run_new(ctx, kinds[k], 2, 3);
        velocity(&r, 0);
        zoe_context_clear(ctx);
        assert_int_equal(zoe_solver_step(ctx, r.solver, r.x, r.v, 1), ZOE_INVALID);
        assert_string_equal(zoe_context_message(ctx),
                            "solver step 1 was asked for, step 0 of 2 is due");
        run_steps(ctx, &r, 0, 2);
        assert_int_equal(zoe_solver_step(ctx, r.solver, r.x, r.v, 1), ZOE_INVALID);
        assert_int_equal(zoe_solver_step(ctx, r.solver, r.x, r.v, 2), ZOE_INVALID);
        run_free(&r);
    }
}

static void threads_do_not_change_a_byte(void **state)
{
    enum { N = 3 * 65536 + 17, STEPS = 4 };
    zoe_context *many = zoe_context_new(3);
    assert_non_null(many);
    for (size_t k = 0; k < KINDS; k++) {
        run a = run_new(*state, kinds[k], STEPS, N), b = run_new(many, kinds[k], STEPS, N);
        run_steps(*state, &a, 0, STEPS);
        run_steps(many, &b, 0, STEPS);
        assert_memory_equal(a.x, b.x, N * sizeof *a.x);
        /* Values do not see each other: the first ones are those of a short latent. */
        run c = run_new(*state, kinds[k], STEPS, 100);
        run_steps(*state, &c, 0, STEPS);
        assert_memory_equal(a.x, c.x, 100 * sizeof *a.x);
        run_free(&a);
        run_free(&b);
        run_free(&c);
    }
    zoe_context_free(many);
}

static void no_values_are_fine(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        run r = run_new(*state, kinds[k], 3, 0);
        run_steps(*state, &r, 0, 3);
        run_free(&r);
    }
}

static void nonfinite_values_stay_in_their_element(void **state)
{
    enum { N = 8, STEPS = 5 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < KINDS; k++)
        for (size_t b = 0; b < 3; b++)
            for (size_t when = 0; when < STEPS; when++) {
                run r = run_new(*state, kinds[k], STEPS, N),
                    clean = run_new(*state, kinds[k], STEPS, N);
                for (size_t i = 0; i < STEPS; i++) {
                    velocity(&r, i);
                    velocity(&clean, i);
                    if (i == when)
                        r.v[3] = bad[b];
                    assert_int_equal(zoe_solver_step(*state, r.solver, r.x, r.v, i), ZOE_OK);
                    assert_int_equal(zoe_solver_step(*state, clean.solver, clean.x, clean.v, i),
                                     ZOE_OK);
                }
                for (size_t i = 0; i < N; i++)
                    assert_true(i == 3 ? !isfinite(r.x[i]) : r.x[i] == clean.x[i]);
                run_free(&r);
                run_free(&clean);
            }
}

static void resumed_equals_uninterrupted(void **state)
{
    enum { N = 40, STEPS = 6 };
    zoe_context *ctx = *state;
    for (size_t k = 0; k < KINDS; k++)
        for (size_t stop = 0; stop <= STEPS; stop++) {
            run whole = run_new(ctx, kinds[k], STEPS, N), first = run_new(ctx, kinds[k], STEPS, N);
            run second = run_new(ctx, kinds[k], STEPS, N);
            run_steps(ctx, &whole, 0, STEPS);
            run_steps(ctx, &first, 0, stop);
            float *from[ZOE_SOLVER_HISTORY], *to[ZOE_SOLVER_HISTORY];
            const size_t buffers = zoe_solver_history(first.solver, from);
            assert_int_equal(zoe_solver_history(second.solver, to), buffers);
            for (size_t i = 0; i < buffers; i++)
                memcpy(to[i], from[i], N * sizeof *to[i]);
            memcpy(second.x, first.x, N * sizeof *first.x);
            assert_int_equal(zoe_solver_resume(ctx, second.solver, stop), ZOE_OK);
            run_steps(ctx, &second, stop, STEPS);
            assert_memory_equal(second.x, whole.x, N * sizeof *whole.x);
            assert_int_equal(zoe_solver_resume(ctx, second.solver, STEPS + 1), ZOE_INVALID);
            run_free(&whole);
            run_free(&first);
            run_free(&second);
        }
}

static void failing_memory_leaves_nothing(void **state)
{
    zoe_context *ctx = *state;
    for (size_t k = 0; k < KINDS; k++) {
        zoe_schedule schedule;
        assert_int_equal(zoe_schedule_new(ctx, &schedule, kinds[k], ZOE_SCHEDULE_WAN, 3, 5.0),
                         ZOE_OK);
        zoe_status status = ZOE_NOMEM;
        size_t n = 1;
        for (; status != ZOE_OK; n++) {
            zoe_solver *solver;
            zoe_alloc_fail_at(n);
            status = zoe_solver_new(ctx, &solver, &schedule, 10);
            zoe_alloc_fail_at(0);
            assert_true(status == ZOE_OK || (status == ZOE_NOMEM && !solver));
            zoe_solver_free(solver);
        }
        float *history[ZOE_SOLVER_HISTORY];
        zoe_solver *solver;
        assert_int_equal(zoe_solver_new(ctx, &solver, &schedule, 10), ZOE_OK);
        assert_int_equal(n, 4 + zoe_solver_history(solver, history));
        assert_int_equal(zoe_solver_bytes(kinds[k], 10), 64 * zoe_solver_history(solver, history));
        zoe_solver_free(solver);
        assert_int_equal(zoe_solver_new(ctx, &solver, &schedule, SIZE_MAX / 4),
                         kinds[k] == ZOE_SOLVER_EULER ? ZOE_OK : ZOE_NOMEM);
        zoe_solver_free(solver);
        zoe_schedule_free(&schedule);
        zoe_solver *none;
        assert_int_equal(zoe_solver_new(ctx, &none, &schedule, 10), ZOE_INVALID);
        assert_null(none);
    }
    assert_true(zoe_solver_bytes(ZOE_SOLVER_UNIPC, SIZE_MAX / 8) == SIZE_MAX);
    assert_int_equal(zoe_solver_bytes(ZOE_SOLVER_EULER, 1000), 0);
}

static void guidance_keeps_its_order_of_operations(void **state)
{
    (void)state;
    float cond[] = {1.0f, -2.0f, 0.3f, NAN}, kept[4];
    const float uncond[] = {0.5f, 1.0f, 0.1f, 0.0f};
    memcpy(kept, cond, sizeof cond);
    zoe_guide(cond, uncond, 3.5f, 4);
    for (size_t i = 0; i < 3; i++) {
        const float difference = kept[i] - uncond[i], scaled = 3.5f * difference;
        assert_true(cond[i] == uncond[i] + scaled);
    }
    assert_true(isnan(cond[3]));
    zoe_guide(cond, uncond, 3.5f, 0);
}

static void experts_change_at_the_boundary(void **state)
{
    (void)state;
    assert_int_equal(zoe_expert_of(900.0f, 0.9), ZOE_HIGH_NOISE);
    assert_int_equal(zoe_expert_of(899.0f, 0.9), ZOE_LOW_NOISE);
    assert_int_equal(zoe_expert_of(875.0f, 0.875), ZOE_HIGH_NOISE);
    assert_int_equal(zoe_expert_of(874.0f, 0.875), ZOE_LOW_NOISE);
    assert_int_equal(zoe_expert_of(937.5f, 0.9), ZOE_HIGH_NOISE);
    assert_int_equal(zoe_expert_of(0.0f, 0.0), ZOE_HIGH_NOISE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_sample_is_the_last_prediction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_constant_target_is_met_on_a_straight_line, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(steps_must_come_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_do_not_change_a_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_values_are_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nonfinite_values_stay_in_their_element, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resumed_equals_uninterrupted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, set_up, tear_down),
        cmocka_unit_test(guidance_keeps_its_order_of_operations),
        cmocka_unit_test(experts_change_at_the_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
