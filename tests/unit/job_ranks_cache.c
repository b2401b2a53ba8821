/* Step caches that lie on several ranks decide as one rank does; and a run that is broken off goes on
 * with any number of ranks, to the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job_ranks_case.h"

enum { STEPS = 14 };

/* THRESHOLD: one that leaves out some of the steps, found by measuring. */
static const char *const methods[] = {
    "FBCache,threshold=THRESHOLD",
    "FBCache,threshold=THRESHOLD,store=bf16",
    "TeaCache,threshold=THRESHOLD,coefficients=[1,0]",
    "TaylorSeer,n_derivatives=2",
    "EasyCache,threshold=THRESHOLD",
    "MagCache,threshold=0.3,mag_ratios=i2v_A14B",
    "DBCache,threshold=THRESHOLD,Fn_compute_blocks=1,max_warmup_steps=1",
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static const size_t splits[][2] = {{2, 1}, {1, 2}, {2, 2}, {1, 4}}; /* CFG, Ulysses */
enum { SPLITS = sizeof splits / sizeof splits[0] };

static char folder[64], latents[96];

static case_job *new_job(const char *cache)
{
    case_job *j = case_job_new(ZOE_TEST_DATA);
    j->params.latents_out = latents; /* and so no frames, which take time */
    j->params.steps = STEPS;
    j->params.cache = cache;
    j->audit = true;
    return j;
}

/* The method with that threshold. */
static const char *with_threshold(char text[100], size_t method, double threshold)
{
    static const char mark[] = "THRESHOLD";
    const char *at = strstr(methods[method], mark);
    if (!at)
        return methods[method];
    snprintf(text, 100, "%.*s%.9g%s", (int)(at - methods[method]), methods[method], threshold,
             at + sizeof mark - 1);
    return text;
}

/* The cache with a threshold near the middle of the distances of this job. */
static const char *fit(size_t method, double factor)
{
    static char texts[METHODS][100];
    char probe[100];
    case_job *j = new_job(with_threshold(probe, method, 0.0));
    case_job_run(j);
    assert_true(case_job_ok(j, j->params.cache));
    const double threshold = (double)j->outcome[0].median * factor;
    free(j);
    return with_threshold(texts[method], method, threshold);
}

static case_job *run_single(const char *cache)
{
    case_job *j = new_job(cache);
    case_job_run(j);
    assert_true(case_job_ok(j, cache));
    const zoe_cache_outcome *o = &j->outcome[0];
    if (o->high_skipped + o->low_skipped == 0 || o->high_computed + o->low_computed == 0)
        fail_msg("%s leaves out nothing or everything", cache);
    return j;
}

static void expect_same(const case_job *j, const case_job *one, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s, CFG %zu x Ulysses %zu", what, j->params.cfg_ranks,
             j->params.ulysses);
    assert_true(case_job_ok(j, text));
    if (case_job_error(j, one->latent[0]) != 0.0)
        fail_msg("%s: off by %g", text, case_job_error(j, one->latent[0]));
}

static void test_decisions(void **state)
{
    (void)state;
    for (size_t m = 0; m < METHODS; m++) {
        const char *cache = fit(m, 1.07);
        case_job *one = run_single(cache), *j = new_job(cache);
        for (size_t s = 0; s < SPLITS; s++) {
            case_set(j, splits[s][0], splits[s][1], 1, 1);
            case_job_run(j);
            expect_same(j, one, cache);
            for (size_t r = 0; r < j->ranks; r++) {
                const zoe_cache_outcome *a = &one->outcome[0], *b = &j->outcome[r];
                assert_int_equal(a->high_skipped, b->high_skipped);
                assert_int_equal(a->low_skipped, b->low_skipped);
                assert_int_equal(a->high_computed, b->high_computed);
                assert_int_equal(a->low_computed, b->low_computed);
            }
        }
        free(one);
        free(j);
    }
}

/* Rules of other programs keep both branches on one rank. */
static void test_reference_rules(void **state)
{
    (void)state;
    case_job *j = new_job("FBCache,rule=recipe,threshold=0.1");
    case_set(j, 2, 1, 1, 0);
    case_job_run(j);
    for (size_t r = 0; r < 2; r++) {
        assert_int_equal(j->results[r].status, ZOE_INVALID);
        assert_non_null(strstr(j->results[r].message, "by both branches on one rank"));
    }
    case_set(j, 0, 0, 0, 0); /* what is chosen for them */
    j->ranks = 2;
    case_job_run(j);
    assert_true(case_job_ok(j, "two ranks by themselves"));
    free(j);
}

/* ---- going on ---- */

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void break_off(const char *cache, const size_t split[2], size_t stop)
{
    case_job *j = new_job(cache);
    remove_folder();
    j->params.checkpoint = folder;
    case_set(j, split[0], split[1], 1, 1);
    j->stop_rank = j->ranks - 1;
    j->stop_step = stop;
    case_job_run(j);
    assert_int_equal(j->results[j->stop_rank].status, ZOE_CANCELLED);
    for (size_t r = 0; r + 1 < j->ranks; r++)
        assert_int_equal(j->results[r].status, ZOE_PEER);
    free(j);
}

static void go_on(const char *cache, const size_t split[2], const case_job *one)
{
    case_job *j = new_job(cache);
    j->params.checkpoint = folder;
    j->params.resume = true;
    case_set(j, split[0], split[1], 1, 1);
    case_job_run(j);
    expect_same(j, one, cache ? cache : "no cache");
    free(j);
}

/* One way and another: each number of ranks begins, another one ends it. */
static void test_other_ranks_go_on(void **state)
{
    static const size_t ways[][2][2] = {
        {{1, 1}, {2, 2}}, {{2, 2}, {1, 1}}, {{2, 1}, {1, 4}}, {{1, 4}, {2, 1}}, {{1, 2}, {2, 2}},
    };
    enum { WAYS = sizeof ways / sizeof ways[0] };
    (void)state;
    for (size_t m = 0; m <= METHODS; m++) {
        const char *cache = m < METHODS ? fit(m, 1.07) : NULL;
        case_job *one = cache ? run_single(cache) : new_job(NULL);
        if (!cache)
            case_job_run(one);
        for (size_t w = m % 2; w < WAYS; w += 2) {
            break_off(cache, ways[w][0], 3 + 2 * w); /* before and after the change of experts */
            go_on(cache, ways[w][1], one);
        }
        free(one);
    }
    remove_folder();
    unlink(latents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_reference_rules),
        cmocka_unit_test(test_other_ranks_go_on),
    };
    snprintf(folder, sizeof folder, "/tmp/zoe-ranks-%ld", (long)getpid());
    snprintf(latents, sizeof latents, "%s.safetensors", folder);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
