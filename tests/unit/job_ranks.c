/* A job on several ranks: whatever the split, it is the job of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job_ranks_case.h"

/* The small model on one rank, once. */
static const case_job *single(void)
{
    static case_job *j;
    if (!j) {
        j = case_job_new(ZOE_TEST_DATA);
        case_job_run(j);
        assert_true(case_job_ok(j, "one rank"));
        assert_int_equal(j->frames, 5);
    }
    return j;
}

static void expect_single(const case_job *j, const char *what)
{
    const case_job *one = single();
    const bool exact = j->params.ring == 1;
    const double error = case_job_error(j, one->latent[0]);
    if (exact ? error != 0.0 || j->frame_sum != one->frame_sum : !(error <= 1e-5))
        fail_msg("%s: latents are off by %g%s", what, error,
                 j->frame_sum == one->frame_sum ? "" : ", frames are others");
    assert_true(case_job_alike(j));
    assert_int_equal(j->frames, one->frames);
    assert_int_equal(j->strays, 0);
}

static void run_split(size_t cfg, size_t ulysses, size_t ring, size_t vae)
{
    char what[80];
    case_job *j = case_job_new(ZOE_TEST_DATA);
    snprintf(what, sizeof what, "CFG %zu x Ulysses %zu x ring %zu, VAE %zu", cfg, ulysses, ring,
             vae);
    case_set(j, cfg, ulysses, ring, vae);
    j->params.ring_steps = (ulysses + vae) % 2; /* some of each form */
    case_job_run(j);
    assert_true(case_job_ok(j, what));
    expect_single(j, what);
    free(j);
}

static void test_every_split(void **state)
{
    static const size_t ulysses[] = {1, 2, 4};
    (void)state;
    for (size_t cfg = 1; cfg <= 2; cfg++)
        for (size_t u = 0; u < 3; u++)
            for (size_t ring = 1; ring <= 3; ring++) {
                const size_t n = cfg * ulysses[u] * ring;
                if (n <= 8)
                    run_split(cfg, ulysses[u], ring, n);
                if (n > 1 && n <= 8) /* one rank, or some */
                    run_split(cfg, ulysses[u], ring, 1 + (u + ring) % (n - 1));
            }
}

/* The ring's two forms, on the same ranks. */
static void test_ring_forms(void **state)
{
    (void)state;
    for (size_t form = 0; form < 2; form++) {
        case_job *j = case_job_new(ZOE_TEST_DATA);
        case_set(j, 1, 1, 3, 0);
        j->params.ring_steps = form == 1;
        case_job_run(j);
        assert_true(case_job_ok(j, "ring of 3"));
        expect_single(j, "ring of 3");
        free(j);
    }
}

/* ---- what is chosen, and what is refused ---- */

static zoe_status chosen(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    case_job *j = arg;
    zoe_job_params p = j->params;
    zoe_job *job = NULL;
    p.comm = comm;
    p.latents_out = "/tmp/zoe-ranks-never.safetensors"; /* an output of some kind is wanted */
    zoe_status status = zoe_job_new(ctx, &job, &p);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK) {
        const zoe_plan *plan = zoe_job_plan(job);
        j->outcome[rank].high_computed = plan->cfg_ranks;
        j->outcome[rank].high_skipped = plan->ulysses;
        j->outcome[rank].low_computed = plan->ring;
        j->outcome[rank].low_skipped = plan->vae_ranks;
    }
    zoe_job_free(job);
    return status;
}

static void expect_choice(size_t n, double guidance, size_t ring, size_t cfg, size_t ulysses,
                          size_t rings)
{
    case_job *j = case_job_new(ZOE_TEST_DATA);
    j->params.guide_low = j->params.guide_high = guidance;
    j->params.ring = ring;
    const ranks_plan plan = {.size = n, .fn = chosen, .arg = j};
    assert_true(ranks_run_ok(&plan));
    for (size_t r = 0; r < n; r++) {
        assert_int_equal(j->outcome[r].high_computed, cfg);
        assert_int_equal(j->outcome[r].high_skipped, ulysses);
        assert_int_equal(j->outcome[r].low_computed, rings);
        assert_int_equal(j->outcome[r].low_skipped, n);
    }
    free(j);
}

