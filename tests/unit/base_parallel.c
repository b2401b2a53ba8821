/* Parallel loops and the default number of threads. */
#define _GNU_SOURCE /* cpu sets */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

enum { MOST = 10007, WORKERS = 5 };

typedef struct counts {
    const zoe_context *ctx;
    atomic_int seen[MOST], busy[WORKERS];
    atomic_int errors;
    size_t workers;
} counts;

static counts c;

static void count(void *arg, size_t i, size_t worker)
{
    counts *k = arg;
    if (i >= MOST || worker >= k->workers) {
        atomic_fetch_add(&k->errors, 1);
        return;
    }
    if (atomic_fetch_add(&k->busy[worker], 1) != 0)
        atomic_fetch_add(&k->errors, 1); /* two tasks at once with one number */
    atomic_fetch_add(&k->seen[i], 1);
    atomic_fetch_sub(&k->busy[worker], 1);
}

static void every_index_runs_once(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 2, 3, 64, MOST};
    for (int threads = 1; threads <= WORKERS; threads += 2) {
        zoe_context *ctx = zoe_context_new(threads);
        assert_non_null(ctx);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(&c, 0, sizeof c);
            c.workers = (size_t)threads;
            zoe_parallel_for(ctx, sizes[s], count, &c);
            assert_int_equal(c.errors, 0);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(c.seen[i], i < sizes[s]);
        }
        zoe_context_free(ctx);
    }
}

static void inner(void *arg, size_t i, size_t worker)
{
    counts *k = arg;
    atomic_fetch_add(&k->seen[i], 1);
    if (worker != 0)
        atomic_fetch_add(&k->errors, 1);
}

static void outer(void *arg, size_t i, size_t worker)
{
    counts *k = arg;
    (void)i;
    (void)worker;
    zoe_parallel_for(k->ctx, 100, inner, arg);
}

static void nested_loops_stay_in_their_thread(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(3);
    assert_non_null(ctx);
    memset(&c, 0, sizeof c);
    c.ctx = ctx;
    zoe_parallel_for(ctx, 7, outer, &c);
    assert_int_equal(c.errors, 0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(c.seen[i], 7);
    zoe_context_free(ctx);
}

/* A host that runs the members of a team itself, the last one first. */
typedef struct host {
    size_t teams, most;
} host;

static void run_backwards(void *user, size_t team, zoe_team_task task, void *arg)
{
    host *h = user;
    h->teams++;
    h->most = team > h->most ? team : h->most;
    while (team-- > 0)
        task(arg, team);
}

static void a_hosts_team_runs_every_index_once(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 2, 64, MOST};
    for (int threads = 1; threads <= WORKERS; threads += 2) {
        host h = {0};
        zoe_context *ctx = zoe_context_new(threads);
        assert_non_null(ctx);
        zoe_context_set_team(ctx, run_backwards, &h);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(&c, 0, sizeof c);
            c.workers = (size_t)threads;
            zoe_parallel_for(ctx, sizes[s], count, &c);
            assert_int_equal(c.errors, 0);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(c.seen[i], i < sizes[s]);
        }
        /* What one thread does needs no team. */
        assert_int_equal(h.teams, threads > 1 ? 3 : 0);
        assert_int_equal(h.most, threads > 1 ? threads : 0);
        zoe_context_set_team(ctx, NULL, NULL);
        zoe_parallel_for(ctx, 2, count, &c);
        assert_int_equal(h.teams, threads > 1 ? 3 : 0);
        zoe_context_free(ctx);
    }
}

static void default_threads_honour_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const int all = zoe_cpu_threads();
    assert_in_range(all, 1, CPU_COUNT(&before));

    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int few = zoe_cpu_threads();
    zoe_context *ctx = zoe_context_new(0), *three = zoe_context_new(3);
    const int by_default = ctx ? zoe_context_threads(ctx) : -1;
    const int asked = three ? zoe_context_threads(three) : -1;
    zoe_context_free(ctx);
    zoe_context_free(three);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(few, 1);
    assert_int_equal(by_default, 1);
    assert_int_equal(asked, 3); /* who asks gets what he asks for */
    assert_int_equal(zoe_cpu_threads(), all);
}

static void isa_can_be_lowered(void **state)
{
    (void)state;
    const char *old = getenv("ZOE_CPU");
    char kept[32] = "";
    if (old)
        strncat(kept, old, sizeof kept - 1);
    unsetenv("ZOE_CPU");
    const zoe_isa best = zoe_cpu_isa();
    setenv("ZOE_CPU", "c", 1);
    assert_int_equal(zoe_cpu_isa(), ZOE_ISA_C);
    setenv("ZOE_CPU", "avx2", 1);
    assert_int_equal(zoe_cpu_isa(), zoe_cpu_has(ZOE_ISA_AVX2) ? ZOE_ISA_AVX2 : best);
    setenv("ZOE_CPU", zoe_cpu_has(ZOE_ISA_NEON) ? "avx512" : "neon", 1);
    assert_int_equal(zoe_cpu_isa(), best); /* no instruction set of another cpu */
    setenv("ZOE_CPU", "nonsense", 1);
    assert_int_equal(zoe_cpu_isa(), best);
    if (old)
        setenv("ZOE_CPU", kept, 1);
    else
        unsetenv("ZOE_CPU");
    assert_string_equal(zoe_isa_name(ZOE_ISA_C), "c");
    assert_string_equal(zoe_isa_name(ZOE_ISA_AVX2), "avx2");
    assert_string_equal(zoe_isa_name(ZOE_ISA_AVX512), "avx512");
    assert_string_equal(zoe_isa_name(ZOE_ISA_NEON), "neon");
    assert_string_equal(zoe_isa_name(ZOE_ISA_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(nested_loops_stay_in_their_thread),
        cmocka_unit_test(a_hosts_team_runs_every_index_once),
        cmocka_unit_test(default_threads_honour_affinity),
        cmocka_unit_test(isa_can_be_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
