/* The limits of the control groups that this process is in: CPU quota and memory. */
#include "base/base.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_CPUS = 4096 };

/* CPUs that quota/period is worth, rounded up; 0 for no limit. */
static long long cpus_of(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    const long long cpus = quota / period + (quota % period != 0);
    return cpus > MOST_CPUS ? MOST_CPUS : cpus;
}

static long long number_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    long long number = -1;
    FILE *f =
        snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX ? fopen(path, "re") : NULL;
    if (!f)
        return -1;
    if (fscanf(f, "%lld", &number) != 1)
        number = -1;
    fclose(f);
    return number;
}

/* Version 2 has "QUOTA PERIOD" in one file, or "max PERIOD". */
static long long quota_2(const char *folder)
{
    char path[PATH_MAX];
    long long quota = -1, period = -1;
    FILE *f =
        snprintf(path, sizeof path, "%s/cpu.max", folder) < PATH_MAX ? fopen(path, "re") : NULL;
    if (!f)
        return 0;
    if (fscanf(f, "%lld %lld", &quota, &period) != 2)
        quota = -1;
    fclose(f);
    return cpus_of(quota, period);
}

static long long quota_1(const char *folder)
{
    return cpus_of(number_in(folder, "cpu.cfs_quota_us"), number_in(folder, "cpu.cfs_period_us"));
}

/* "max" is no number. Beyond the high mark a group is slowed down until it hardly moves. */
static long long memory_2(const char *folder)
{
    const long long max = number_in(folder, "memory.max");
    const long long high = number_in(folder, "memory.high");
    return max < 0 || (high > 0 && high < max) ? high : max;
}

/* No limit is written as a very high one. */
static long long memory_1(const char *folder)
{
    return number_in(folder, "memory.limit_in_bytes");
}

/* A limit by the name of its controller and how each version tells it of a group's folder: 0 or
 * less for none. */
typedef struct limit {
    const char *controller;
    long long (*version_1)(const char *folder);
    long long (*version_2)(const char *folder);
} limit;

/* The lesser of two limits. */
static long long tighter(long long a, long long b)
{
    return a <= 0 || (b > 0 && b < a) ? b : a;
}

/* The least of a group and all above it, up to where the hierarchy is mounted. In a container the
 * group's path may be one of the host's that is not to be seen; the mount itself is its group then. */
static long long least_of(const char *mount, const char *group,
                          long long (*limit_of)(const char *folder))
{
    char folder[PATH_MAX];
    long long least = 0;
    const size_t root = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= PATH_MAX)
        return 0;
    for (;;) {
        least = tighter(least, limit_of(folder));
        char *slash = strrchr(folder + root, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static bool has_word(const char *list, size_t length, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= length; i++)
        if ((i == 0 || list[i - 1] == ',') && memcmp(list + i, word, n) == 0 &&
            (i + n == length || list[i + n] == ','))
            return true;
    return false;
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:/GROUP"; version 2 has no controllers. */
static long long line_limit(const char *root, char *line, const limit *l)
{
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    const size_t length = (size_t)(group - controllers) - 1;
    group[strcspn(group, "\n")] = '\0';
    const bool second = length == 0;
    if ((!second && !has_word(controllers + 1, length, l->controller)) ||
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, second ? "" : "/",
                 second ? "" : l->controller) >= PATH_MAX)
        return 0;
    return least_of(mount, group + 1, second ? l->version_2 : l->version_1);
}

static long long group_limit(const char *root, const limit *l)
{
    char path[PATH_MAX], line[PATH_MAX];
    long long least = 0;
    FILE *f = snprintf(path, sizeof path, "%s/proc/self/cgroup", root) < PATH_MAX
                  ? fopen(path, "re")
                  : NULL;
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        least = tighter(least, line_limit(root, line, l));
    fclose(f);
    return least;
}

int zoe_cpu_quota(const char *root)
{
    const long long cpus = group_limit(root, &(limit){"cpu", quota_1, quota_2});
    return cpus > 0 ? (int)cpus : 0;
}

size_t zoe_memory_limit(const char *root)
{
    const long long bytes = group_limit(root, &(limit){"memory", memory_1, memory_2});
    return bytes > 0 ? (size_t)bytes : 0;
}
