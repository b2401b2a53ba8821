/* What holds for every step cache under the rule zoetrope: nothing left out at threshold 0, a fresh
 * state for each run, expert and branch, caps, odd judges, threads, memory. The references' rules
 * are compared in golden_cache; ranks are in sample_cache_ranks.c. */
#include "sample_cache_case.h"

/* Each method so that it leaves out nothing, and so that it leaves out what it can. */
static const struct {
    const char *none, *much;
    bool adaptive;
} methods[] = {
    {"FBCache,rel_l1_thresh=0", "FBCache,rel_l1_thresh=1e3", true},
    {"TeaCache,rel_l1_thresh=0,coefficients=[1,0]", "TeaCache,rel_l1_thresh=1e3,coefficients=[1,0]",
     true},
    {"TeaCache,rel_l1_thresh=0,judge=embedding",
     "TeaCache,rel_l1_thresh=1e3,judge=embedding,coefficients=[1,0]", true},
    {"TaylorSeer,skip_interval_steps=1", "TaylorSeer", false},
    {"EasyCache,thresh=0", "EasyCache,thresh=1e3", true},
    {"DBCache,residual_diff_threshold=0,Fn_compute_blocks=2,Bn_compute_blocks=1",
     "DBCache,residual_diff_threshold=1e3,Fn_compute_blocks=2,Bn_compute_blocks=1,"
     "max_warmup_steps=1",
     true},
    {"MagCache,thresh=0,mag_ratios=i2v_A14B", "MagCache,thresh=1e3,mag_ratios=i2v_A14B,K=3", true},
};
enum { METHODS = sizeof methods / sizeof *methods };

static void threshold_0_changes_no_byte(void **state)
{
    const net w = usual();
    result bare = run(*state, &w, "NoCache");
    assert_int_equal(skipped(&bare), 0);
    assert_int_equal(bare.passes, 2 * STEPS);
    for (size_t m = 0; m < METHODS; m++) {
        result r = run(*state, &w, methods[m].none), much = run(*state, &w, methods[m].much);
        assert_same(&r, &bare);
        assert_true(skipped(&much) >= STEPS / 3); /* so the comparison means something */
        result_free(&r);
        result_free(&much);
    }
    result_free(&bare);
}

static void second_run_equals_a_fresh_one(void **state)
{
    const net w = usual();
    for (size_t m = 0; m < METHODS; m++) {
        zoe_cache *c = cache_new(*state, &w, methods[m].much);
        result fresh = {0}, second = {0}, broken = {0};
        assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &fresh), ZOE_OK);
        assert_int_equal(run_steps(*state, c, &w, 0, STEPS / 2, &broken), ZOE_OK);
        assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &second), ZOE_OK);
        assert_same(&fresh, &second);
        result_free(&fresh);
        result_free(&second);
        result_free(&broken);
        zoe_cache_free(c);
    }
}

static void experts_begin_and_run_ends_with_computing(void **state)
{
    const net w = usual();
    for (size_t m = 0; m < METHODS; m++) {
        result r = run(*state, &w, methods[m].much);
        for (size_t b = 0; b < 2; b++) {
            assert_true(r.computed[0][b]);
            assert_true(r.computed[HIGH][b]);
            assert_true(r.computed[STEPS - 1][b]);
        }
        result_free(&r);
    }
}

static size_t longest(const result *r)
{
    size_t most = 0, streak = 0;
    for (size_t step = 0; step < STEPS; step++) {
        streak = r->computed[step][0] ? 0 : streak + 1;
        most = streak > most ? streak : most;
    }
    return most;
}

static void skips_in_a_row_are_capped(void **state)
{
    const net w = usual();
    for (size_t m = 0; m < METHODS; m++) {
        if (!methods[m].adaptive)
            continue;
        char text[200];
        result r = run(*state, &w, methods[m].much);
        assert_int_equal(longest(&r), 3);
        const char *much = methods[m].much, *cap = strstr(much, ",K="); /* by its other name */
        const size_t n = cap ? (size_t)(cap - much) : strlen(much);
        snprintf(text, sizeof text, "%.*s,max_skips=1", (int)n, much);
        result one = run(*state, &w, text);
        assert_int_equal(longest(&one), 1);
        result_free(&r);
        result_free(&one);
    }
}

