/* For golden runners with several ranks. */
#ifndef GOLDEN_RANKS_H
#define GOLDEN_RANKS_H

#include "../unit/ranks.h"
#include "golden.h"

typedef zoe_status (*golden_rank_fn)(void *user, zoe_context *ctx, zoe_comm *comm);

typedef struct golden_task {
    golden_rank_fn run;
    void *user;
} golden_task;

static inline zoe_status golden_rank_main(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    const golden_task *task = arg;
    const zoe_status status = task->run(task->user, ctx, comm);
    (void)rank;
    if (status != ZOE_OK)
        zoe_comm_fail(comm, zoe_context_message(ctx));
    return status;
}

/* Runs fn on n ranks, threads with a context of one thread each; ends the program with a message when
 * one fails. */
static inline void golden_run_ranks(golden *g, size_t n, golden_rank_fn fn, void *user)
{
    golden_task task = {fn, user};
    golden_must(g, n <= RANKS_MOST ? ZOE_OK : ZOE_UNSUPPORTED, "ranks");
    if (!ranks_run_ok(
            &(ranks_plan){.size = n, .seconds = 600, .fn = golden_rank_main, .arg = &task}))
        exit(1);
}

#endif
