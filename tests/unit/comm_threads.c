/* Ranks as threads: order, overlap, and everything that can go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/trace.h"
#include "comm_program.h"
#include "ranks.h"

static void sleep_for(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds,
                               .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* ---- order ---- */

enum { LARGE = 1 << 22 };

/* Both send much before either waits, and wait in another order than they started. */
static zoe_status crossing(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    enum { EXCHANGES = 3 };
    static char memory[2][2][EXCHANGES][LARGE]; /* rank, send or receive */
    zoe_exchange e[EXCHANGES];
    zoe_status status = ZOE_OK;
    (void)arg;
    for (size_t i = 0; i < EXCHANGES; i++) {
        memset(memory[rank][0][i], (int)(10 * rank + i + 1), LARGE);
        const zoe_piece out = {1 - rank, memory[rank][0][i], LARGE - i};
        const zoe_piece in = {1 - rank, memory[rank][1][i], LARGE - i};
        TRY(zoe_exchange_start(ctx, comm, &e[i], &out, 1, &in, 1, "crossing"));
    }
    for (size_t i = 0; i < EXCHANGES; i++) {
        const size_t at = rank == 0 ? EXCHANGES - 1 - i : (i + 1) % EXCHANGES;
        status = zoe_exchange_wait(ctx, comm, &e[at]);
        const char *got = memory[rank][1][at];
        RANKS_CHECK(status == ZOE_OK && got[0] == (char)(10 * (1 - rank) + at + 1));
        RANKS_CHECK(memcmp(got, got + 1, LARGE - at - 1) == 0);
    }
    return zoe_exchange_wait(ctx, comm, &e[0]); /* nothing is under way any more */
}

static void starts_and_waits_in_any_order(void **state)
{
    (void)state;
    assert_true(ranks_run_ok(&(ranks_plan){.size = 2, .fn = crossing}));
}

/* A rank that only sends need not wait until the other one waits: it has started to receive. */
static zoe_status no_need_to_wait(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    static char memory[2][1000];
    const zoe_piece piece = {1 - rank, memory[rank], sizeof memory[rank]};
    zoe_exchange e;
    (void)arg;
    memset(memory[rank], (int)rank + 1, sizeof memory[rank]);
    TRY(zoe_exchange_start(ctx, comm, &e, &piece, rank == 0, &piece, rank == 1, "one way"));
    if (rank == 1)
        sleep_for(0.4);
    const double begun = zoe_now();
    TRY(zoe_exchange_wait(ctx, comm, &e));
    RANKS_CHECK(zoe_now() - begun < 0.3);
    RANKS_CHECK(memory[1][999] == 1);
    return ZOE_OK;
}

static void what_is_started_needs_no_wait_to_go_on(void **state)
{
    (void)state;
    assert_true(ranks_run_ok(&(ranks_plan){.size = 2, .fn = no_need_to_wait}));
}

/* ---- delay ---- */

typedef struct delays {
    double compute, least, most; /* seconds: between start and wait, and of the wait */
} delays;

static zoe_status delayed(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    const delays *d = arg;
    static char memory[3][2][100];
    const zoe_piece out = {(rank + 1) % 3, memory[rank][0], 100};
    const zoe_piece in = {(rank + 2) % 3, memory[rank][1], 100};
    zoe_trace *trace;
    zoe_exchange e;
    TRY(zoe_trace_new(ctx, &trace));
    zoe_status status = zoe_comm_agree(ctx, comm, ZOE_OK); /* exchange 0 */
    zoe_context_set_trace(ctx, trace);
    const double begun = zoe_now();
    if (status == ZOE_OK)
        status = zoe_exchange_start(ctx, comm, &e, &out, 1, &in, 1, "delayed");
    if (status == ZOE_OK) {
        sleep_for(d->compute);
        const double waiting = zoe_now();
        status = zoe_exchange_wait(ctx, comm, &e);
        const double ended = zoe_now();
        zoe_context_set_trace(ctx, NULL);
        zoe_trace_free(trace);
        RANKS_CHECK(ended - begun >= d->least);
        RANKS_CHECK(ended - waiting < d->most);
    }
    return status;
}

