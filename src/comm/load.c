/* Joining the ranks that a launcher has started: which MPI it belongs to, and the module for that. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/transport.h"

enum { SENTENCE = 2048, PATHS = 8 };

/* A module for each MPI; the launchers of its family tell their processes by these names. */
static const char open_mpi[] = "zoetrope-mpi-openmpi.so", mpich[] = "zoetrope-mpi-mpich.so";

/* How this process was started. */
typedef struct launch {
    const char *by;
    const char *modules[3]; /* to be tried in this order, NULL at the end */
    size_t size;            /* ranks; 0: it does not tell */
} launch;

/* A number of the environment; 0 if it is not there or is none. */
static size_t number_of(const char *name)
{
    const char *text = getenv(name);
    if (!text || *text < '0' || *text > '9')
        return 0;
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    return *end ? 0 : n;
}

/* Slurm's own tasks are none of MPI's ranks unless one of its plugins for MPI is in use, so that
 * they come last. They are asked for the step, as SLURM_NTASKS is also there in a batch script.
 * Sources: mpirun(1) of Open MPI; src/plugins/mpi/pmi2 of Slurm; src/pm/hydra of MPICH. */
static launch find_launch(void)
{
    const size_t of_step = number_of("SLURM_STEP_NUM_TASKS");
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return (launch){"Open MPI's mpirun", {open_mpi}, number_of("OMPI_COMM_WORLD_SIZE")};
    if (getenv("PMI_RANK") && getenv("PMI_SIZE"))
        return (launch){
            of_step ? "srun with PMI" : "MPICH's mpiexec", {mpich}, number_of("PMI_SIZE")};
    if (getenv("PMIX_RANK"))
        return (launch){
            of_step ? "srun with PMIx" : "a launcher with PMIx", {open_mpi, mpich}, of_step};
    return (launch){0};
}

/* ---- where modules are ---- */

/* Folders to look in, the number of which is returned: that of the program, for the build tree, and
 * those that an installed program has beside its own. */
static size_t find_folders(char folders[PATHS][PATH_MAX])
{
    static const char *const beside[] = {"", "/../lib/zoetrope", ("/" ZOE_MODULES)};
    char program[PATH_MAX / 2];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return 0;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    size_t count = 0;
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (i == 0 || strcmp(beside[i], beside[i - 1]) != 0)
            snprintf(folders[count++], PATH_MAX, "%s%s", program, beside[i]);
    return count;
}

static bool is_there(const char *path, bool folder)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) == folder;
}

/* The first file of these modules. ZOE_MPI_MODULE names a module, or a folder with modules. */
static zoe_status find_module(zoe_context *ctx, const launch *how, char path[PATH_MAX + 64])
{
    char folders[PATHS][PATH_MAX], looked[SENTENCE] = "";
    size_t count = 0, used = 0;
    const char *given = getenv("ZOE_MPI_MODULE");
    if (given && *given) {
        if (!is_there(given, true)) {
            if (strlen(given) >= PATH_MAX || !is_there(given, false))
                return zoe_fail(ctx, ZOE_MISSING, "ZOE_MPI_MODULE: %s is not there", given);
            snprintf(path, PATH_MAX, "%s", given);
            return ZOE_OK;
        }
        snprintf(folders[count++], PATH_MAX, "%s", given);
    } else {
        count = find_folders(folders);
    }
    for (size_t m = 0; how->modules[m]; m++)
        for (size_t i = 0; i < count; i++) {
            snprintf(path, PATH_MAX + 64, "%s/%s", folders[i], how->modules[m]);
            if (is_there(path, false))
                return ZOE_OK;
            if (used < sizeof looked)
                used += (size_t)snprintf(looked + used, sizeof looked - used, "%s%s",
                                         used ? ", " : "", path);
        }
    return zoe_fail(ctx, ZOE_MISSING,
                    "started by %s, but there is no module for its MPI: looked for %s. Install the "
                    "module, or name it or its folder in ZOE_MPI_MODULE",
                    how->by, looked);
}

/* ---- joining ---- */

