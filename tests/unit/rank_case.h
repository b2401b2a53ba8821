/* What tests of several ranks share: ranks as threads of a world, each with a context of one thread.
 * Ranks only report; asserting is for the thread that started them. */
#ifndef RANK_CASE_H
#define RANK_CASE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "comm/comm.h"

enum { MOST_RANKS = 16 };

typedef zoe_status (*rank_fn)(void *user, zoe_context *ctx, zoe_comm *comm);

typedef struct rank_result {
    zoe_status status;
    char message[512];
} rank_result;

typedef struct rank_thread {
    pthread_t thread;
    zoe_comm *comm;
    rank_fn run;
    void *user;
    rank_result result;
} rank_thread;

static inline void *rank_main(void *arg)
{
    rank_thread *r = arg;
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx) {
        r->result.status = ZOE_NOMEM;
        return NULL;
    }
    r->result.status = r->run(r->user, ctx, r->comm);
    if (r->result.status != ZOE_OK) { /* as a program would that ends with an error */
        snprintf(r->result.message, sizeof r->result.message, "%s", zoe_context_message(ctx));
        zoe_comm_fail(r->comm, r->result.message);
    }
    zoe_context_free(ctx);
    return NULL;
}

/* Runs fn on n ranks of a world of their own; results [n] or NULL, then all must end with ZOE_OK. */
static inline void run_ranks(size_t n, const zoe_fault *fault, rank_fn fn, void *user,
                             rank_result *results)
{
    rank_thread ranks[MOST_RANKS] = {0};
    zoe_context *ctx = zoe_context_new(1);
    zoe_world *world;
    assert_non_null(ctx);
    assert_in_range(n, 1, MOST_RANKS);
    assert_int_equal(zoe_world_new(ctx, &world, n), ZOE_OK);
    if (fault)
        zoe_world_set_fault(world, fault);
    for (size_t i = 0; i < n; i++) {
        ranks[i].comm = zoe_world_comm(world, i);
        ranks[i].run = fn;
        ranks[i].user = user;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    zoe_world_free(world);
    zoe_context_free(ctx);
    for (size_t i = 0; i < n; i++) {
        if (results)
            results[i] = ranks[i].result;
        else if (ranks[i].result.status != ZOE_OK)
            fail_msg("rank %zu of %zu: %s", i, n, ranks[i].result.message);
    }
}

#endif
