/* Single rules of single methods, and what the references' variants do that their traces do not
 * show. */
#include "sample_cache_case.h"

/* Small changes make the published polynomials negative; that gives no credit. */
static void negative_estimates_count_as_0(void **state)
{
    const net w = usual();
    result r = run(*state, &w, "TeaCache,coefficients=[1,-10],rel_l1_thresh=0,judge=hidden");
    assert_int_equal(skipped(&r), 0);
    result official =
        run(*state, &w, "TeaCache,coefficients=[1,-10],thresh=0,judge=hidden,rule=official");
    assert_true(skipped(&official) > STEPS / 2); /* there it does */
    result_free(&r);
    result_free(&official);
}

static void recipe_takes_absolute_values(void **state)
{
    const net w = usual();
    result plus =
        run(*state, &w, "TeaCache,coefficients=[1,0],rel_l1_thresh=0.1,judge=hidden,rule=recipe");
    result minus =
        run(*state, &w, "TeaCache,coefficients=[-1,0],rel_l1_thresh=0.1,judge=hidden,rule=recipe");
    assert_same(&plus, &minus);
    assert_true(skipped(&plus) > 0 && skipped(&plus) < STEPS - 2);
    result_free(&plus);
    result_free(&minus);
}

/* One value, two blocks of which the first adds nothing: x is both hidden state and judge. */
static float left_out(zoe_context *ctx, zoe_cache *c, size_t step, float x, float added)
{
    zoe_cache_point p = {.hidden = &x};
    size_t branch;
    bool made;
    assert_int_equal(zoe_cache_step(ctx, c, step, ZOE_LOW_NOISE, 1), ZOE_OK);
    assert_true(zoe_cache_next(c, &branch));
    assert_int_equal(zoe_cache_begin(ctx, c, &x, &x, &made), ZOE_OK);
    for (p.block = 0;; p.block++) {
        assert_int_equal(zoe_cache_at(ctx, c, &p, &p.block), ZOE_OK);
        if (p.block == 2)
            break;
        if (p.block == 1)
            x += added;
    }
    assert_int_equal(zoe_cache_end(ctx, c, &x, &x), ZOE_OK);
    return x;
}

/* R10: what is put in is what was computed, however often. The recipe rounds it each time. */
static void kept_residuals_do_not_wear(void **state)
{
    static const char *const texts[] = {"FBCache,judge=hidden,rel_l1_thresh=1e5",
                                        "FBCache,rule=recipe,rel_l1_thresh=1e5"};
    const zoe_cache_shape shape = {.steps = 12, .tokens = 1, .width = 1, .blocks = 2, .latent = 1};
    for (size_t t = 0; t < 2; t++) {
        zoe_cache_params p;
        zoe_cache *c;
        assert_int_equal(zoe_cache_params_parse(*state, &p, texts[t]), ZOE_OK);
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
        assert_true(left_out(*state, c, 0, 0.0f, 0.1f) == 0.1f);
        left_out(*state, c, 1, 1e6f, -1.0f);
        assert_false(zoe_cache_trace_at(c, 1, 0)->computed);
        assert_true(left_out(*state, c, 2, 0.5f, -1.0f) == (t == 0 ? 0.6f : 0.625f));
        zoe_cache_free(c);
    }
}

/* A branch that was forecast, and then had to be computed, goes on as if it had been computed. */
static void forecast_that_was_withdrawn_leaves_no_trace(void **state)
{
    static const char *const calibrators[] = {"none", "taylorseer", "foca"};
    for (size_t k = 0; k < 3; k++) {
        char text[300];
        net w = usual();
        w.bump_step = 3;
        w.bump_branch = 1;
        w.bump = 50.0f;
        snprintf(text, sizeof text,
                 "DBCache,Fn_compute_blocks=1,residual_diff_threshold=0.5,max_warmup_steps=1,"
                 "calibrator=%s",
                 calibrators[k]);
        result withdrawn = {0}, forced = {0};
        zoe_cache *c = cache_new(*state, &w, text);
        assert_int_equal(run_steps(*state, c, &w, 0, HIGH, &withdrawn), ZOE_OK);
        zoe_cache_free(c);
        strcat(text, ",steps_computation_mask=[1,0,0,1,1]"); /* at once */
        c = cache_new(*state, &w, text);
        assert_int_equal(run_steps(*state, c, &w, 0, HIGH, &forced), ZOE_OK);
        zoe_cache_free(c);
        assert_same(&withdrawn, &forced);
        assert_true(withdrawn.computed[3][0] && !withdrawn.computed[6][0]);
        assert_int_equal(withdrawn.passes, forced.passes + 2);
        result_free(&withdrawn);
        result_free(&forced);
    }
}

static void withdrawn_steps_do_not_use_up_the_budget(void **state)
{
    net w = usual();
    w.bump_step = 2;
    w.bump_branch = 1;
    w.bump = 50.0f;
    result r = run(*state, &w,
                   "DBCache,Fn_compute_blocks=1,residual_diff_threshold=0.5,max_warmup_steps=1,"
                   "max_cached_steps=3");
    size_t count = 0;
    for (size_t step = 0; step < HIGH; step++)
        count += !r.computed[step][0];
    assert_int_equal(count, 3);
    assert_true(r.computed[2][0] && r.computed[3][0]);
    result_free(&r);
}