static void a_delay_runs_beside_the_work(void **state)
{
    (void)state;
    /* Bounds are wide: the machine may be busy. */
    delays waits = {.compute = 0.0, .least = 0.2, .most = 2.0};
    delays hides = {.compute = 0.6, .least = 0.6, .most = 0.19};
    const zoe_fault fault = {ZOE_FAULT_DELAY, SIZE_MAX, 1, 0.2};
    assert_true(
        ranks_run_ok(&(ranks_plan){.size = 3, .fault = fault, .fn = delayed, .arg = &waits}));
    assert_true(
        ranks_run_ok(&(ranks_plan){.size = 3, .fault = fault, .fn = delayed, .arg = &hides}));
}

/* ---- random programs ---- */

static void random_programs_follow_the_model(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 9; size++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            program p = {.seed = 100 * size + seed, .rounds = 20};
            assert_true(ranks_run_ok(&(ranks_plan){.size = size, .fn = program_run, .arg = &p}));
        }
}

static void delays_change_nothing(void **state)
{
    (void)state;
    for (size_t rank = 0; rank < 4; rank++) {
        program p = {.seed = 7 + rank, .rounds = 12};
        const zoe_fault fault = {ZOE_FAULT_DELAY, rank, 2, 0.003};
        assert_true(
            ranks_run_ok(&(ranks_plan){.size = 4, .fault = fault, .fn = program_run, .arg = &p}));
    }
}

/* ---- failures ---- */

static const double AT_MOST = 5.0; /* seconds for all to end; without load it is 0.1 */

/* Rank `who` fails at one of its exchanges: it ends with `own`, all others with ZOE_PEER and what
 * it said. */
static void check_failed(const ranks_result *r, size_t size, size_t who, zoe_status own,
                         const char *said, double begun)
{
    char want[256];
    snprintf(want, sizeof want, "rank %zu: %s", who, said);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(r[i].status, i == who ? own : ZOE_PEER);
        if (i != who)
            assert_memory_equal(r[i].message, want, strlen(want));
        assert_true(r[i].ended - begun < AT_MOST);
    }
}

static void every_failure_ends_all(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    program p = {.seed = 5, .rounds = 10};
    ranks_result r[RANKS];
    size_t exchanges[RANKS];
    ranks_plan plan = {.size = RANKS, .fn = program_run, .arg = &p, .seconds = 20.0};
    assert_true(ranks_run_ok(&plan));
    memcpy(exchanges, p.exchanges, sizeof exchanges);
    for (size_t who = 0; who < RANKS; who++)
        for (size_t at = 0; at < exchanges[who]; at++) {
            plan.fault = (zoe_fault){ZOE_FAULT_DEATH, who, at, 0.0};
            double begun = zoe_now();
            ranks_run(&plan, r);
            check_failed(r, RANKS, who, ZOE_PEER, "ended without a word", begun);
            plan.fault.kind = ZOE_FAULT_NOMEM;
            begun = zoe_now();
            ranks_run(&plan, r);
            check_failed(r, RANKS, who, ZOE_NOMEM, "", begun);
        }
    /* Beyond the last one nothing happens. */
    plan.fault = (zoe_fault){ZOE_FAULT_DEATH, 1, exchanges[1], 0.0};
    assert_true(ranks_run_ok(&plan));
}

static void all_ranks_may_be_hit(void **state)
{
    (void)state;
    program p = {.seed = 5, .rounds = 10};
    ranks_result r[4];
    for (zoe_fault_kind kind = ZOE_FAULT_DEATH; kind <= ZOE_FAULT_NOMEM; kind++) {
        ranks_run(&(ranks_plan){.size = 4,
                                .fn = program_run,
                                .arg = &p,
                                .seconds = 20.0,
                                .fault = {kind, SIZE_MAX, 3, 0.0}},
                  r);
        for (size_t i = 0; i < 4; i++)
            assert_true(r[i].status == ZOE_PEER ||
                        (kind == ZOE_FAULT_NOMEM && r[i].status == ZOE_NOMEM));
    }
}

/* Memory runs out at the n-th allocation from now, whoever asks. */
static zoe_status starving(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    program *p = arg;
    TRY(zoe_comm_agree(ctx, comm, ZOE_OK));
    if (rank == 0)
        zoe_alloc_fail_at(p->starve);
    return program_run(ctx, comm, rank, p);
}

