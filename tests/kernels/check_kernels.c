/* check_kernels: every kernel of kernels.def on every instruction set of this cpu against its C
 * definition. In the spirit of dav1d's checkasm (tests/checkasm). How to add a check: check.h. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>

/* A row of kernels.def without its types. */
typedef struct row {
    const char *name, *family;
    double tolerance;
    void (*check)(const zoe_kernels *c, const zoe_kernels *g);
    bool (*same)(const zoe_kernels *a, const zoe_kernels *b);
} row;

#define KERNEL(name, family, tolerance)                                                            \
    static void run_##name(const zoe_kernels *c, const zoe_kernels *g)                             \
    {                                                                                              \
        check_##family(#name, c->name, g->name, tolerance);                                        \
    }                                                                                              \
    static bool same_##name(const zoe_kernels *a, const zoe_kernels *b)                            \
    {                                                                                              \
        return a->name == b->name;                                                                 \
    }
#include "kernel/kernels.def"
#undef KERNEL

#define KERNEL(name, family, tolerance) {#name, #family, tolerance, run_##name, same_##name},
static const row rows[] = {
#include "kernel/kernels.def"
};
#undef KERNEL
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct options {
    const char *pattern;
    const char *isa; /* NULL: all */
    uint64_t seed;
    bool bench, list;
} options;

/* ---- a guest that leaves its buffers ---- */

static sigjmp_buf leave;
static const void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    (void)number;
    fault_address = info->si_addr;
    siglongjmp(leave, 1);
}

static void on_illegal(int number)
{
    (void)number;
    siglongjmp(leave, 2);
}

static void catch_faults(void)
{
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    struct sigaction illegal = {.sa_handler = on_illegal};
    sigemptyset(&fault.sa_mask);
    sigemptyset(&illegal.sa_mask);
    if (sigaction(SIGSEGV, &fault, NULL) != 0 || sigaction(SIGBUS, &fault, NULL) != 0 ||
        sigaction(SIGILL, &illegal, NULL) != 0) {
        perror("sigaction");
        exit(3);
    }
}

/* ---- the run ---- */

static bool check_one(const row *r, const zoe_kernels *c, const zoe_kernels *g, bool behind)
{
    now.behind = behind;
    check_begin();
    switch (sigsetjmp(leave, 1)) {
    case 0: r->check(c, g); break;
    case 1: check_fault(fault_address); break;
    default: check_fail("an instruction that this cpu does not know"); break;
    }
    check_end();
    return !now.failed;
}

typedef struct tally {
    size_t kernels, checks, failures;
} tally;

/* All rungs of a kernel that have a function of their own. */
static void check_row(const row *r, const zoe_kernels *tables, const options *o, tally *t)
{
    size_t checks = 0;
    int seen = ZOE_ISA_C; /* the last rung with a function of its own */
    now.kernel = r->name;
    for (int isa = ZOE_ISA_C; isa < ZOE_ISA_COUNT; isa++) {
        if (!zoe_cpu_has((zoe_isa)isa))
            continue;
        if (isa != ZOE_ISA_C && r->same(&tables[isa], &tables[seen]))
            continue;
        seen = isa;
        now.isa = (zoe_isa)isa;
        now.rung = zoe_isa_name(now.isa);
        if (o->isa && strcmp(o->isa, now.rung) != 0)
            continue;
        checks++;
        if (!check_one(r, &tables[ZOE_ISA_C], &tables[isa], false) ||
            !check_one(r, &tables[ZOE_ISA_C], &tables[isa], true))
            t->failures++;
    }
    if (o->bench)
        bench_print();
    t->checks += checks;
    t->kernels += checks > 0;
}