/* CFG first, then Ulysses as far as the two heads go, then the ring. */
static void test_choice(void **state)
{
    (void)state;
    expect_choice(1, 3.5, 0, 1, 1, 1);
    expect_choice(2, 3.5, 0, 2, 1, 1);
    expect_choice(3, 3.5, 0, 1, 1, 3);
    expect_choice(4, 3.5, 0, 2, 2, 1);
    expect_choice(8, 3.5, 0, 2, 2, 2);
    expect_choice(2, 1.0, 0, 1, 2, 1);
    expect_choice(4, 1.0, 0, 1, 2, 2);
    expect_choice(4, 3.5, 4, 1, 1, 4);
    expect_choice(4, 3.5, 1, 2, 2, 1);
}

static void expect_refusal(size_t n, size_t cfg, size_t ulysses, size_t ring, size_t vae,
                           double guidance, const char *says)
{
    ranks_result results[RANKS_MOST];
    case_job *j = case_job_new(ZOE_TEST_DATA);
    case_set(j, cfg, ulysses, ring, vae);
    j->params.guide_low = j->params.guide_high = guidance;
    const ranks_plan plan = {.size = n, .fn = chosen, .arg = j};
    ranks_run(&plan, results);
    for (size_t r = 0; r < n; r++)
        if (results[r].status != ZOE_INVALID || !strstr(results[r].message, says))
            fail_msg("rank %zu: %s: %s", r, zoe_status_name(results[r].status), results[r].message);
    free(j);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal(4, 2, 4, 1, 0, 3.5,
                   "CFG 2 x Ulysses 4 x ring 1 cannot be made of the 4 ranks that the run has; "
                   "possible are 2 x 2 x 1, 2 x 1 x 2, 1 x 4 x 1, 1 x 2 x 2, 1 x 1 x 4");
    expect_refusal(1, 2, 0, 0, 0, 3.5,
                   "CFG 2 x Ulysses any x ring any cannot be made of the 1 rank ");
    expect_refusal(3, 2, 0, 0, 0, 3.5, "possible are 1 x 3 x 1, 1 x 1 x 3");
    expect_refusal(2, 2, 0, 0, 0, 1.0, "without guidance (scale 1) there is one branch");
    expect_refusal(2, 0, 0, 0, 3, 3.5, "VAE ranks: 3; the run has 2");
    expect_refusal(2, 3, 0, 0, 0, 3.5, "1 or 2 is wanted");
}

/* ---- guidance that only one expert has; random seeds ---- */

static void run_beside_one(case_job *j, size_t cfg, size_t ulysses)
{
    case_job *one = case_job_new(ZOE_TEST_DATA);
    one->params = j->params;
    case_set(one, 1, 1, 1, 1);
    case_job_run(one);
    assert_true(case_job_ok(one, "one rank"));
    case_set(j, cfg, ulysses, 1, 0);
    case_job_run(j);
    assert_true(case_job_ok(j, "several ranks"));
    assert_true(case_job_error(j, one->latent[0]) == 0.0);
    free(one);
}

static void test_guidance_of_one_expert(void **state)
{
    (void)state;
    for (size_t low = 0; low < 2; low++) {
        case_job *j = case_job_new(ZOE_TEST_DATA);
        j->params.steps = 6;
        j->params.guide_low = low ? 3.5 : 1.0;
        j->params.guide_high = low ? 1.0 : 3.5;
        run_beside_one(j, 2, 1);
        run_beside_one(j, 2, 2);
        free(j);
    }
}

/* Both branches in one walk over the weights, as with streamed ones. */
static zoe_status set_pairs(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    (void)rank;
    job->plan.pairs = true;
    return ZOE_OK;
}

static void test_pairs(void **state)
{
    (void)state;
    case_job *j = case_job_new(ZOE_TEST_DATA);
    j->after = set_pairs;
    run_beside_one(j, 1, 2);
    run_beside_one(j, 1, 4);
    free(j);
}

