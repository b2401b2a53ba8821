/* What tests of several ranks share: ranks as threads of a world, each with a context of one thread.
 * Ranks only report; asserting is for the thread that started them. */
#ifndef RANK_CASE_H
#define RANK_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ranks.h"

enum { MOST_RANKS = 16 };

typedef zoe_status (*rank_fn)(void *user, zoe_context *ctx, zoe_comm *comm);

typedef struct rank_task {
    rank_fn run;
    void *user;
} rank_task;

static inline zoe_status rank_main(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    const rank_task *task = arg;
    const zoe_status status = task->run(task->user, ctx, comm);
    (void)rank;
    if (status != ZOE_OK) /* as a program would that ends with an error */
        zoe_comm_fail(comm, zoe_context_message(ctx));
    return status;
}

/* Runs fn on n ranks of a world of their own; results [n] or NULL, then all must end with ZOE_OK. */
static inline void run_ranks(size_t n, const zoe_fault *fault, rank_fn fn, void *user,
                             ranks_result *results)
{
    rank_task task = {fn, user};
    ranks_plan plan = {.size = n, .seconds = 300, .fn = rank_main, .arg = &task};
    if (fault)
        plan.fault = *fault;
    if (results)
        ranks_run(&plan, results);
    else if (!ranks_run_ok(&plan))
        fail_msg("%zu ranks failed", n);
}

#endif
