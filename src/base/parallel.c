/* The one place that knows OpenMP, and how many threads this process may use. */
#define _GNU_SOURCE
#include "base/base.h"

#include <omp.h>
#include <sched.h>

void zoe_parallel_for(const zoe_context *ctx, size_t n, zoe_task_fn fn, void *arg)
{
    const int threads = zoe_context_threads(ctx);
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