static void odd_judges_compute(void **state)
{
    static const char *const texts[] = {
        "FBCache,rel_l1_thresh=1e3", "FBCache,rel_l1_thresh=1e3,judge=hidden",
        "DBCache,residual_diff_threshold=1e3,Fn_compute_blocks=1,max_warmup_steps=1"};
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; k < 3; k++)
            for (size_t branch = 0; branch < 2; branch++) {
                net w = usual();
                result plain = run(*state, &w, texts[t]), r = {0};
                w.bump_step = 2;
                w.bump_branch = branch;
                w.bump = odd[k];
                zoe_cache *c = cache_new(*state, &w, texts[t]);
                assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
                zoe_cache_report report;
                zoe_cache_report_of(c, &report);
                assert_false(plain.computed[2][0]);
                assert_true(r.computed[2][0]); /* both: the decision is joint */
                assert_true(r.computed[2][1]);
                assert_true(r.computed[3][0]); /* the odd judge is the one compared with */
                assert_true(report.bad >= 2);
                zoe_cache_free(c);
                result_free(&plain);
                result_free(&r);
            }
}

/* A judge that does not change at all is more likely an alias than a network at rest. */
static void judge_at_rest_computes(void **state)
{
    net w = usual();
    w.flat = 1;
    zoe_cache_report report;
    zoe_cache *c = cache_new(*state, &w, "FBCache,rel_l1_thresh=1e3");
    result r = {0};
    assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
    zoe_cache_report_of(c, &report);
    assert_int_equal(skipped(&r), 0);
    assert_true(report.bad > 0);
    result_free(&r);
    zoe_cache_free(c);
}

static void odd_latents_compute(void **state)
{
    zoe_cache *c;
    zoe_cache_params p;
    const zoe_cache_shape shape = {.steps = 12, .tokens = 1, .width = 1, .blocks = 2, .latent = 2};
    const float odd[] = {1.0f, NAN, INFINITY};
    assert_int_equal(zoe_cache_params_parse(*state, &p, "EasyCache,thresh=1e3"), ZOE_OK);
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
        for (size_t step = 0; step < 4; step++) {
            float x[2] = {(float)step, 1.0f + 0.5f * (float)step},
                  v[2] = {2.0f * x[0], 3.0f * x[1]};
            size_t branch;
            bool made;
            if (step == 3)
                x[0] *= odd[k];
            assert_int_equal(zoe_cache_step(*state, c, step, ZOE_LOW_NOISE, 1), ZOE_OK);
            assert_true(zoe_cache_next(c, &branch));
            assert_int_equal(zoe_cache_begin(*state, c, x, v, &made), ZOE_OK);
            assert_int_equal(zoe_cache_end(*state, c, x, v), ZOE_OK);
            assert_int_equal(made, step == 2 || (step == 3 && k == 0));
            assert_int_equal(zoe_cache_trace_at(c, step, 0)->bad, step == 3 && k > 0);
        }
        zoe_cache_free(c);
    }
}

static void few_steps_are_refused(void **state)
{
    for (size_t m = 0; m < METHODS; m++) {
        zoe_cache_params p;
        zoe_cache *c;
        zoe_cache_shape shape = {
            .steps = 9, .high_steps = 4, .tokens = 2, .width = 2, .blocks = 5, .latent = 4};
        assert_int_equal(zoe_cache_params_parse(*state, &p, methods[m].much), ZOE_OK);
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_INVALID);
        assert_non_null(strstr(zoe_context_message(*state), "9 steps"));
        zoe_context_clear(*state);
        p.force = true;
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
        zoe_cache_free(c);
        p.force = false;
        shape.steps = 10;
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
        zoe_cache_free(c);
        shape.distilled = true;
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_INVALID);
        assert_null(c);
        zoe_context_clear(*state);
    }
}

/* B38: what is put in comes from the same expert and the same branch: to the last bit, as the
 * values are sums of small binary fractions. */
static void residuals_keep_to_their_expert_and_branch(void **state)
{
    static const struct {
        const char *text;
        int flat;
    } cases[] = {{"FBCache,rel_l1_thresh=1e3", 2},
                 {"FBCache,rel_l1_thresh=1e3,joint=false", 2},
                 {"DBCache,residual_diff_threshold=1e3,Fn_compute_blocks=1,max_warmup_steps=1", 2},
                 {"TaylorSeer", 1},
                 {"MagCache,thresh=1e3,mag_ratios=i2v_A14B", 1},
                 {"TeaCache,rel_l1_thresh=1e3,judge=embedding,coefficients=[1,0]", 1}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        net w = usual();
        w.flat = cases[t].flat;
        result bare = run(*state, &w, "NoCache"), r = run(*state, &w, cases[t].text);
        assert_memory_equal(r.out, bare.out, 2 * STEPS * r.n * sizeof *r.out);
        assert_true(skipped(&r) > STEPS / 3);
        result_free(&r);
        result_free(&bare);
    }
}

