/* See launch.h. */
#include "launch.h"

#include <stdio.h>
#include <time.h>

#include "comm/comm.h"
#include "commands.h"
#include "log.h"
#include "message.h"

static const struct timespec soon = {.tv_nsec = 700000000}, shortly = {.tv_nsec = 200000000};

void zoe_launch_hush(void)
{
    if (zoe_comm_launched() == 1)
        return;
    zoe_message_set_rank(zoe_comm_launched_rank());
    if (zoe_message_rank() > 0)
        nanosleep(&soon, NULL);
}

int zoe_launch_join(zoe_comm **comm)
{
    zoe_context *ctx = zoe_context_new(1);
    *comm = NULL;
    if (!ctx) {
        zoe_comm_give_up();
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    }
    const zoe_status status = zoe_comm_open(ctx, comm);
    int code = ZOE_EXIT_DONE;
    if (status == ZOE_OK)
        zoe_message_set_rank(zoe_comm_rank(*comm));
    else {
        /* One that is still there after that waits for a first rank that has not failed. */
        zoe_launch_hush();
        const size_t rank = zoe_message_rank();
        char name[32] = "";
        if (rank > 0) {
            nanosleep(&soon, NULL);
            snprintf(name, sizeof name, "rank %zu: ", rank);
        }
        zoe_message_set_rank(0);
        code = zoe_refuse(status == ZOE_NOMEM ? ZOE_EXIT_MEMORY : ZOE_EXIT_FAILED,
                          zoe_status_name(status), "%s%s", name, zoe_context_message(ctx));
        nanosleep(&shortly, NULL); /* until mpiexec has read that */
        zoe_comm_give_up();
    }
    zoe_context_free(ctx);
    return code;
}

/* Launchers end all ranks when the first one ends with a failure, and its exit code is theirs. So the
 * first rank gets time to say what happened, and the one that failed ends before those that only heard
 * of it. */
static void wait_for_others(const zoe_comm *comm, int code)
{
    const struct timespec later = {.tv_sec = 1, .tv_nsec = 200000000};
    const size_t own = zoe_comm_rank(comm);
    const bool heard = code != ZOE_EXIT_INTERRUPTED && zoe_comm_culprit(comm).rank != own;
    if (heard || own > 0)
        nanosleep(heard ? &later : &soon, NULL);
}

/* The first rank speaks for all, unless it is the one that has ended or is not heard of any more. */
static void speak_for_first(const zoe_comm *comm, int code)
{
    const zoe_culprit culprit = zoe_comm_culprit(comm);
    if (zoe_comm_rank(comm) != 1 || culprit.rank != 0 || !culprit.gone)
        return;
    char said[1024];
    snprintf(said, sizeof said, "%s", zoe_message_refusal());
    zoe_message_set_rank(0);
    zoe_refuse(code, zoe_status_name(ZOE_PEER), "%s", said);
}

void zoe_launch_leave(zoe_comm *comm, int code)
{
    if (code != ZOE_EXIT_DONE && zoe_comm_size(comm) > 1) {
        zoe_comm_fail(comm, zoe_message_refusal());
        speak_for_first(comm, code);
        wait_for_others(comm, code);
    }
    zoe_comm_close(comm);
}

int zoe_launch_suffices(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const size_t sizes[] = {p->cfg_ranks, p->ulysses, p->ring};
    size_t product = 1;
    for (size_t i = 0; i < 3; i++)
        product *= sizes[i] > 0 ? sizes[i] : 1; /* the options' limits keep it small */
    if (p->vae_ranks > product)
        product = p->vae_ranks;
    if (p->comm || product == 1 || request->dump_config)
        return ZOE_EXIT_DONE;
    return zoe_refuse(
        ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
        "the options ask for %zu ranks, and this process was started alone; start all "
        "of them: mpirun -n %zu zoe generate ..., or srun -n %zu",
        product, product, product);
}

int zoe_launch_meet(zoe_context *ctx, zoe_comm *comm, int code)
{
    if (!comm)
        return code;
    zoe_status mine = ZOE_OK;
    if (code != ZOE_EXIT_DONE) {
        mine = code == ZOE_EXIT_MEMORY ? ZOE_NOMEM : ZOE_INVALID;
        zoe_note_failure(ctx, "%s", zoe_message_refusal());
    }
    const zoe_status all = zoe_comm_agree(ctx, comm, mine);
    if (code != ZOE_EXIT_DONE || all == ZOE_OK)
        return code;
    return zoe_refuse(all == ZOE_CANCELLED ? ZOE_EXIT_INTERRUPTED : ZOE_EXIT_FAILED,
                      zoe_status_name(all), "%s", zoe_context_message(ctx));
}

int zoe_launch_alone(const char *command)
{
    const size_t started = zoe_comm_launched();
    if (started <= 1)
        return ZOE_EXIT_DONE;
    zoe_launch_hush();
    return zoe_refuse(
        ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
        "zoe %s is the work of one process, and the launcher has started %zu, each of which would "
        "do all of it: start it without mpirun, mpiexec or srun",
        command, started);
}
