/* The one place that knows OpenMP, and how many threads this process may use. */
#define _GNU_SOURCE
#include "base/base.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

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

/* CPUs that the cgroup's quota is worth, rounded up; 0 without a limit. */
static int cgroup_quota(void)
{
    long long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fscanf(f, "%lld %lld", &quota, &period) != 2)
            quota = -1; /* "max": no limit */
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
        if (fscanf(f, "%lld", &quota) != 1)
            quota = -1;
        fclose(f);
        if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re"))) {
            if (fscanf(f, "%lld", &period) != 1)
                period = 0;
            fclose(f);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = (quota + period - 1) / period;
    return cpus > 4096 ? 4096 : (int)cpus;
}

int zoe_cpu_threads(void)
{
    int n = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    else
        n = omp_get_num_procs();
    const int quota = cgroup_quota();
    if (quota > 0 && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}