/* B38: guidance 1 is the conditional branch of a guided run, decided by itself. */
static void branches_do_not_see_each_other(void **state)
{
    for (size_t m = 0; m < METHODS; m++) {
        char text[200];
        net w = usual(), lone = usual();
        snprintf(text, sizeof text, "%s,joint=false", methods[m].much);
        for (size_t step = 0; step < STEPS; step++)
            lone.alone[step] = true;
        result both = run(*state, &w, text), one = run(*state, &lone, text);
        for (size_t step = 0; step < STEPS; step++) {
            assert_int_equal(both.computed[step][0], one.computed[step][0]);
            assert_memory_equal(output(&both, step, 0), output(&one, step, 0),
                                both.n * sizeof(float));
        }
        result_free(&both);
        result_free(&one);
    }
}

/* B38: guidance goes off, and on again: what was kept is too old. */
static void change_of_guidance_computes(void **state)
{
    for (size_t m = 0; m < METHODS; m++) {
        net w = usual();
        for (size_t step = 12; step < 18; step++)
            w.alone[step] = true;
        result r = run(*state, &w, methods[m].much);
        assert_true(r.computed[12][0]);
        assert_true(r.computed[18][0]);
        assert_true(r.computed[18][1]);
        assert_int_equal(r.ran[14][1], 0);
        result_free(&r);
    }
}

static void pair_is_left_out_together(void **state)
{
    net w = usual();
    zoe_cache_report report;
    w.bump_step = 2; /* the unconditional branch jumps when the conditional one was left out */
    w.bump_branch = 1;
    w.bump = 50.0f;
    zoe_cache *c = cache_new(*state, &w, "FBCache,rel_l1_thresh=0.5");
    result bare = run(*state, &w, "NoCache"), r = {0};
    assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
    zoe_cache_report_of(c, &report);
    assert_int_equal(report.repeated, 2); /* the step after is as far from the jump */
    assert_true(skipped(&r) > 0);
    for (size_t step = 0; step < STEPS; step++)
        assert_int_equal(r.computed[step][0], r.computed[step][1]);
    assert_memory_equal(output(&r, 2, 0), output(&bare, 2, 0), r.n * sizeof(float));
    assert_memory_equal(output(&r, 2, 1), output(&bare, 2, 1), r.n * sizeof(float));
    assert_int_equal(r.passes, 2 * STEPS + 2);
    size_t sum = 0;
    for (size_t e = 0; e < 2; e++)
        sum += report.computed[e][0] + report.skipped[e][0];
    assert_int_equal(sum, STEPS);
    w.bump_branch = 0; /* the other way round nothing is done twice */
    result other = run(*state, &w, "FBCache,rel_l1_thresh=0.5");
    assert_true(other.computed[2][0] && other.computed[2][1] && !other.computed[5][0]);
    assert_int_equal(other.passes, 2 * STEPS);
    result_free(&other);
    result_free(&r);
    result_free(&bare);
    zoe_cache_free(c);
}

static void last_blocks_run_when_a_step_is_left_out(void **state)
{
    const net w = usual();
    result r = run(*state, &w,
                   "DBCache,residual_diff_threshold=1e3,Fn_compute_blocks=2,Bn_compute_blocks=1,"
                   "max_warmup_steps=1");
    result first = run(*state, &w, "FBCache,rel_l1_thresh=1e3");
    result tea = run(*state, &w, "TeaCache,rel_l1_thresh=1e3,coefficients=[1,0]");
    result easy = run(*state, &w, "EasyCache,thresh=1e3");
    for (size_t step = 0; step < STEPS; step++) {
        assert_int_equal(r.ran[step][0], r.computed[step][0] ? BLOCKS : 3);
        assert_int_equal(first.ran[step][1], first.computed[step][1] ? BLOCKS : 1);
        assert_int_equal(tea.ran[step][0], tea.computed[step][0] ? BLOCKS : 0);
        assert_int_equal(easy.ran[step][0], easy.computed[step][0] ? BLOCKS : 0);
    }
    result_free(&r);
    result_free(&first);
    result_free(&tea);
    result_free(&easy);
}

