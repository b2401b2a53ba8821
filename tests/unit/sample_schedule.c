/* Sigma schedules against the numbers of the reference codes, and their refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sample/sample.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

static zoe_schedule schedule_of(void **state, zoe_solver_kind kind, zoe_schedule_form form,
                                size_t steps, double shift)
{
    zoe_schedule s;
    assert_int_equal(zoe_schedule_new(*state, &s, kind, form, steps, shift), ZOE_OK);
    assert_int_equal(s.steps, steps);
    assert_true(s.shift == shift);
    assert_true(s.sigma[steps] == 0.0f);
    return s;
}

static void check_sigmas(const zoe_schedule *s, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_true(s->sigma[i] == want[i]);
}

static void check_timesteps(const zoe_schedule *s, const int *want, size_t n)
{
    assert_int_equal(n, s->steps);
    for (size_t i = 0; i < n; i++)
        assert_true(s->timestep[i] == (float)want[i]);
}

static void unipc_40_steps_shift_5(void **state)
{
    static const float sigma[] = {
        0.999799848f, 0.994694769f, 0.989377022f, 0.983833015f, 0.978048027f, 0.972006023f,
        0.965689421f, 0.959079087f, 0.95215404f,  0.944891274f, 0.937265456f, 0.929248691f,
        0.920810103f, 0.911915481f, 0.902526855f, 0.892601848f, 0.882093251f, 0.870947957f,
        0.859106243f, 0.846500874f, 0.833055377f, 0.818682909f, 0.803284287f, 0.786745369f,
        0.768934727f, 0.749699831f, 0.728862703f, 0.706214368f, 0.681508124f, 0.65444994f,
        0.624687374f, 0.591793478f, 0.55524677f,  0.514402986f, 0.468456924f, 0.41638881f,
        0.356887698f, 0.288239598f, 0.2081597f,   0.11353305f,  0.0f};
    static const int timestep[] = {999, 994, 989, 983, 978, 972, 965, 959, 952, 944,
                                   937, 929, 920, 911, 902, 892, 882, 870, 859, 846,
                                   833, 818, 803, 786, 768, 749, 728, 706, 681, 654,
                                   624, 591, 555, 514, 468, 416, 356, 288, 208, 113};
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 40, 5.0);
    check_sigmas(&s, sigma, COUNT(sigma));
    check_timesteps(&s, timestep, COUNT(timestep));
    size_t high = 0;
    while (high < s.steps && zoe_expert_of(s.timestep[high], 0.9) == ZOE_HIGH_NOISE)
        high++;
    assert_int_equal(high, 15);
    zoe_schedule_free(&s);
    assert_null(s.sigma);
    zoe_schedule_free(&s);
}

static void unipc_other_runs(void **state)
{
    static const int t40[] = {999, 997, 995, 993, 990, 988, 985, 982, 979, 976, 972, 969, 965, 961,
                              956, 952, 947, 941, 936, 929, 922, 915, 907, 898, 888, 877, 865, 852,
                              837, 819, 799, 776, 749, 717, 678, 631, 571, 492, 386, 235};
    static const int t50[] = {999, 995, 991, 987, 982, 978, 973, 968, 963, 957, 952, 946, 940,
                              934, 927, 920, 913, 906, 898, 890, 882, 873, 863, 854, 843, 833,
                              821, 809, 796, 783, 768, 753, 737, 720, 701, 681, 660, 636, 611,
                              584, 555, 522, 487, 448, 405, 356, 302, 241, 172, 92};
    static const int t20[] = {999, 982, 963, 944, 922, 899, 874, 847, 817, 785,
                              749, 710, 666, 617, 562, 499, 428, 345, 249, 136};
    static const int t4[] = {999, 937, 833, 624};
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 40, 12.0);
    check_timesteps(&s, t40, COUNT(t40));
    check_sigmas(&s, (const float[]){0.999916613f, 0.997782648f, 0.995546162f}, 3);
    size_t high = 0;
    while (zoe_expert_of(s.timestep[high], 0.875) == ZOE_HIGH_NOISE)
        high++;
    assert_int_equal(high, 26);
    zoe_schedule_free(&s);

    s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 50, 5.0);
    check_timesteps(&s, t50, COUNT(t50));
    zoe_schedule_free(&s);

    s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 20, 3.0);
    check_timesteps(&s, t20, COUNT(t20));
    check_sigmas(&s, (const float[]){0.999666452f, 0.982419491f, 0.963941097f, 0.944094419f}, 4);
    zoe_schedule_free(&s);

    s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 4, 5.0);
    check_timesteps(&s, t4, COUNT(t4));
    check_sigmas(&s, (const float[]){0.999799848f, 0.937265456f, 0.833055377f, 0.624687374f, 0.0f},
                 5);
    zoe_schedule_free(&s);
}

static void dpmpp_40_steps_shift_5(void **state)
{
    static const int timestep[] = {1000, 994, 989, 984, 978, 972, 965, 959, 952, 945,
                                   937,  929, 921, 912, 902, 892, 882, 871, 859, 846,
                                   833,  818, 803, 787, 769, 750, 729, 706, 681, 654,
                                   625,  592, 555, 514, 468, 416, 357, 288, 208, 113};
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_DPMPP, ZOE_SCHEDULE_WAN, 40, 5.0);
    check_sigmas(&s, (const float[]){1.0f, 0.994897962f, 0.989583313f, 0.984042525f, 0.978260875f},
                 5);
    check_timesteps(&s, timestep, COUNT(timestep));
    zoe_schedule_free(&s);
}

static void euler_4_steps_shift_5(void **state)
{
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_EULER, ZOE_SCHEDULE_WAN, 4, 5.0);
    check_sigmas(&s, (const float[]){1.0f, 0.9375f, 0.833333313f, 0.625f, 0.0f}, 5);
    assert_true(s.timestep[0] == 1000.0f && s.timestep[1] == 937.5f && s.timestep[3] == 625.0f);
    assert_true(fabsf(s.timestep[2] - 833.333313f) <= 1e-4f);
    zoe_schedule_free(&s);

    s = schedule_of(state, ZOE_SOLVER_EULER, ZOE_SCHEDULE_DIFFUSERS, 4, 5.0);
    check_sigmas(&s, (const float[]){1.0f, 0.909707129f, 0.717317462f, 0.0244140662f, 0.0f}, 5);
    zoe_schedule_free(&s);
}

static void unipc_of_diffusers(void **state)
{
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_DIFFUSERS, 40, 5.0);
    check_sigmas(&s, (const float[]){0.999998987f, 0.994903147f, 0.989594162f, 0.984059513f}, 4);
    assert_true(s.timestep[0] == 999.0f);
    zoe_schedule_free(&s);
}

/* Without a shift the levels are evenly spaced; DPM++ of diffusers spaces alpha, and stops short
 * of 1. */
