/* Runs a function on ranks that are threads, each with a context of its own. A hang ends the
 * program. */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "comm/comm.h"

enum { RANKS_MOST = 32 };

/* Runs in the thread of the rank, where cmocka's assertions must not be used: RANKS_CHECK instead.
 * What it returns is put down for the rank. */
typedef zoe_status (*ranks_fn)(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg);

#define RANKS_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return zoe_fail(ctx, ZOE_INTERNAL, "%s:%d: %s", __FILE__, __LINE__, #condition);       \
    } while (0)

typedef struct ranks_result {
    zoe_status status;
    char message[512];
    double ended; /* time of zoe_now */
} ranks_result;

typedef struct ranks_plan {
    size_t size;
    int threads;     /* of each rank's context; 0 is 1 */
    double seconds;  /* after which it is a hang; 0 is 60 */
    zoe_fault fault; /* or none */
    ranks_fn fn;     /* of a rank, and what it gets: */
    void *arg;
    size_t arg_step; /* bytes from the arg of one rank to that of the next; 0: all get the same */
} ranks_plan;

typedef struct ranks_thread {
    const ranks_plan *plan;
    zoe_world *world;
    zoe_context *ctx;
    size_t rank;
    ranks_result *result;
    pthread_mutex_t *lock;
    pthread_cond_t *news;
    bool ended;
} ranks_thread;

static void *ranks_main(void *arg)
{
    ranks_thread *t = arg;
    const ranks_plan *p = t->plan;
    void *own = p->arg_step > 0 ? (char *)p->arg + p->arg_step * t->rank : p->arg;
    t->result->status = p->fn(t->ctx, zoe_world_comm(t->world, t->rank), t->rank, own);
    t->result->ended = zoe_now();
    snprintf(t->result->message, sizeof t->result->message, "%.*s",
             (int)sizeof t->result->message - 1, zoe_context_message(t->ctx));
    pthread_mutex_lock(t->lock);
    t->ended = true;
    pthread_cond_signal(t->news);
    pthread_mutex_unlock(t->lock);
    return NULL;
}

static void ranks_must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "ranks: %s\n", what);
        abort();
    }
}

/* Waits for all; a hang is told and ends the program. */
static void ranks_watch(const ranks_plan *p, ranks_thread *threads, pthread_mutex_t *lock,
                        pthread_cond_t *news)
{
    struct timespec end;
    const double seconds = p->seconds > 0.0 ? p->seconds : 60.0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)seconds + 1;
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < p->size; i++) {
        int error = 0;
        while (!threads[i].ended && error == 0)
            error = pthread_cond_timedwait(news, lock, &end);
        if (!threads[i].ended) {
            fprintf(stderr, "ranks: rank %zu of %zu hangs\n", i, p->size);
            abort();
        }
    }
    pthread_mutex_unlock(lock);
}

/* Runs the plan; results [size]. */
static void ranks_run(const ranks_plan *p, ranks_result *results)
{
    ranks_thread threads[RANKS_MOST] = {{.rank = 0}};
    pthread_t ids[RANKS_MOST];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t news = PTHREAD_COND_INITIALIZER;
    zoe_world *world = NULL;
    zoe_context *ctx = zoe_context_new(1);
    ranks_must(p->size <= RANKS_MOST && ctx, "too many ranks, or no memory");
    ranks_must(zoe_world_new(ctx, &world, p->size) == ZOE_OK, zoe_context_message(ctx));
    zoe_world_set_fault(world, &p->fault);
    for (size_t i = 0; i < p->size; i++) {
        threads[i] = (ranks_thread){.plan = p,
                                    .world = world,
                                    .ctx = zoe_context_new(p->threads > 0 ? p->threads : 1),
                                    .rank = i,
                                    .result = &results[i],
                                    .lock = &lock,
                                    .news = &news};
        ranks_must(threads[i].ctx != NULL, "no memory");
    }
    for (size_t i = 0; i < p->size; i++)
        ranks_must(pthread_create(&ids[i], NULL, ranks_main, &threads[i]) == 0, "no thread");
    ranks_watch(p, threads, &lock, &news);
    for (size_t i = 0; i < p->size; i++) {
        pthread_join(ids[i], NULL);
        zoe_context_free(threads[i].ctx);
    }
    zoe_world_free(world);
    zoe_context_free(ctx);
}

/* The same; true if all ranks gave ZOE_OK, else what they said is printed. */
static inline bool ranks_run_ok(const ranks_plan *p)
{
    static ranks_result results[RANKS_MOST];
    bool ok = true;
    ranks_run(p, results);
    for (size_t i = 0; i < p->size; i++)
        if (results[i].status != ZOE_OK) {
            fprintf(stderr, "rank %zu of %zu: %s: %s\n", i, p->size,
                    zoe_status_name(results[i].status), results[i].message);
            ok = false;
        }
    return ok;
}

#endif