static void schedules_are_told_before(void **state)
{
    static const char *const texts[] = {"MagCache,mag_ratios=i2v_A14B,thresh=0.1", "TaylorSeer",
                                        "TaylorSeer,rule=diffusers"};
    const net w = usual();
    const zoe_cache_shape shape = shape_of(&w);
    zoe_cache_params p;
    bool known, computed[STEPS];
    for (size_t t = 0; t < 3; t++) {
        result r = run(*state, &w, texts[t]);
        assert_int_equal(zoe_cache_params_parse(*state, &p, texts[t]), ZOE_OK);
        assert_int_equal(zoe_cache_foretell(*state, &p, &shape, &known, computed), ZOE_OK);
        assert_true(known && skipped(&r) > 0);
        for (size_t step = 0; step < STEPS; step++)
            assert_int_equal(computed[step], r.computed[step][0]);
        result_free(&r);
    }
    assert_int_equal(zoe_cache_params_parse(*state, &p, "FBCache"), ZOE_OK);
    assert_int_equal(zoe_cache_foretell(*state, &p, &shape, &known, computed), ZOE_OK);
    assert_false(known);
}

/* y = (1 + scale) LN(x) + shift by hand, against the distance that the cache measures. */
static void modulated_input_is_what_it_says(void **state)
{
    enum { D = 4 };
    static const float scale[D] = {0.5f, -0.25f, 0.0f, 1.0f}, shift[D] = {0.1f, 0.2f, -0.3f, 0.0f};
    static const float x[2][D] = {{1.0f, 2.0f, 3.0f, 5.0f}, {1.0f, 2.5f, 2.0f, -4.0f}};
    for (int times = 1; times <= 2; times++) { /* the recipe modulates twice */
        zoe_cache_params p;
        zoe_cache *c;
        const zoe_cache_shape shape = {
            .steps = 12, .tokens = 1, .width = D, .blocks = 1, .latent = D};
        double y[2][D], change = 0.0, size = 0.0;
        for (int k = 0; k < 2; k++) {
            double mean = 0.0, var = 0.0;
            for (int i = 0; i < D; i++)
                mean += (double)x[k][i] / D;
            for (int i = 0; i < D; i++)
                var += ((double)x[k][i] - mean) * ((double)x[k][i] - mean) / D;
            for (int i = 0; i < D; i++) {
                y[k][i] = ((double)x[k][i] - mean) / sqrt(var + 1e-6);
                for (int n = 0; n < times; n++)
                    y[k][i] = y[k][i] * (1.0 + (double)scale[i]) + (double)shift[i];
            }
        }
        for (int i = 0; i < D; i++) {
            change += fabs(y[1][i] - y[0][i]);
            size += fabs(y[0][i]);
        }
        assert_int_equal(zoe_cache_params_parse(*state, &p,
                                                times == 1 ? "TeaCache,warmup=1"
                                                           : "TeaCache,rule=recipe,warmup=0"),
                         ZOE_OK);
        assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_OK);
        for (size_t step = 0; step < 2; step++) {
            float h[D];
            size_t branch;
            bool made;
            memcpy(h, x[step], sizeof h);
            zoe_cache_point q = {.hidden = h, .shift = shift, .scale = scale, .eps = 1e-6f};
            assert_int_equal(zoe_cache_step(*state, c, step, ZOE_LOW_NOISE, 1), ZOE_OK);
            assert_true(zoe_cache_next(c, &branch));
            assert_int_equal(zoe_cache_begin(*state, c, h, h, &made), ZOE_OK);
            assert_int_equal(zoe_cache_at(*state, c, &q, &q.block), ZOE_OK);
            q.block = 1;
            assert_int_equal(zoe_cache_at(*state, c, &q, &q.block), ZOE_OK);
            assert_int_equal(zoe_cache_end(*state, c, h, h), ZOE_OK);
        }
        assert_true(zoe_cache_trace_at(c, 1, 0)->measured);
        assert_true(fabs((double)zoe_cache_trace_at(c, 1, 0)->distance - change / size) < 1e-6);
        zoe_cache_free(c);
    }
}

/* ---- threads, memory, checkpoints ---- */