/* Each rank keeps a share of the weights. */
static void test_shared_weights(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        case_job *j = case_job_new(ZOE_TEST_DATA);
        j->params.shard_weights = true;
        j->params.bf16 = kind == 1;
        run_beside_one(j, 2, 2);
        run_beside_one(j, 1, 2);
        free(j);
    }
}

/* bf16 and int8 take other ways through the network. */
static void test_other_arithmetic(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        case_job *j = case_job_new(ZOE_TEST_DATA);
        j->params.bf16 = kind == 0;
        j->params.int8 = kind == 1;
        run_beside_one(j, 2, 2);
        free(j);
    }
}

static void test_random_seed(void **state)
{
    (void)state;
    case_job *j = case_job_new(ZOE_TEST_DATA);
    j->params.seed = -1;
    case_set(j, 2, 1, 1, 0);
    case_job_run(j);
    assert_true(case_job_ok(j, "random seed"));
    assert_true(case_job_alike(j));
    free(j);
}

/* ---- ranks that were not given the same ---- */

static zoe_status other_prompt(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    if (rank == 1)
        job->params.shift = 4.0;
    return ZOE_OK;
}

static void test_other_request(void **state)
{
    (void)state;
    case_job *j = case_job_new(ZOE_TEST_DATA);
    case_set(j, 2, 1, 1, 0);
    j->before = other_prompt;
    case_job_run(j);
    for (size_t r = 0; r < 2; r++) {
        assert_int_equal(j->results[r].status, ZOE_INVALID);
        assert_non_null(strstr(j->results[r].message, "rank 1 was given another request"));
        assert_int_equal(j->culprit[r].rank, 1);
        assert_true(j->culprit[r].found);
    }
    free(j);
}

/* ---- ranks on one host ---- */

static zoe_plan seen[4];

/* Looks at the plan, and goes no farther. */
static zoe_status see_plan(zoe_context *ctx, zoe_job *job, size_t rank)
{
    seen[rank] = *zoe_job_plan(job);
    return zoe_fail(ctx, ZOE_INTERNAL, "seen");
}

/* A video of which each of four ranks could hold its part, but the host not all four. */
static void test_one_host(void **state)
{
    (void)state;
    const size_t machine = zoe_memory_bytes();
    case_job *j = case_job_new(ZOE_TEST_DATA);
    case_set(j, 2, 2, 1, 0);
    j->after = see_plan;
    j->params.width = j->params.height = 1024;
    j->params.memory = ZOE_JOB_ENDLESS;
    for (j->params.frames = 5; j->params.frames < 100000;
         j->params.frames = 2 * j->params.frames - 1) {
        case_job_run(j);
        for (size_t r = 0; r < j->ranks; r++)
            assert_int_equal(seen[r].host_ranks, 4);
        assert_true(seen[0].host_peak > seen[0].peak + 2 * seen[3].peak);
        if (seen[0].host_peak > machine + machine / 8)
            break;
    }
    if (seen[0].peak > machine || seen[0].host_peak <= machine) {
        free(j);
        skip(); /* a machine of another kind */
    }
    j->params.memory = 0;
    case_job_run(j);
    assert_int_equal(j->results[0].status, ZOE_NOMEM);
    assert_non_null(
        strstr(j->results[0].message, " for the 4 ranks on this host, besides the weights"));
    /* What is suggested is for all four. */
    const char *at = strstr(j->results[0].message, " MiB; ");
    size_t frames = 0;
    assert_non_null(at);
    assert_int_equal(sscanf(at, " MiB; %zu frame", &frames), 1);
    assert_in_range(frames, 1, j->params.frames - 4);
    j->params.frames = frames;
    case_job_run(j);
    assert_int_equal(seen[0].frames, frames);
    /* A limit for each is taken by its word. */
    j->params.memory = seen[0].peak;
    case_job_run(j);
    assert_string_equal(j->results[0].message, "seen");
    free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split),
        cmocka_unit_test(test_ring_forms),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_guidance_of_one_expert),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_other_arithmetic),
        cmocka_unit_test(test_random_seed),
        cmocka_unit_test(test_other_request),
        cmocka_unit_test(test_one_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