static void budget_of_distances_ends(void **state)
{
    const net w = usual();
    result r = run(*state, &w,
                   "DBCache,Fn_compute_blocks=1,residual_diff_threshold=0.9,max_warmup_steps=1,"
                   "max_accumulated_residual_diff_threshold=1e-9");
    assert_int_equal(skipped(&r), 2); /* one for each expert */
    assert_false(r.computed[1][0]);
    assert_false(r.computed[HIGH + 1][0]);
    result_free(&r);
}

static void second_branch_can_go_by_the_first(void **state)
{
    net w = usual();
    result r = {0};
    w.bump_step = 4; /* unseen */
    w.bump_branch = 1;
    w.bump = 50.0f;
    zoe_cache *c = cache_new(*state, &w,
                             "DBCache,Fn_compute_blocks=1,residual_diff_threshold=0.5,"
                             "max_warmup_steps=1,reuse_distance=true,max_skips=10");
    assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
    assert_false(r.computed[4][1]);
    for (size_t step = 1; step < HIGH; step++)
        assert_true(zoe_cache_trace_at(c, step, 1)->distance ==
                    zoe_cache_trace_at(c, step, 0)->distance);
    zoe_cache_free(c);
    result_free(&r);
}

/* Part of each expert's steps, rounded up. */
static void retention_is_per_expert(void **state)
{
    const net w = usual();
    result r = run(*state, &w, "MagCache,thresh=1e3,mag_ratios=i2v_A14B,retention_ratio=0.2");
    const size_t high = 2, low = 3; /* of 9 and 15 */
    for (size_t step = 0; step <= high; step++)
        assert_int_equal(r.computed[step][0], step < high);
    for (size_t step = 0; step <= low; step++)
        assert_int_equal(r.computed[HIGH + step][0], step < low);
    result_free(&r);
}

/* The official EasyCache keeps its state when guidance comes on; what is not there is computed. */
static void what_was_not_kept_is_computed(void **state)
{
    net w = usual();
    result r = {0};
    for (size_t step = 0; step < 5; step++)
        w.alone[step] = true;
    zoe_cache *c = cache_new(*state, &w, "EasyCache,rule=official,ret_steps=2,thresh=1e3");
    assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
    assert_false(r.computed[5][0]);
    assert_true(r.computed[5][1] && zoe_cache_trace_at(c, 5, 1)->empty);
    assert_false(r.computed[6][1]);
    zoe_cache_free(c);
    result_free(&r);
}

/* Rows longer than what is widened at once, and a stride that does not divide it. */
static void strided_features(void **state)
{
    enum { D = 2500, ROWS = 2, STRIDE = 7 };
    const zoe_cache_shape shape = {
        .steps = 12, .tokens = ROWS, .width = D, .blocks = 2, .latent = 1};
    static float h[2][ROWS * D];
    double change = 0.0, size = 0.0;
    zoe_cache_params p;
    zoe_cache *c;
    for (size_t i = 0; i < ROWS * D; i++) {
        h[0][i] = (float)sin(0.1 * (double)i);
        h[1][i] = h[0][i] + (i % D % STRIDE == 0 ? 0.01f : 7.0f);
        if (i % D % STRIDE == 0) {
            change += fabs((double)h[1][i] - (double)h[0][i]);
            size += fabs((double)h[1][i]);
        }
    }
    assert_int_equal(zoe_cache_params_parse(*state, &p, "FBCache,judge=hidden,downsample_factor=7"),
                     ZOE_OK);
    assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
    for (size_t step = 0; step < 2; step++) {
        size_t branch;
        bool made;
        zoe_cache_point q = {.block = 1, .hidden = h[step]};
        assert_int_equal(zoe_cache_step(*state, c, step, ZOE_LOW_NOISE, 1), ZOE_OK);
        assert_true(zoe_cache_next(c, &branch));
        assert_int_equal(zoe_cache_begin(*state, c, h[step], h[step], &made), ZOE_OK);
        assert_int_equal(zoe_cache_at(*state, c, &q, &q.block), ZOE_OK);
        assert_int_equal(zoe_cache_end(*state, c, h[step], h[step]), ZOE_OK);
    }
    const double got = (double)zoe_cache_trace_at(c, 1, 0)->distance;
    assert_true(fabs(got - change / size) < 1e-6 * got);
    zoe_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(negative_estimates_count_as_0),
        cmocka_unit_test(recipe_takes_absolute_values),
        cmocka_unit_test(kept_residuals_do_not_wear),
        cmocka_unit_test(forecast_that_was_withdrawn_leaves_no_trace),
        cmocka_unit_test(withdrawn_steps_do_not_use_up_the_budget),
        cmocka_unit_test(budget_of_distances_ends),
        cmocka_unit_test(second_branch_can_go_by_the_first),
        cmocka_unit_test(retention_is_per_expert),
        cmocka_unit_test(what_was_not_kept_is_computed),
        cmocka_unit_test(strided_features),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