static void threads_do_not_matter(void **state)
{
    (void)state;
    net w = usual();
    w.tokens = 300;
    w.width = WIDTH * 32;
    static const char *const texts[] = {
        "FBCache,rel_l1_thresh=0.3", "TeaCache,rel_l1_thresh=0.3,coefficients=[1,0],judge=hidden",
        "EasyCache,thresh=0.3", "TaylorSeer,store=bf16"};
    zoe_context *one = zoe_context_new(1), *four = zoe_context_new(4);
    for (size_t t = 0; t < 4; t++) {
        result a = {0}, b = {0};
        zoe_cache *ca = cache_new(one, &w, texts[t]), *cb = cache_new(four, &w, texts[t]);
        assert_int_equal(run_steps(one, ca, &w, 0, 5, &a), ZOE_OK);
        assert_int_equal(run_steps(four, cb, &w, 0, 5, &b), ZOE_OK);
        assert_same(&a, &b);
        for (size_t step = 0; step < 5; step++)
            assert_memory_equal(&zoe_cache_trace_at(ca, step, 0)->distance,
                                &zoe_cache_trace_at(cb, step, 0)->distance, sizeof(float));
        zoe_cache_free(ca);
        zoe_cache_free(cb);
        result_free(&a);
        result_free(&b);
    }
    zoe_context_free(one);
    zoe_context_free(four);
}

static void memory_is_planned(void **state)
{
    const net w = usual();
    const zoe_cache_shape shape = shape_of(&w);
    for (size_t m = 0; m < METHODS; m++) {
        zoe_cache_params p;
        zoe_cache *c;
        zoe_cache_report report;
        result r = {0};
        assert_int_equal(zoe_cache_params_parse(*state, &p, methods[m].much), ZOE_OK);
        for (size_t k = 1; k <= 2; k++) {
            zoe_alloc_fail_at(k);
            assert_int_equal(zoe_cache_new(*state, &c, &p, &shape), ZOE_NOMEM);
            assert_null(c);
            zoe_context_clear(*state);
        }
        zoe_alloc_fail_at(0);
        c = cache_new(*state, &w, methods[m].much);
        zoe_alloc_fail_at(1); /* and no step needs any */
        assert_int_equal(run_steps(*state, c, &w, 0, STEPS, &r), ZOE_OK);
        zoe_alloc_fail_at(0);
        zoe_cache_report_of(c, &report);
        assert_int_equal(report.bytes, zoe_cache_bytes(&p, &shape));
        result_free(&r);
        zoe_cache_free(c);
    }
}

static void halves_take_half_the_memory(void **state)
{
    net w = usual();
    w.tokens = 1000;
    const zoe_cache_shape shape = shape_of(&w);
    const size_t n = w.tokens * w.width;
    zoe_cache_params wide, half;
    assert_int_equal(zoe_cache_params_parse(*state, &wide, "FBCache"), ZOE_OK);
    assert_int_equal(zoe_cache_params_parse(*state, &half, "FBCache,store=bf16"), ZOE_OK);
    /* judge and residual of two branches */
    assert_int_equal(zoe_cache_bytes(&wide, &shape) - zoe_cache_bytes(&half, &shape), 4 * n * 2);
    w = usual();
    result bare = run(*state, &w, "NoCache");
    result a = run(*state, &w, "FBCache,rel_l1_thresh=0.2");
    result b = run(*state, &w, "FBCache,rel_l1_thresh=0.2,store=bf16");
    assert_true(skipped(&a) > 0);
    assert_memory_equal(a.computed, b.computed, sizeof a.computed);
    for (size_t k = 0; k < 2 * STEPS * a.n; k++)
        assert_true(fabsf(a.out[k] - b.out[k]) <= 16.0f / 256.0f);
    result_free(&bare);
    result_free(&a);
    result_free(&b);
    const zoe_cache_shape vast = {
        .steps = 40, .tokens = SIZE_MAX / 2, .width = 5120, .blocks = 40, .latent = 1};
    assert_int_equal(zoe_cache_bytes(&wide, &vast), SIZE_MAX);
    zoe_cache *c;
    assert_int_equal(zoe_cache_new(*state, &c, &wide, &vast), ZOE_INVALID);
    zoe_context_clear(*state);
}

