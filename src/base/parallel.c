/* The one place that knows OpenMP, and how many threads this process may use. */
#define _GNU_SOURCE
#include "base/context.h"

#include <omp.h>
#include <sched.h>

/* A loop that a host's threads run: every member takes the next i that is left. */
typedef struct team_loop {
    zoe_task_fn fn;
    void *arg;
    size_t n;
    atomic_size_t next;
} team_loop;

static void take_turns(void *arg, size_t member)
{
    team_loop *loop = arg;
    for (;;) {
        const size_t i = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
        if (i >= loop->n)
            return;
        loop->fn(loop->arg, i, member);
    }
}

void zoe_parallel_for(const zoe_context *ctx, size_t n, zoe_task_fn fn, void *arg)
{
    const int threads = zoe_context_threads(ctx);
    const size_t most = threads > 1 ? (size_t)threads : 1;
    if (ctx->team && n > 1 && most > 1) {
        team_loop loop = {.fn = fn, .arg = arg, .n = n};
        atomic_init(&loop.next, 0);
        ctx->team(ctx->team_user, n < most ? n : most, take_turns, &loop);
        return;
    }
    if (n <= 1 || threads <= 1 || omp_in_parallel()) {
        for (size_t i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
    const int team = n < (size_t)threads ? (int)n : threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (size_t i = 0; i < n; i++)
        fn(arg, i, (size_t)omp_get_thread_num());
}

int zoe_cpu_threads(void)
{
    int n = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    else
        n = omp_get_num_procs();
    const int quota = zoe_cpu_quota("");
    if (quota > 0 && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}
