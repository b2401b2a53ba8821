/* Whatever happens to one rank, wherever: all ranks end soon, with its name, and what was done is not
 * lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job_ranks_case.h"

static char folder[64], latents[96], trace[96];
static const double SOON = 10.0; /* seconds */

static case_job *new_job(void)
{
    case_job *j = case_job_new(ZOE_TEST_DATA);
    j->params.latents_out = latents;
    j->params.steps = 3;
    case_set(j, 2, 2, 1, 0);
    return j;
}

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void expect_soon(const case_job *j)
{
    for (size_t r = 0; r < j->ranks; r++)
        if (j->results[r].ended - j->begun > SOON)
            fail_msg("rank %zu ended after %.1f s", r, j->results[r].ended - j->begun);
}

/* Goes on with what the last run left, on other ranks. */
static void expect_resumable(const case_job *whole, size_t cfg, size_t ulysses)
{
    case_job *j = new_job();
    j->params.checkpoint = folder;
    j->params.resume = true;
    case_set(j, cfg, ulysses, 1, 0);
    case_job_run(j);
    assert_true(case_job_ok(j, "after a fault"));
    assert_true(case_job_error(j, whole->latent[0]) == 0.0);
    free(j);
}

/* Does the file begin and end as a whole trace does? It is gone afterwards. */
static bool take_trace(const char *path)
{
    static const char head[] = "{\"displayTimeUnit\"", tail[] = "\n]}\n";
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    unlink(path);
    text[n] = '\0';
    return n > sizeof head + sizeof tail && strncmp(text, head, sizeof head - 1) == 0 &&
           strcmp(text + n - (sizeof tail - 1), tail) == 0 && strstr(text, "\"text\"");
}

/* The victim's own status, and that all others name it. */
static void expect_told(const case_job *j, size_t victim, zoe_status own)
{
    char name[40];
    snprintf(name, sizeof name, "rank %zu: ", victim);
    for (size_t r = 0; r < j->ranks; r++) {
        const ranks_result *result = &j->results[r];
        if (result->status != (r == victim ? own : ZOE_PEER) ||
            (r != victim && strncmp(result->message, name, strlen(name)) != 0))
            fail_msg("rank %zu (of exchange %zu of rank %zu): %s: %s", r, j->fault.exchange, victim,
                     zoe_status_name(result->status), result->message);
        const zoe_culprit culprit = j->culprit[r];
        if (r != victim && (culprit.rank != victim || culprit.found ||
                            culprit.gone != (j->fault.kind == ZOE_FAULT_DEATH)))
            fail_msg("rank %zu takes rank %zu for what failed, %zu is wanted", r, culprit.rank,
                     victim);
    }
    expect_soon(j);
}

/* At every so-manieth exchange of each rank in turn. */
static void strike(zoe_fault_kind kind, zoe_status own)
{
    case_job *whole = new_job();
    case_job_run(whole);
    assert_true(case_job_ok(whole, "undisturbed"));
    const size_t most = (size_t)whole->exchanges[0], stride = most / 11 + 1;
    assert_true(most > 20);
    for (size_t k = 0, n = 0; k < most; k += stride, n++) {
        const size_t victim = n % whole->ranks;
        case_job *j = new_job();
        remove_folder();
        j->params.checkpoint = folder;
        j->fault = (zoe_fault){.kind = kind, .rank = victim, .exchange = k};
        case_job_run(j);
        expect_told(j, victim, own);
        free(j);
        expect_resumable(whole, 1 + n % 2, 1 + n / 2 % 2);
    }
    free(whole);
}

static void test_death(void **state)
{
    (void)state;
    strike(ZOE_FAULT_DEATH, ZOE_PEER);
}

static void test_no_memory_for_an_exchange(void **state)
{
    (void)state;
    strike(ZOE_FAULT_NOMEM, ZOE_NOMEM);
}

/* The allocator is that of all threads: from the n-th call on, nobody gets anything. */
static void test_no_memory_at_all(void **state)
{
    (void)state;
    case_job *whole = new_job();
    case_job_run(whole);
    for (size_t n = 1, failed = 1; failed > 0; n += n / 3 + 1) {
        case_job *j = new_job();
        remove_folder();
        j->params.checkpoint = folder;
        zoe_alloc_fail_at(n + 40); /* contexts and the world are there */
        case_job_run(j);
        zoe_alloc_fail_at(0);
        expect_soon(j);
        failed = 0;
        for (size_t r = 0; r < j->ranks; r++) {
            const zoe_status status = j->results[r].status;
            failed += status != ZOE_OK;
            if (status != ZOE_OK && status != ZOE_NOMEM && status != ZOE_PEER)
                fail_msg("rank %zu, allocation %zu: %s: %s", r, n, zoe_status_name(status),
                         j->results[r].message);
        }
        assert_true(failed == 0 || failed == j->ranks);
        free(j);
        expect_resumable(whole, 1, 1);
    }
    free(whole);
}

/* Delays change nothing. */
static void test_delay(void **state)
{
    (void)state;
    case_job *whole = new_job(), *j = new_job();
    case_job_run(whole);
    j->fault = (zoe_fault){
        .kind = ZOE_FAULT_DELAY, .rank = 1, .exchange = whole->exchanges[1] / 2, .seconds = 0.003};
    case_job_run(j);
    assert_true(case_job_ok(j, "with a delay"));
    assert_true(case_job_error(j, whole->latent[0]) == 0.0);
    free(whole);
    free(j);
}

/* A file that cannot be written is the first rank's alone. */
static void test_output(void **state)
{
    (void)state;
    case_job *j = new_job();
    j->params.latents_out = "/proc/none/l.safetensors";
    case_job_run(j);
    expect_told(j, 0, ZOE_IO);
    free(j);
}

/* NaN in a weight of one branch's way is found by all. */
static zoe_status spoil(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    if (rank == 2)
        job->params.guide_high = (double)NAN; /* this rank's latent alone */
    return ZOE_OK;
}

static void test_not_finite(void **state)
{
    (void)state;
    case_job *j = new_job();
    j->after = spoil;
    case_job_run(j);
    expect_told(j, 2, ZOE_NONFINITE);
    free(j);
}

/* What happened until then is in the trace of a run that did not come to its end. */
static void test_trace(void **state)
{
    (void)state;
    case_job *whole = new_job();
    case_job_run(whole);
    for (size_t i = 0; i < 4; i++) {
        case_job *j = new_job();
        j->params.trace = trace;
        if (i == 0)
            case_set(j, 1, 1, 1, 0);
        if (i < 2) { /* interrupted */
            j->stop_rank = i;
            j->stop_step = 1;
        } else {
            j->fault = (zoe_fault){.kind = i == 2 ? ZOE_FAULT_DEATH : ZOE_FAULT_NOMEM,
                                   .rank = i - 1,
                                   .exchange = whole->exchanges[i - 1] * 3 / 4};
        }
        case_job_run(j);
        for (size_t r = 0; r < j->ranks; r++)
            assert_int_not_equal(j->results[r].status, ZOE_OK);
        if (!take_trace(trace))
            fail_msg("case %zu: no trace, or a part of one", i);
        free(j);
    }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_no_memory_for_an_exchange),
        cmocka_unit_test(test_no_memory_at_all),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_trace),
    };
    snprintf(folder, sizeof folder, "/tmp/zoe-faults-%ld", (long)getpid());
    snprintf(latents, sizeof latents, "%s.safetensors", folder);
    snprintf(trace, sizeof trace, "%s.json", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder();
    unlink(latents);
    return failed;
}