static void lack_of_memory_ends_all(void **state)
{
    (void)state;
    size_t lacked = 0;
    for (size_t n = 1; n < 60; n++) {
        program p = {.seed = 11, .rounds = 6, .starve = n};
        ranks_result r[3];
        ranks_run(&(ranks_plan){.size = 3, .fn = starving, .arg = &p, .seconds = 20.0}, r);
        zoe_alloc_fail_at(0);
        for (size_t i = 0; i < 3; i++) {
            assert_true(r[i].status == ZOE_OK || r[i].status == ZOE_PEER ||
                        r[i].status == ZOE_NOMEM);
            lacked += r[i].status == ZOE_NOMEM;
        }
    }
    assert_true(lacked >= 30);
}

/* Exchanges like those before ask for no memory. */
static zoe_status steady(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    double values[16] = {0.0};
    char data[3][64] = {{0}};
    const size_t bytes[3] = {64, 64, 64};
    zoe_status status = ZOE_OK;
    (void)arg;
    for (size_t i = 0; i < 40 && status == ZOE_OK; i++) {
        if (i == 20)
            status = zoe_comm_agree(ctx, comm, ZOE_OK);
        if (i == 20 && rank == 0)
            zoe_alloc_fail_at(1);
        if (status == ZOE_OK)
            status = zoe_comm_sum(ctx, comm, values, 16);
        if (status == ZOE_OK)
            status = zoe_comm_gather(ctx, comm, data, data[rank], bytes, "gather");
        if (status == ZOE_OK)
            status = zoe_comm_broadcast(ctx, comm, data, 64, i % 3, "broadcast");
    }
    return status == ZOE_OK ? zoe_comm_agree(ctx, comm, ZOE_OK) : status;
}

static void steady_exchanges_take_no_memory(void **state)
{
    (void)state;
    const bool ok = ranks_run_ok(&(ranks_plan){.size = 3, .fn = steady});
    zoe_alloc_fail_at(0);
    assert_true(ok);
}

/* ---- sizes that differ ---- */

static zoe_status mismatch(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    static char memory[3][100];
    const size_t n = rank == 0 ? 90 : 100;
    const zoe_piece piece = {rank == 0, memory[rank], n};
    double value = 1.0;
    zoe_exchange e;
    (void)arg;
    if (rank == 2)
        return zoe_comm_sum(ctx, comm, &value, 1);
    TRY(zoe_exchange_start(ctx, comm, &e, &piece, rank == 0, &piece, rank == 1, "halo"));
    return zoe_exchange_wait(ctx, comm, &e);
}

static void other_sizes_are_told_on_both_sides(void **state)
{
    (void)state;
    ranks_result r[3];
    static const char *const want = "halo: rank 0 sends 90 bytes, rank 1 expects 100";
    ranks_run(&(ranks_plan){.size = 3, .fn = mismatch, .seconds = 20.0}, r);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(r[i].status, ZOE_INTERNAL);
        assert_string_equal(r[i].message, want);
    }
    assert_int_equal(r[2].status, ZOE_PEER);
    assert_non_null(strstr(r[2].message, want));
}

static zoe_status own_mismatch(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    static char memory[2][8];
    const zoe_piece out[2] = {{rank, memory[rank], 8}, {1 - rank, memory[rank], 8}};
    const zoe_piece in = {rank, memory[rank], 7};
    double value = 1.0;
    zoe_exchange e;
    (void)arg;
    if (rank == 1)
        return zoe_comm_sum(ctx, comm, &value, 1);
    return zoe_exchange_start(ctx, comm, &e, out, 2, &in, 1, "own");
}

static zoe_status no_such_rank(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    char byte = 0;
    const zoe_piece out = {2, &byte, 1};
    double value = 1.0;
    zoe_exchange e;
    (void)arg;
    if (rank == 1)
        return zoe_comm_sum(ctx, comm, &value, 1);
    return zoe_exchange_start(ctx, comm, &e, &out, 1, NULL, 0, "nobody");
}

static void wrong_pieces_are_refused(void **state)
{
    (void)state;
    ranks_result r[2];
    ranks_run(&(ranks_plan){.size = 2, .fn = own_mismatch, .seconds = 20.0}, r);
    assert_int_equal(r[0].status, ZOE_INTERNAL);
    assert_string_equal(r[0].message, "own: rank 0 sends itself 8 bytes and expects 7");
    assert_int_equal(r[1].status, ZOE_PEER);
    ranks_run(&(ranks_plan){.size = 2, .fn = no_such_rank, .seconds = 20.0}, r);
    assert_int_equal(r[0].status, ZOE_INTERNAL);
    assert_string_equal(r[0].message, "exchange with rank 2 of 2");
    assert_int_equal(r[1].status, ZOE_PEER);
}