static void dpmpp_of_diffusers(void **state)
{
    zoe_schedule s = schedule_of(state, ZOE_SOLVER_DPMPP, ZOE_SCHEDULE_DIFFUSERS, 3, 1.0);
    check_sigmas(&s, (const float[]){0.999f, 0.666f, 0.333f, 0.0f}, 4);
    check_timesteps(&s, (const int[]){999, 666, 332}, 3); /* 1000 * 0.333 in f64 is below 333 */
    zoe_schedule_free(&s);
}

static void levels_fall_for_all_kinds(void **state)
{
    static const double shifts[] = {0.05, 0.5, 1.0, 3.0, 5.0, 8.0, 12.0};
    for (int kind = ZOE_SOLVER_UNIPC; kind <= ZOE_SOLVER_EULER; kind++)
        for (int form = ZOE_SCHEDULE_WAN; form <= ZOE_SCHEDULE_DIFFUSERS; form++)
            for (size_t k = 0; k < COUNT(shifts); k++)
                for (size_t steps = 1; steps <= 60; steps += 1 + steps / 4) {
                    zoe_schedule s = schedule_of(state, (zoe_solver_kind)kind,
                                                 (zoe_schedule_form)form, steps, shifts[k]);
                    assert_true(s.sigma[0] <= 1.0f);
                    for (size_t i = 0; i < steps; i++) {
                        assert_true(s.sigma[i] > s.sigma[i + 1]);
                        assert_true(fabsf(s.timestep[i] - 1000.0f * s.sigma[i]) <= 1.0f);
                    }
                    zoe_schedule_free(&s);
                }
}

