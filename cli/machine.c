/* Reading /proc and /sys. Nothing here fails: systems differ, containers hide files. */
#define _GNU_SOURCE
#include "machine.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"

/* The first line of a small file, without its end. */
static bool read_line(char *line, size_t room, const char *path)
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    if (!file)
        return false;
    const bool got = fgets(line, (int)room, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return got;
}

/* ---- cpu ---- */

/* Instruction sets worth telling, as Linux calls them. */
static const char *const interesting[] = {
    "sse4_2",      "avx",      "f16c",     "fma",      "avx2",        "avx_vnni",
    "avx512f",     "avx512dq", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",       "fphp",
    "asimdhp",     "asimddp",  "bf16",     "i8mm",     "sve",         "sve2",
};

#if defined(__x86_64__)
static const char *const wanted[] = {"avx2",     "fma",      "f16c",    "avx512f",
                                     "avx512bw", "avx512dq", "avx512vl"};
enum { WANTED = sizeof wanted / sizeof wanted[0] };
#endif

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static void append(char *list, size_t room, const char *word)
{
    const size_t used = strlen(list);
    snprintf(list + used, room - used, "%s%s", used ? " " : "", word);
}

static void read_features(zoe_machine *m, const char *list)
{
    for (size_t i = 0; i < sizeof interesting / sizeof interesting[0]; i++)
        if (has_word(list, interesting[i]))
            append(m->features, sizeof m->features, interesting[i]);
#if defined(__x86_64__)
    for (size_t i = 0; i < WANTED; i++)
        if (!has_word(list, wanted[i]))
            append(m->lacks, sizeof m->lacks, wanted[i]);
#endif
}

/* "model name : AMD EPYC"; the value of one of the keys, if the line is one. */
static const char *value_of(const char *line, const char *key)
{
    const size_t n = strlen(key);
    const char *colon = strchr(line, ':');
    if (strncmp(line, key, n) != 0 || !colon ||
        strspn(line + n, " \t") != (size_t)(colon - line) - n)
        return NULL;
    return colon + 1 + strspn(colon + 1, " \t");
}

static void read_cpu(zoe_machine *m)
{
    char *line = NULL;
    size_t room = 0;
    bool features = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && getline(&line, &room, file) > 0 && !(features && m->cpu[0])) {
        const char *value;
        line[strcspn(line, "\n")] = '\0';
        if (!m->cpu[0] &&
            ((value = value_of(line, "model name")) || (value = value_of(line, "Model"))))
            snprintf(m->cpu, sizeof m->cpu, "%s", value);
        if (!features &&
            ((value = value_of(line, "flags")) || (value = value_of(line, "Features")))) {
            features = true;
            read_features(m, value);
        }
    }
    free(line);
    if (file)
        fclose(file);
}

static size_t size_with_unit(const char *text)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    const size_t unit = *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : 1;
    size_t bytes;
    return end == text || !zoe_size_mul(&bytes, (size_t)value, unit) ? SIZE_MAX : bytes;
}

static void read_caches(zoe_machine *m)
{
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cache";
    for (unsigned i = 0; i < ZOE_CACHES; i++) {
        char path[128], text[64];
        zoe_cache *cache = &m->caches[m->n_caches];
        snprintf(path, sizeof path, "%s/index%u/level", folder, i);
        if (!read_line(text, sizeof text, path))
            return;
        cache->level = (unsigned)strtoul(text, NULL, 10);
        snprintf(path, sizeof path, "%s/index%u/type", folder, i);
        read_line(text, sizeof text, path);
        snprintf(cache->kind, sizeof cache->kind, "%.15s", text);
        snprintf(path, sizeof path, "%s/index%u/size", folder, i);
        read_line(text, sizeof text, path);
        cache->bytes = size_with_unit(text);
        m->n_caches++;
    }
}

static void read_threads(zoe_machine *m)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    m->online = online > 0 && online < INT_MAX ? (int)online : 0;
    m->affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    m->quota = zoe_cpu_quota("");
}

/* ---- memory ---- */

static void read_meminfo(zoe_machine *m)
{
    const struct {
        const char *key;
        size_t *value, unit;
    } keys[] = {
        {"MemTotal:", &m->memory, 1024},
        {"MemAvailable:", &m->available, 1024},
        {"SwapFree:", &m->swap_free, 1024},
        {"HugePages_Total:", &m->huge_pages, 1},
        {"Hugepagesize:", &m->huge_page_bytes, 1024},
    };
    enum { KEYS = sizeof keys / sizeof keys[0] };
    char line[256];
    for (size_t i = 0; i < KEYS; i++)
        *keys[i].value = SIZE_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < KEYS; i++) {
            const size_t n = strlen(keys[i].key);
            if (strncmp(line, keys[i].key, n) != 0)
                continue;
            size_t value = (size_t)strtoull(line + n, NULL, 10);
            if (zoe_size_mul(&value, value, keys[i].unit))
                *keys[i].value = value;
        }
    if (file)
        fclose(file);
}

/* The word in brackets: "always [madvise] never". */
static void read_transparent(zoe_machine *m)
{
    char line[64];
    read_line(line, sizeof line, "/sys/kernel/mm/transparent_hugepage/enabled");
    const char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
    if (close)
        snprintf(m->transparent, sizeof m->transparent, "%.*s", (int)(close - open - 1), open + 1);
}

/* The least limit of a group and of all above it. Version 1 says "no limit" by a huge number. */
static size_t least_limit(const char *mount, const char *group, const char *name)
{
    char folder[PATH_MAX], path[PATH_MAX], text[64];
    size_t least = SIZE_MAX;
    const size_t root = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= PATH_MAX)
        return SIZE_MAX;
    for (;;) {
        if (snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX &&
            read_line(text, sizeof text, path) && text[0] >= '0' && text[0] <= '9') {
            const size_t limit = (size_t)strtoull(text, NULL, 10);
            if (limit < least && limit < (size_t)1 << 60)
                least = limit;
        }
        char *slash = strrchr(folder + root, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:/GROUP"; version 2 has no controllers. */
static size_t line_limit(const char *line)
{
    const char *controllers = strchr(line, ':');
    const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return SIZE_MAX;
    if (group == controllers + 1)
        return least_limit("/sys/fs/cgroup", group + 1, "memory.max");
    if (strncmp(controllers, ":memory:", 8) == 0)
        return least_limit("/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes");
    return SIZE_MAX;
}

static void read_limit(zoe_machine *m)
{
    char line[PATH_MAX];
    m->memory_limit = SIZE_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const size_t limit = line_limit(line);
        if (limit < m->memory_limit)
            m->memory_limit = limit;
    }
    if (file)
        fclose(file);
}

/* ---- the whole ---- */

void zoe_machine_read(zoe_machine *machine)
{
    struct utsname name;
    *machine = (zoe_machine){0};
    if (uname(&name) == 0)
        snprintf(machine->system, sizeof machine->system, "%.64s %.64s, %.64s", name.sysname,
                 name.release, name.machine);
    read_cpu(machine);
    read_caches(machine);
    read_threads(machine);
    read_meminfo(machine);
    read_transparent(machine);
    read_limit(machine);
}

size_t zoe_folder_free(const char *path)
{
    struct statvfs st;
    size_t bytes;
    if (statvfs(path, &st) != 0 || !zoe_size_mul(&bytes, st.f_bavail, st.f_frsize))
        return SIZE_MAX;
    return bytes;
}
