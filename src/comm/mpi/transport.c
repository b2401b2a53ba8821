/* What the program calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "comm/mpi/world.h"

/* Seconds. MPI starts within a minute even on thousands of ranks; it ends at once, as all have said
 * that they are about to. */
static const double start_at_most = 180.0, finalize_at_most = 20.0;

static zoe_mpi_world *world_of(zoe_transport *t)
{
    return (zoe_mpi_world *)t;
}

/* Waits for news, 100 ms at most; with the lock. */
static void await_news(zoe_mpi_world *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&w->news, &w->lock, &until);
}

/* With the lock. */
static void poke(zoe_mpi_world *w)
{
    w->poked = true;
    pthread_cond_signal(&w->wake);
}

static zoe_status start(zoe_transport *transport, void **ticket, const zoe_message *sends,
                        size_t n_sends, const zoe_message *recvs, size_t n_recvs, char *text,
                        size_t room)
{
    zoe_mpi_world *w = world_of(transport);
    *ticket = NULL;
    zoe_mpi_ticket *t = zoe_mpi_ticket_new(sends, n_sends, recvs, n_recvs);
    if (!t) {
        snprintf(text, room, "no memory for an exchange of %zu messages", n_sends + n_recvs);
        return ZOE_NOMEM;
    }
    pthread_mutex_lock(&w->lock);
    const bool failed = w->failed;
    if (failed) {
        snprintf(text, room, "%s", w->failure);
        w->known = true;
    } else {
        zoe_mpi_queue_put(&w->posted, t);
        poke(w);
    }
    pthread_mutex_unlock(&w->lock);
    if (failed) {
        free(t->parts);
        free(t);
        return ZOE_PEER;
    }
    *ticket = t;
    return ZOE_OK;
}

static zoe_status wait(zoe_transport *transport, void *ticket, bool (*cancelled)(void *user),
                       void *user, double *ended, char *text, size_t room)
{
    zoe_mpi_world *w = world_of(transport);
    zoe_mpi_ticket *t = ticket;
    bool interrupted = false;
    pthread_mutex_lock(&w->lock);
    w->waiting++;
    if (!t->over)
        poke(w);
    while (!t->over) {
        await_news(w);
        if (t->over || interrupted || !cancelled(user))
            continue;
        /* The messages can be taken back only with everything else. */
        interrupted = true;
        pthread_mutex_unlock(&w->lock);
        zoe_mpi_fail(w, zoe_mpi_ours(w), "interrupted");
        pthread_mutex_lock(&w->lock);
    }
    w->waiting--;
    zoe_status status = t->status;
    if (status != ZOE_OK && interrupted)
        status = ZOE_CANCELLED;
    *ended = t->ended;
    w->known |= status != ZOE_OK;
    if (status != ZOE_OK)
        snprintf(text, room, "%s", w->failure + (status == ZOE_PEER ? 0 : w->prefix));
    pthread_mutex_unlock(&w->lock);
    free(t->parts);
    free(t);
    return status;
}

static void fail(zoe_transport *transport, const char *message)
{
    zoe_mpi_world *w = world_of(transport);
    zoe_mpi_fail(w, zoe_mpi_ours(w), "%s", message);
    pthread_mutex_lock(&w->lock);
    w->known = true;
    pthread_mutex_unlock(&w->lock);
}

static zoe_culprit culprit(zoe_transport *transport)
{
    zoe_mpi_world *w = world_of(transport);
    pthread_mutex_lock(&w->lock);
    const zoe_culprit who = w->failed ? w->culprit : (zoe_culprit){.rank = SIZE_MAX};
    pthread_mutex_unlock(&w->lock);
    return who;
}

static void world_free(zoe_mpi_world *w)
{
    zoe_mpi_control_free(w);
    pthread_cond_destroy(&w->news);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void close_world(zoe_transport *transport)
{
    zoe_mpi_world *w = world_of(transport);
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    poke(w);
    while (w->phase != ZOE_MPI_ENDED &&
           (w->phase != ZOE_MPI_FINALIZING || zoe_mpi_now() - w->finalizing < finalize_at_most))
        await_news(w);
    const bool ended = w->phase == ZOE_MPI_ENDED;
    pthread_mutex_unlock(&w->lock);
    if (ended) {
        pthread_join(w->thread, NULL);
        world_free(w);
    } else { /* another rank hangs in MPI's own end; ours is done */
        pthread_detach(w->thread);
    }
}

static const zoe_transport_functions functions = {
    .start = start, .wait = wait, .fail = fail, .culprit = culprit, .close = close_world};

/* Signals that people and launchers send are the program's business. */
static int start_thread(zoe_mpi_world *w)
{
    static const int ours[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        sigdelset(&others, ours[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    const int error = pthread_create(&w->thread, NULL, zoe_mpi_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static zoe_mpi_world *world_new(void)
{
    zoe_mpi_world *w = calloc(1, sizeof *w);
    pthread_condattr_t attributes;
    if (!w)
        return NULL;
    w->base.functions = &functions;
    w->patience = 7.0;
    const char *seconds = getenv("ZOE_MPI_PATIENCE");
    if (seconds && *seconds)
        w->patience = strtod(seconds, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attributes);
    pthread_cond_init(&w->news, &attributes);
    pthread_condattr_destroy(&attributes);
    return w;
}

__attribute__((visibility("default"))) zoe_status zoe_transport_open(zoe_transport **t, int abi,
                                                                     char *text, size_t room);

/* ZOE_TRANSPORT_ENTRY. */
zoe_status zoe_transport_open(zoe_transport **t, int abi, char *text, size_t room)
{
    *t = NULL;
    if (abi != ZOE_TRANSPORT_ABI) {
        snprintf(text, room, "the module is for version %d of its interface, the program has %d",
                 ZOE_TRANSPORT_ABI, abi);
        return ZOE_UNSUPPORTED;
    }
    zoe_mpi_world *w = world_new();
    if (!w) {
        snprintf(text, room, "no memory to start MPI");
        return ZOE_NOMEM;
    }
    if (start_thread(w) != 0) {
        snprintf(text, room, "the thread for MPI could not be started");
        world_free(w);
        return ZOE_NOMEM;
    }
    const double begun = zoe_mpi_now();
    pthread_mutex_lock(&w->lock);
    while (w->phase == ZOE_MPI_STARTING && zoe_mpi_now() - begun < start_at_most)
        await_news(w);
    const zoe_mpi_phase phase = w->phase;
    pthread_mutex_unlock(&w->lock);
    if (phase == ZOE_MPI_STARTING) { /* the thread keeps what it has */
        snprintf(text, room, "MPI has not started within %.0f s", start_at_most);
        pthread_detach(w->thread);
        return ZOE_PEER;
    }
    if (phase == ZOE_MPI_ENDED) {
        snprintf(text, room, "%s", w->failure);
        pthread_join(w->thread, NULL);
        world_free(w);
        return ZOE_PEER;
    }
    *t = &w->base;
    return ZOE_OK;
}
