/* For golden runners with several ranks: each is a thread with a context of one thread. */
#ifndef GOLDEN_RANKS_H
#define GOLDEN_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "golden.h"

enum { GOLDEN_RANKS = 16 };

typedef zoe_status (*golden_rank_fn)(void *user, zoe_context *ctx, zoe_comm *comm);

typedef struct golden_rank {
    pthread_t thread;
    zoe_comm *comm;
    golden_rank_fn run;
    void *user;
} golden_rank;

static inline void *golden_rank_main(void *arg)
{
    const golden_rank *r = arg;
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx || r->run(r->user, ctx, r->comm) != ZOE_OK) {
        fprintf(stderr, "rank %zu: %s\n", zoe_comm_rank(r->comm),
                ctx ? zoe_context_message(ctx) : "no memory");
        exit(1);
    }
    zoe_context_free(ctx);
    return NULL;
}

/* Runs fn on n ranks; ends the program with a message when one fails. */
static inline void golden_run_ranks(golden *g, size_t n, golden_rank_fn fn, void *user)
{
    golden_rank ranks[GOLDEN_RANKS];
    zoe_world *world;
    golden_must(g, n <= GOLDEN_RANKS ? zoe_world_new(g->ctx, &world, n) : ZOE_UNSUPPORTED, "ranks");
    for (size_t i = 0; i < n; i++) {
        ranks[i] = (golden_rank){.comm = zoe_world_comm(world, i), .run = fn, .user = user};
        if (pthread_create(&ranks[i].thread, NULL, golden_rank_main, &ranks[i]) != 0) {
            fprintf(stderr, "no thread for rank %zu\n", i);
            exit(1);
        }
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    zoe_world_free(world);
}

#endif