static void state_goes_on_from_a_checkpoint(void **state)
{
    const net w = usual();
    for (size_t m = 0; m < METHODS; m++)
        for (size_t cut = 1; cut < STEPS; cut += 5) {
            zoe_cache *a = cache_new(*state, &w, methods[m].much);
            zoe_cache *b = cache_new(*state, &w, methods[m].much);
            result whole = {0}, parts = {0};
            void *from, *to;
            size_t bytes, more;
            assert_int_equal(run_steps(*state, a, &w, 0, STEPS, &whole), ZOE_OK);
            assert_int_equal(run_steps(*state, a, &w, 0, cut, &parts), ZOE_OK);
            zoe_cache_state(a, &from, &bytes);
            zoe_cache_state(b, &to, &more);
            assert_int_equal(bytes, more);
            memcpy(to, from, bytes);
            assert_int_equal(zoe_cache_restored(*state, b), ZOE_OK);
            assert_int_equal(run_steps(*state, b, &w, cut, STEPS, &parts), ZOE_OK);
            assert_same(&whole, &parts);
            /* magic, bytes, begun, step, expert, mask; then all */
            static const size_t fields[] = {0, 8, 16, 24, 48, 56};
            for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
                memcpy(to, from, bytes);
                memset((unsigned char *)to + fields[k], 0xff, 8);
                assert_int_equal(zoe_cache_restored(*state, b), ZOE_FORMAT);
                zoe_context_clear(*state);
            }
            memset(to, 0xff, bytes);
            assert_int_equal(zoe_cache_restored(*state, b), ZOE_FORMAT);
            zoe_context_clear(*state);
            result again = {0}; /* a refused state leaves a fresh one */
            assert_int_equal(run_steps(*state, b, &w, 0, STEPS, &again), ZOE_OK);
            assert_same(&whole, &again);
            result_free(&whole);
            result_free(&parts);
            result_free(&again);
            zoe_cache_free(a);
            zoe_cache_free(b);
        }
}

static void misuse_is_refused(void **state)
{
    const net w = usual();
    zoe_cache *c = cache_new(*state, &w, "FBCache");
    float x[TOKENS * WIDTH] = {0}, v[TOKENS * WIDTH];
    size_t branch, next;
    bool made;
    assert_false(zoe_cache_next(c, &branch));
    assert_int_equal(zoe_cache_begin(*state, c, x, v, &made), ZOE_INTERNAL);
    zoe_context_clear(*state);
    assert_int_equal(zoe_cache_step(*state, c, STEPS, ZOE_LOW_NOISE, 3), ZOE_INVALID);
    zoe_context_clear(*state);
    assert_int_equal(zoe_cache_step(*state, c, 0, ZOE_LOW_NOISE, 0), ZOE_INVALID);
    zoe_context_clear(*state);
    assert_int_equal(zoe_cache_step(*state, c, 0, ZOE_LOW_NOISE, 3), ZOE_OK);
    assert_true(zoe_cache_next(c, &branch));
    assert_int_equal(zoe_cache_begin(*state, c, x, v, &made), ZOE_OK);
    assert_int_equal(zoe_cache_end(*state, c, x, v), ZOE_INTERNAL); /* no block was asked for */
    zoe_context_clear(*state);
    zoe_cache_free(c);
    c = cache_new(*state, &w, "TeaCache"); /* the modulation is not given */
    assert_int_equal(zoe_cache_step(*state, c, 0, ZOE_LOW_NOISE, 3), ZOE_OK);
    assert_true(zoe_cache_next(c, &branch));
    assert_int_equal(zoe_cache_begin(*state, c, x, v, &made), ZOE_OK);
    assert_int_equal(zoe_cache_at(*state, c, &(zoe_cache_point){.hidden = x}, &next), ZOE_INVALID);
    zoe_context_clear(*state);
    zoe_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threshold_0_changes_no_byte),
        cmocka_unit_test(second_run_equals_a_fresh_one),
        cmocka_unit_test(experts_begin_and_run_ends_with_computing),
        cmocka_unit_test(skips_in_a_row_are_capped),
        cmocka_unit_test(odd_judges_compute),
        cmocka_unit_test(judge_at_rest_computes),
        cmocka_unit_test(odd_latents_compute),
        cmocka_unit_test(few_steps_are_refused),
        cmocka_unit_test(residuals_keep_to_their_expert_and_branch),
        cmocka_unit_test(branches_do_not_see_each_other),
        cmocka_unit_test(change_of_guidance_computes),
        cmocka_unit_test(pair_is_left_out_together),
        cmocka_unit_test(last_blocks_run_when_a_step_is_left_out),
        cmocka_unit_test(schedules_are_told_before),
        cmocka_unit_test(modulated_input_is_what_it_says),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(memory_is_planned),
        cmocka_unit_test(halves_take_half_the_memory),
        cmocka_unit_test(state_goes_on_from_a_checkpoint),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