static void refuse(void **state, zoe_solver_kind kind, zoe_schedule_form form, size_t steps,
                   double shift, zoe_status want, const char *word)
{
    zoe_context *ctx = *state;
    zoe_schedule s;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_schedule_new(ctx, &s, kind, form, steps, shift), want);
    assert_non_null(strstr(zoe_context_message(ctx), word));
    assert_null(s.sigma);
    assert_null(s.timestep);
    assert_int_equal(s.steps, 0);
}

static void impossible_schedules_are_refused(void **state)
{
    const zoe_solver_kind unipc = ZOE_SOLVER_UNIPC, euler = ZOE_SOLVER_EULER;
    const zoe_schedule_form wan = ZOE_SCHEDULE_WAN, diffusers = ZOE_SCHEDULE_DIFFUSERS;
    refuse(state, unipc, wan, 0, 5.0, ZOE_INVALID, "0 sampling steps");
    refuse(state, unipc, wan, 4, 0.0, ZOE_INVALID, "shift is 0");
    refuse(state, unipc, wan, 4, -5.0, ZOE_INVALID, "shift is -5");
    refuse(state, unipc, wan, 4, (double)NAN, ZOE_INVALID, "shift is");
    refuse(state, unipc, wan, 4, (double)INFINITY, ZOE_INVALID, "shift is inf");
    refuse(state, (zoe_solver_kind)9, wan, 4, 5.0, ZOE_INVALID, "solver 9");
    refuse(state, unipc, (zoe_schedule_form)9, 4, 5.0, ZOE_INVALID, "form 9");
    refuse(state, unipc, wan, 100, 12.0, ZOE_INVALID, "first two timesteps are both 999");
    refuse(state, unipc, wan, 150, 8.0, ZOE_INVALID, "first two timesteps are both 999");
    refuse(state, unipc, diffusers, 100, 12.0, ZOE_INVALID, "first two timesteps");
    refuse(state, euler, wan, 4, 1e30, ZOE_INVALID, "must fall");
    refuse(state, euler, wan, 4, 1e-60, ZOE_INVALID, "must fall");
    refuse(state, euler, diffusers, 4, 1e300, ZOE_INVALID, "must fall");
    refuse(state, unipc, wan, SIZE_MAX, 5.0, ZOE_INVALID, "too many");
    refuse(state, unipc, wan, SIZE_MAX - 1, 5.0, ZOE_NOMEM, "noise levels");
}

/* Levels and timesteps as torch computes them in f32 by LightX2V's way: a table of 1000 levels, linspace(1,
 * 0, 1001) with the shift, of which the list takes some. That table is up to two bits off. */
static void listed_steps(void **state)
{
    static const struct {
        size_t n;
        double list[6], shift;
        float sigma[6], timestep[6];
        bool exact;
    } rows[] = {
        {4,
         {1000, 750, 500, 250},
         5.0,
         {1.0f, 0.9375f, 0.833333313f, 0.625f},
         {1000.0f, 937.5f, 833.333313f, 625.0f},
         true},
        {4,
         {1000, 750, 500, 250},
         1.0,
         {1.0f, 0.75f, 0.5f, 0.25f},
         {1000.0f, 750.0f, 500.0f, 250.0f},
         true},
        {4,
         {1000, 750, 500, 250},
         12.0,
         {1.0f, 0.972972989f, 0.923076928f, 0.800000012f},
         {1000.0f, 972.972961f, 923.076904f, 800.0f},
         true},
        {4,
         {1000, 750, 500, 250},
         16.0,
         {1.0f, 0.979591846f, 0.941176474f, 0.842105269f},
         {1000.0f, 979.591858f, 941.176453f, 842.105286f},
         true},
        {6,
         {1000, 833, 667, 500, 333, 167},
         3.0,
         {1.0f, 0.937359393f, 0.857326388f, 0.75f, 0.599639833f, 0.375562251f},
         {1000.0f, 937.359375f, 857.326416f, 750.0f, 599.639832f, 375.562256f},
         false},
        {3,
         {999, 500, 1},
         5.0,
         {0.999799788f, 0.833333313f, 0.0049800803f},
         {999.799805f, 833.333313f, 4.98008013f},
         false},
    };
    for (size_t k = 0; k < COUNT(rows); k++) {
        zoe_schedule s;
        assert_int_equal(zoe_schedule_new_list(*state, &s, rows[k].list, rows[k].n, rows[k].shift),
                         ZOE_OK);
        assert_int_equal(s.steps, rows[k].n);
        assert_int_equal(s.solver, ZOE_SOLVER_EULER);
        assert_int_equal(s.form, ZOE_SCHEDULE_LIST);
        assert_true(s.shift == rows[k].shift);
        assert_true(s.sigma[s.steps] == 0.0f);
        for (size_t i = 0; i < s.steps; i++) {
            const float slack = rows[k].exact ? 0.0f : 2.4e-7f;
            assert_true(fabsf(s.sigma[i] - rows[k].sigma[i]) <= slack * rows[k].sigma[i]);
            assert_true(fabsf(s.timestep[i] - rows[k].timestep[i]) <= slack * rows[k].timestep[i]);
        }
        zoe_schedule_free(&s);
        assert_null(s.sigma);
    }
}