/* ---- being told, being cancelled ---- */

static zoe_status told(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    double value = 0.0;
    (void)arg;
    if (rank == 2) {
        sleep_for(0.05);
        zoe_comm_fail(comm, "step 3: no more");
        zoe_comm_fail(comm, "something else"); /* the first counts */
        return zoe_fail(ctx, ZOE_IO, "step 3: no more");
    }
    const zoe_status status = zoe_comm_sum(ctx, comm, &value, 1);
    RANKS_CHECK(status == ZOE_PEER);
    zoe_context_clear(ctx);
    const zoe_status later = zoe_comm_sum(ctx, comm, &value, 1);
    RANKS_CHECK(later == ZOE_PEER);
    return zoe_comm_agree(ctx, comm, ZOE_OK);
}

static void a_failure_is_told_to_all(void **state)
{
    (void)state;
    ranks_result r[4];
    const double begun = zoe_now();
    ranks_run(&(ranks_plan){.size = 4, .fn = told, .seconds = 20.0}, r);
    check_failed(r, 4, 2, ZOE_IO, "step 3: no more", begun);
    assert_string_equal(r[0].message, "rank 2: step 3: no more");
}

static void *cancel_soon(void *ctx)
{
    sleep_for(0.1);
    zoe_cancel(ctx);
    return NULL;
}

static zoe_status cancelled(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    double value = 0.0;
    (void)arg;
    if (rank == 0) { /* computes for long */
        sleep_for(0.6);
        return zoe_comm_sum(ctx, comm, &value, 1);
    }
    pthread_t other;
    RANKS_CHECK(pthread_create(&other, NULL, cancel_soon, ctx) == 0);
    const zoe_status status = zoe_comm_sum(ctx, comm, &value, 1);
    pthread_join(other, NULL);
    return status;
}

static void a_cancelled_wait_ends_all(void **state)
{
    (void)state;
    ranks_result r[2];
    const double begun = zoe_now();
    ranks_run(&(ranks_plan){.size = 2, .fn = cancelled, .seconds = 20.0}, r);
    check_failed(r, 2, 1, ZOE_CANCELLED, "interrupted", begun);
    assert_string_equal(r[1].message, "interrupted");
    assert_true(r[1].ended < r[0].ended); /* it does not wait for the other */
}

/* The world fails while rank 1, as the last to start, copies much from rank 0; it also waits for
 * rank 2, which never sends, and for the first of two messages of rank 3. The memory is gone as
 * soon as a wait has ended, so the copy must have ended before; and when rank 3 has taken back its
 * first message, the second must not take its place. */
static zoe_status interrupted_copy(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    const size_t *pause = arg;
    void *memory;
    zoe_exchange e[2] = {{.state = NULL}, {.state = NULL}};
    TRY(zoe_comm_agree(ctx, comm, ZOE_OK));
    if (rank == 2) {
        sleep_for(2e-4 + 1e-5 * (double)*pause);
        zoe_comm_fail(comm, "no more");
        return zoe_fail(ctx, ZOE_IO, "no more");
    }
    TRY(zoe_alloc_zero(ctx, &memory, LARGE + 5, 1, "test"));
    char *data = memory;
    const zoe_piece much[2] = {{1 - rank, data, LARGE}, {2, data, 1}}, one = {1, data, 5};
    const zoe_piece all[3] = {{0, data, LARGE}, {3, data + LARGE, 5}, {2, data, 1}};
    const zoe_piece two = {1, data, 6};
    zoe_status status = ZOE_OK;
    if (rank == 0) {
        status = zoe_exchange_start(ctx, comm, &e[0], much, 2, NULL, 0, "copy");
    } else if (rank == 3) {
        status = zoe_exchange_start(ctx, comm, &e[0], &one, 1, NULL, 0, "copy");
        if (status == ZOE_OK)
            status = zoe_exchange_start(ctx, comm, &e[1], &two, 1, NULL, 0, "copy");
    } else {
        sleep_for(3e-4);
        status = zoe_exchange_start(ctx, comm, &e[0], NULL, 0, all, 3, "copy");
    }
    for (size_t i = 0; i < 2; i++) {
        const zoe_status ended = zoe_exchange_wait(ctx, comm, &e[i]);
        status = status == ZOE_OK ? ended : status;
        if (rank == 3 && status != ZOE_OK)
            sleep_for(1.5e-3); /* the second message still stands */
    }
    zoe_free(memory);
    return status;
}

