/* B52: the CPU quota of control groups of both versions: of the process's own group, of one above
 * it, in a container. The machine is a folder with the files that the kernel would show. */
#include "case.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/zoe-case-XXXXXX";

/* Writes root/path and makes the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[512];
    const int n = snprintf(full, sizeof full, "%s/%s", root, path);
    for (int i = (int)sizeof root; i < n; i++)
        if (full[i] == '/') {
            full[i] = '\0';
            if (mkdir(full, 0777) != 0 && errno != EEXIST)
                exit(1);
            full[i] = '/';
        }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
}

typedef struct file {
    const char *path, *text;
} file;

typedef struct row {
    const char *name;
    int want;
    file files[5];
} row;

#define SELF "proc/self/cgroup"
#define V1 "3:cpuset:/x\n2:cpu,cpuacct:/docker/abc\n1:memory:/y\n"

static const row rows[] = {
    {"no control groups", 0, {{"proc/version", "Linux"}}},
    {"no limit", 0, {{SELF, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}},
    {"a container of 2", 2, {{SELF, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
    {"a container of 1.5", 2, {{SELF, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}}},
    {"a container of 0.1", 1, {{SELF, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "10000 100000\n"}}},
    {"a service of 3",
     3,
     {{SELF, "0::/system.slice/a.service\n"},
      {"sys/fs/cgroup/system.slice/a.service/cpu.max", "300000 100000\n"}}},
    {"a slice of 2 above a service without a limit",
     2,
     {{SELF, "0::/system.slice/a.service\n"},
      {"sys/fs/cgroup/system.slice/a.service/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n"}}},
    {"a slice of 2 above a service of 3",
     2,
     {{SELF, "0::/system.slice/a.service\n"},
      {"sys/fs/cgroup/system.slice/a.service/cpu.max", "300000 100000\n"},
      {"sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n"}}},
    {"the limit of another group",
     0,
     {{SELF, "0::/mine\n"}, {"sys/fs/cgroup/other/cpu.max", "1 1\n"}}},
    {"a group of the host's that is not to be seen",
     2,
     {{SELF, "0::/../../x\n"}, {"sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
    {"version 1",
     2,
     {{SELF, V1},
      {"sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "200000\n"},
      {"sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n"}}},
    {"version 1 in a container",
     4,
     {{SELF, V1},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n"}}},
    {"version 1 without a limit",
     0,
     {{SELF, V1},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"version 1, cpuset is not cpu",
     0,
     {{SELF, "3:cpuset:/x\n"},
      {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "200000\n"},
      {"sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"}}},
    {"both versions, the stricter counts",
     2,
     {{SELF, "1:cpu:/\n0::/\n"},
      {"sys/fs/cgroup/cpu.max", "200000 100000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"nonsense", 0, {{SELF, "0\n::\n:\n\n"}, {"sys/fs/cgroup/cpu.max", "-5 0\n"}}},
    {"numbers beyond all",
     4096,
     {{SELF, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "9223372036854775807 1\n"}}},
};

int main(void)
{
    char command[64];
    if (!mkdtemp(root))
        return 1;
    snprintf(command, sizeof command, "rm -rf %s/*", root);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (system(command) != 0)
            return 1;
        for (size_t k = 0; k < 5 && rows[i].files[k].path; k++)
            put(rows[i].files[k].path, rows[i].files[k].text);
        const int found = zoe_cpu_quota(root);
        case_expect(found == rows[i].want, "%s: %d, wanted %d", rows[i].name, found, rows[i].want);
    }
    /* This machine's own: whatever it is, the default is not above it. */
    const int quota = zoe_cpu_quota(""), threads = zoe_cpu_threads();
    case_expect(threads >= 1 && (quota == 0 || threads <= quota), "%d threads, quota %d", threads,
                quota);
    return system(command) == 0 && rmdir(root) == 0 && !case_failures ? 0 : 1;
}