/* The rungs of this run, such as "c, avx2". */
static const char *rungs(const options *o)
{
    static char text[64];
    size_t used = 0;
    for (int isa = 0; isa < ZOE_ISA_COUNT; isa++) {
        const char *name = zoe_isa_name((zoe_isa)isa);
        if (zoe_cpu_has((zoe_isa)isa) && (!o->isa || strcmp(o->isa, name) == 0))
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}

static int run(const options *o)
{
    static zoe_kernels tables[ZOE_ISA_COUNT];
    for (int isa = 0; isa < ZOE_ISA_COUNT; isa++)
        if (zoe_cpu_has((zoe_isa)isa))
            zoe_kernels_fill(&tables[isa], (zoe_isa)isa);
    tally t = {0};
    now.seed = o->seed;
    now.bench = o->bench;
    catch_faults();
    printf("seed %llu\n", (unsigned long long)o->seed);
    if (o->bench)
        printf("%-24s %9s  nanoseconds an element (times faster than c)\n", "kernel", "elements");
    for (size_t i = 0; i < ROWS; i++)
        if (fnmatch(o->pattern, rows[i].name, 0) == 0)
            check_row(&rows[i], tables, o, &t);
    if (t.checks == 0) {
        fprintf(stderr, "check_kernels: no kernel \"%s\" has a function of its own on %s\n",
                o->pattern, rungs(o));
        return 2;
    }
    if (t.failures > 0) {
        fflush(stdout);
        fprintf(stderr, "%zu of %zu checks of %zu kernels on %s failed\n", t.failures, t.checks,
                t.kernels, rungs(o));
        return 1;
    }
    printf("%zu checks of %zu kernels on %s passed\n", t.checks, t.kernels, rungs(o));
    return 0;
}

static int list(const options *o)
{
    for (size_t i = 0; i < ROWS; i++)
        if (fnmatch(o->pattern, rows[i].name, 0) == 0)
            printf("%-24s %-20s %g\n", rows[i].name, rows[i].family, rows[i].tolerance);
    return 0;
}

/* ---- options ---- */

static const char help[] =
    "check_kernels: compares every kernel on every instruction set of this cpu with its\n"
    "definition in C. Exit code 0: all right, 1: one differs, 2: usage.\n"
    "\n"
    "  --function NAME   only these kernels; * and ? stand for any letters\n"
    "  --isa NAME        only this instruction set: c, avx2, avx512, neon\n"
    "  --seed N          other random values (default 1)\n"
    "  --bench           also times them, in processor time of this thread\n"
    "  --list            prints the kernels, their families and tolerances\n"
    "  --help            prints this\n";

static bool known_isa(const char *name)
{
    for (int isa = 0; isa < ZOE_ISA_COUNT; isa++)
        if (strcmp(name, zoe_isa_name((zoe_isa)isa)) == 0)
            return zoe_cpu_has((zoe_isa)isa);
    return false;
}

static int usage(const char *what, const char *argument)
{
    fprintf(stderr, "check_kernels: %s: %s\n", what, argument);
    return 2;
}

/* -1: go on. */
static int parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--help") == 0)
            return fputs(help, stdout) < 0;
        if (strcmp(option, "--bench") == 0) {
            o->bench = true;
            continue;
        }
        if (strcmp(option, "--list") == 0) {
            o->list = true;
            continue;
        }
        if (strcmp(option, "--function") != 0 && strcmp(option, "--isa") != 0 &&
            strcmp(option, "--seed") != 0)
            return usage("unknown option, see --help", option);
        if (++i == argc)
            return usage("a value is missing after", option);
        if (option[2] == 'f')
            o->pattern = argv[i];
        else if (option[2] == 'i')
            o->isa = argv[i];
        if (option[2] == 's') {
            char *end;
            errno = 0;
            o->seed = strtoull(argv[i], &end, 10);
            if (end == argv[i] || *end || errno)
                return usage("a seed is a whole number, not", argv[i]);
        }
    }
    if (o->isa && !known_isa(o->isa))
        return usage("this cpu has no instruction set", o->isa);
    return -1;
}

int main(int argc, char **argv)
{
    options o = {.pattern = "*", .seed = 1};
    const int status = parse(&o, argc, argv);
    if (status >= 0)
        return status;
    return o.list ? list(&o) : run(&o);
}