static void copies_end_before_their_memory(void **state)
{
    (void)state;
    for (size_t pause = 0; pause < 150; pause++) {
        ranks_result r[4];
        ranks_run(&(ranks_plan){.size = 4, .fn = interrupted_copy, .arg = &pause, .seconds = 20.0},
                  r);
        assert_int_equal(r[2].status, ZOE_IO);
        for (size_t i = 0; i < 4; i++)
            assert_true(i == 2 || r[i].status == ZOE_PEER || (i == 3 && r[i].status == ZOE_OK));
    }
}

/* ---- traces ---- */

static zoe_status traced(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    static char memory[2][2][10];
    const zoe_piece out = {1 - rank, memory[rank][0], 10}, in = {1 - rank, memory[rank][1], 10};
    zoe_trace **traces = arg;
    zoe_exchange e;
    TRY(zoe_comm_agree(ctx, comm, ZOE_OK)); /* without a trace */
    TRY(zoe_trace_new(ctx, &traces[rank]));
    zoe_context_set_trace(ctx, traces[rank]);
    TRY(zoe_exchange_start(ctx, comm, &e, &out, 1, &in, 1, "halo"));
    sleep_for(0.6);
    TRY(zoe_exchange_wait(ctx, comm, &e));
    zoe_context_set_trace(ctx, NULL);
    return zoe_comm_agree(ctx, comm, ZOE_OK);
}

/* Begin and length of the event in microseconds. */
static void find_event(const char *text, const char *name, const char *track, double *at,
                       double *length)
{
    char want[100];
    snprintf(want, sizeof want, "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",", name, track);
    const char *event = strstr(text, want);
    assert_non_null(event);
    assert_null(strstr(event + 1, want));
    assert_int_equal(sscanf(strstr(event, "\"ts\":"), "\"ts\":%lf,\"dur\":%lf", at, length), 2);
}

/* An exchange is over when all has arrived, not when somebody comes to look. */
static void exchanges_are_traced(void **state)
{
    (void)state;
    zoe_trace *traces[2] = {NULL, NULL};
    zoe_context *ctx = zoe_context_new(1);
    char path[] = "/tmp/zoe_comm_XXXXXX", *text;
    size_t size;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(ranks_run_ok(&(ranks_plan){
        .size = 2, .fn = traced, .arg = traces, .fault = {ZOE_FAULT_DELAY, SIZE_MAX, 1, 0.1}}));
    for (size_t i = 0; i < 2; i++) {
        double begun, length, wait_begun, wait_length;
        assert_int_equal(zoe_trace_write(ctx, traces[i], path), ZOE_OK);
        assert_int_equal(zoe_file_read(ctx, &text, &size, path, 1 << 20), ZOE_OK);
        find_event(text, "halo", "exchange", &begun, &length);
        find_event(text, "wait", "compute", &wait_begun, &wait_length);
        assert_true(length >= 1e5 && wait_begun >= begun + 6e5);
        assert_true(begun + length < wait_begun && wait_length < 2e5);
        zoe_free(text);
        zoe_trace_free(traces[i]);
    }
    unlink(path);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_and_waits_in_any_order),
        cmocka_unit_test(what_is_started_needs_no_wait_to_go_on),
        cmocka_unit_test(a_delay_runs_beside_the_work),
        cmocka_unit_test(random_programs_follow_the_model),
        cmocka_unit_test(delays_change_nothing),
        cmocka_unit_test(every_failure_ends_all),
        cmocka_unit_test(all_ranks_may_be_hit),
        cmocka_unit_test(lack_of_memory_ends_all),
        cmocka_unit_test(steady_exchanges_take_no_memory),
        cmocka_unit_test(other_sizes_are_told_on_both_sides),
        cmocka_unit_test(wrong_pieces_are_refused),
        cmocka_unit_test(a_failure_is_told_to_all),
        cmocka_unit_test(a_cancelled_wait_ends_all),
        cmocka_unit_test(copies_end_before_their_memory),
        cmocka_unit_test(exchanges_are_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