/* The module stays loaded: MPI libraries do not bear to be unloaded. */
static zoe_status load(zoe_context *ctx, const char *path, zoe_transport **t)
{
    /* Open MPI loads parts of itself that expect to find it in the global scope. Nothing else is to
     * find the symbols of other libraries there. */
    const char *name = strrchr(path, '/');
    const int scope = strstr(name ? name : path, "openmpi") ? RTLD_GLOBAL : RTLD_LOCAL;
    void *module = dlopen(path, RTLD_NOW | scope);
    if (!module)
        return zoe_fail(ctx, ZOE_MISSING, "%s cannot be loaded: %s", path, dlerror());
    zoe_transport_open_fn open;
    void *entry = dlsym(module, ZOE_TRANSPORT_ENTRY);
    if (!entry)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s is no module of this program: it has no %s", path,
                        ZOE_TRANSPORT_ENTRY);
    memcpy(&open, &entry, sizeof open);
    char text[SENTENCE] = "";
    const zoe_status status = open(t, ZOE_TRANSPORT_ABI, text, sizeof text);
    return status == ZOE_OK ? ZOE_OK : zoe_fail(ctx, status, "%s: %s", path, text);
}

/* Slurm has started several tasks that MPI knows nothing of. They may be meant to work by
 * themselves. */
static void warn_of_tasks(zoe_context *ctx)
{
    const size_t tasks = number_of("SLURM_STEP_NUM_TASKS");
    if (tasks > 1 && number_of("SLURM_PROCID") == 0)
        zoe_log(
            ctx, ZOE_WARNING,
            "srun has started %zu tasks without MPI: each works alone, on a job of its own. For "
            "one job on all of them: srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH); "
            "srun --mpi=list shows what is there",
            tasks);
}

zoe_status zoe_comm_open(zoe_context *ctx, zoe_comm **comm)
{
    *comm = NULL;
    const launch how = find_launch();
    if (!how.by)
        warn_of_tasks(ctx);
    if (!how.by || how.size == 1)
        return ZOE_OK;
    char path[PATH_MAX + 64];
    zoe_transport *t;
    TRY(find_module(ctx, &how, path));
    TRY(load(ctx, path, &t));
    const size_t size = t->size;
    zoe_status status = ZOE_OK;
    if (how.size && size != how.size)
        status =
            zoe_fail(ctx, ZOE_PEER,
                     "%s has started %zu ranks, but the MPI of %s finds %zu: it is another MPI "
                     "than the launcher's",
                     how.by, how.size, path, size);
    else if (size > 1)
        status = zoe_comm_over(ctx, comm, t);
    if (!*comm)
        t->functions->close(t);
    return status;
}

size_t zoe_comm_launched(void)
{
    const launch how = find_launch();
    return how.by ? how.size : 1;
}

size_t zoe_comm_launched_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return number_of(names[i]);
    return 0;
}

/* The word of MPI_Abort, on the socket that mpiexec has opened for this process.
 * Source: src/pmi/simple of MPICH. */
void zoe_comm_give_up(void)
{
    static const char word[] = "cmd=abort exitcode=1\n";
    const size_t fd = number_of("PMI_FD");
    if (fd > 0 && fd < INT_MAX && !number_of("SLURM_STEP_NUM_TASKS"))
        (void)!write((int)fd, word, sizeof word - 1);
}

/* ---- threads ---- */

/* Ranks on this host, as the launcher tells. */
static size_t ranks_here(void)
{
    const size_t tasks = number_of("SLURM_STEP_NUM_TASKS"),
                 nodes = number_of("SLURM_STEP_NUM_NODES");
    const size_t told = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (told)
        return told;
    if (number_of("MPI_LOCALNRANKS"))
        return number_of("MPI_LOCALNRANKS");
    return tasks ? (tasks - 1) / (nodes ? nodes : 1) + 1 : 1;
}

int zoe_comm_threads(void)
{
    const int own = zoe_cpu_threads(), quota = zoe_cpu_quota("");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (quota > 0 && quota < cpus)
        cpus = quota;
    const size_t ranks = ranks_here();
    const long share = ranks > (size_t)cpus ? 1 : cpus / (long)ranks;
    return share < own ? (int)share : own;
}