/* The list of evenly spaced steps is the even schedule, to the bit. */
static void a_list_of_even_steps(void **state)
{
    static const double list[] = {1000, 875, 750, 625, 500, 375, 250, 125};
    zoe_schedule s, even = schedule_of(state, ZOE_SOLVER_EULER, ZOE_SCHEDULE_WAN, 8, 7.0);
    assert_int_equal(zoe_schedule_new_list(*state, &s, list, 8, 7.0), ZOE_OK);
    assert_memory_equal(s.sigma, even.sigma, 9 * sizeof *s.sigma);
    assert_memory_equal(s.timestep, even.timestep, 8 * sizeof *s.timestep);
    zoe_schedule_free(&s);
    zoe_schedule_free(&even);
}

static void impossible_lists_are_refused(void **state)
{
    static const struct {
        size_t n;
        double list[3], shift;
        const char *word;
    } rows[] = {
        {0, {0}, 5.0, "it is empty"},
        {3, {1000.1, 500, 250}, 5.0, "step 1 is 1000.1"},
        {3, {1000, 500, 0}, 5.0, "step 3 is 0"},
        {3, {1000, -500, 0}, 5.0, "step 2 is -500"},
        {3, {1000, (double)NAN, 1}, 5.0, "step 2 is"},
        {3, {(double)INFINITY, 5, 1}, 5.0, "step 1 is inf"},
        {3, {1000, 500, 500}, 5.0, "500 stands after 500"},
        {3, {250, 500, 1000}, 5.0, "500 stands after 250"},
        {3, {1000, 500, 250}, 0.0, "shift is 0"},
        {3, {1000, 500, 250}, (double)NAN, "shift is"},
        {3, {1000, 500, 250}, 1e30, "must fall"},
        {2, {1000, 999.9999999}, 5.0, "must fall"},
        {1, {1e-300}, 5.0, "must fall"},
    };
    for (size_t k = 0; k < COUNT(rows); k++) {
        zoe_context *ctx = *state;
        zoe_schedule s;
        zoe_context_clear(ctx);
        assert_int_equal(zoe_schedule_new_list(ctx, &s, rows[k].list, rows[k].n, rows[k].shift),
                         ZOE_INVALID);
        if (!strstr(zoe_context_message(ctx), rows[k].word))
            fail_msg("\"%s\" lacks \"%s\"", zoe_context_message(ctx), rows[k].word);
        assert_null(s.sigma);
        assert_null(s.timestep);
        assert_int_equal(s.steps, 0);
    }
}

static void failing_memory_leaves_nothing(void **state)
{
    for (size_t n = 1; n <= 2; n++) {
        zoe_schedule s;
        zoe_alloc_fail_at(n);
        const zoe_status status =
            zoe_schedule_new(*state, &s, ZOE_SOLVER_UNIPC, ZOE_SCHEDULE_WAN, 4, 5.0);
        zoe_alloc_fail_at(0);
        assert_int_equal(status, ZOE_NOMEM);
        assert_null(s.sigma);
        assert_null(s.timestep);

        zoe_alloc_fail_at(n);
        const zoe_status listed = zoe_schedule_new_list(*state, &s, (const double[]){1000}, 1, 5.0);
        zoe_alloc_fail_at(0);
        assert_int_equal(listed, ZOE_NOMEM);
        assert_null(s.sigma);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unipc_40_steps_shift_5, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unipc_other_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dpmpp_40_steps_shift_5, set_up, tear_down),
        cmocka_unit_test_setup_teardown(euler_4_steps_shift_5, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unipc_of_diffusers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dpmpp_of_diffusers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(levels_fall_for_all_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_schedules_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(listed_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_of_even_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_lists_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
