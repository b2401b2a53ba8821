/* The life of the thread that calls MPI. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "comm/mpi/world.h"

/* Seconds that a rank has, after a failure that it knows of, to end by itself. */
static const double grace = 2.5;

double zoe_mpi_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zoe_mpi_fail(zoe_mpi_world *w, zoe_mpi_kind kind, const char *format, ...)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failed) {
        va_list args;
        w->failed = true;
        w->own = kind.own;
        w->internal = kind.internal;
        w->lost = kind.lost;
        w->culprit = kind.culprit;
        w->prefix = 0;
        /* Of a rank that has vanished, everyone says the same. */
        if (kind.own && kind.lost == SIZE_MAX)
            w->prefix = (size_t)snprintf(w->failure, sizeof w->failure, "rank %zu: ", w->base.rank);
        va_start(args, format);
        vsnprintf(w->failure + w->prefix, sizeof w->failure - w->prefix, format, args);
        va_end(args);
    }
    w->poked = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void zoe_mpi_fail_mpi(zoe_mpi_world *w, int error, const char *doing)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    zoe_mpi_fail(w, zoe_mpi_ours(w), "MPI failed in %s: %s", doing, text);
}

static void enter(zoe_mpi_world *w, zoe_mpi_phase phase)
{
    pthread_mutex_lock(&w->lock);
    w->phase = phase;
    if (phase == ZOE_MPI_FINALIZING)
        w->finalizing = zoe_mpi_now();
    pthread_cond_broadcast(&w->news);
    pthread_mutex_unlock(&w->lock);
}

static bool begin(zoe_mpi_world *w)
{
    const zoe_mpi_kind none = {.lost = SIZE_MAX,
                               .culprit = {.rank = SIZE_MAX}}; /* nobody to tell */
    int already = 0, provided = 0, size = 0, rank = 0;
    MPI_Initialized(&already);
    if (already) {
        zoe_mpi_fail(w, none, "this process has already started MPI by itself");
        return false;
    }
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (error != MPI_SUCCESS) {
        zoe_mpi_fail_mpi(w, error, "starting");
        return false;
    }
    if (provided < MPI_THREAD_FUNNELED) {
        zoe_mpi_fail(w, none,
                     "this MPI was built for programs without threads (it has no "
                     "MPI_THREAD_FUNNELED)");
        return false;
    }
    w->base.size = (size_t)size;
    w->base.rank = (size_t)rank;
    if (!zoe_mpi_control_open(w)) {
        zoe_mpi_fail(w, none, "no memory to start MPI");
        return false;
    }
    return true;
}

/* Sleeps for a while, or until poked. The longer nothing has moved, the longer. */
static void rest(zoe_mpi_world *w)
{
    const bool busy = w->active.first || w->words || w->telling || w->closed;
    const unsigned turns = w->quiet++;
    pthread_mutex_lock(&w->lock);
    if (!w->poked) {
        const bool eager = w->waiting > 0;
        if (busy && eager && turns < 50) {
            pthread_mutex_unlock(&w->lock);
            sched_yield();
            return;
        }
        const unsigned doublings = turns / 16 < 5 ? turns / 16 : 5;
        long ns = 10000000;
        if (busy)
            ns = (eager ? 10000 : 30000) << doublings; /* up to 0.3 and 1 ms */
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += ns;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
    }
    w->poked = false;
    pthread_mutex_unlock(&w->lock);
}

/* Ends every ticket with the world's failure. MPI may go on with them only while it is called. */
static void die(zoe_mpi_world *w)
{
    pthread_mutex_lock(&w->lock);
    zoe_mpi_ticket *lists[] = {w->active.first, w->posted.first};
    for (size_t i = 0; i < 2; i++)
        for (zoe_mpi_ticket *t = lists[i], *next; t; t = next) {
            next = t->next; /* t belongs to its waiter from now on */
            t->over = true;
            t->status = w->internal ? ZOE_INTERNAL : ZOE_PEER;
        }
    w->active = w->posted = (zoe_mpi_queue){0};
    w->phase = ZOE_MPI_DEAD;
    pthread_cond_broadcast(&w->news);
    pthread_mutex_unlock(&w->lock);
}

/* One look at everything; true as long as there is something to do. */
static bool turn(zoe_mpi_world *w)
{
    pthread_mutex_lock(&w->lock);
    zoe_mpi_queue posted = {0};
    if (!w->failed) {
        posted = w->posted;
        w->posted = (zoe_mpi_queue){0};
    }
    const bool closing = w->closing;
    pthread_mutex_unlock(&w->lock);

    bool moved = posted.first;
    for (zoe_mpi_ticket *t = posted.first, *next; t; t = next) {
        next = t->next;
        zoe_mpi_post(w, t);
    }
    moved |= zoe_mpi_advance(w);
    moved |= zoe_mpi_control(w);
    if (closing && w->active.first) {
        zoe_mpi_kind without_word = zoe_mpi_ours(w);
        without_word.culprit.gone = true;
        zoe_mpi_fail(w, without_word, "ended in the midst of an exchange");
    }

    pthread_mutex_lock(&w->lock);
    const bool failed = w->failed;
    pthread_mutex_unlock(&w->lock);
    if (failed && zoe_mpi_tell(w)) {
        die(w);
        return false;
    }
    if (!failed && closing && zoe_mpi_leave(w)) {
        enter(w, ZOE_MPI_FINALIZING);
        return false;
    }
    if (moved)
        w->quiet = 0;
    else
        rest(w);
    return true;
}

/* After a failure: the program has a while to tell its user and to end. A rank that goes on to
 * compute is ended, and its launcher ends those that hang. So is a rank that was about to end well
 * and could not learn of the failure: its exit code would be 0. */
static void linger(zoe_mpi_world *w)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)grace;
    until.tv_nsec += (long)((grace - (double)(time_t)grace) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&w->lock);
    while (!w->closing && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&w->wake, &w->lock, &until);
    const bool ends = w->closing && w->known;
    pthread_mutex_unlock(&w->lock);
    if (!ends)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* Leaves MPI, all ranks having said their last word. MPICH over UCX hangs in its own end when ranks
 * come to it one after the other: those that are through with closing their connections do not answer
 * those that still are at it. There mpiexec is told, on the socket that it has opened for this process,
 * that the rank has come to its end; the system closes the connections.
 * Source: src/pmi/simple of MPICH. */
static void leave(void)
{
#ifdef MPICH_VERSION
    static const char word[] = "cmd=finalize\n";
    const char *fd = getenv("PMI_FD");
    if (fd && !getenv("SLURM_STEP_NUM_TASKS") && atoi(fd) > 0) {
        char answer[64];
        if (write(atoi(fd), word, sizeof word - 1) == (ssize_t)sizeof word - 1)
            (void)!read(atoi(fd), answer, sizeof answer);
        return;
    }
#endif
    MPI_Finalize();
}

void *zoe_mpi_run(void *world)
{
    zoe_mpi_world *w = world;
    prctl(PR_SET_NAME, "zoe-mpi");
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; else short rests last 50 us longer */
    if (begin(w)) {
        w->floor = 1.0;
        /* The first beats are exchanged before anything else is: from here on, silence is noticed. */
        bool lives = true;
        while (lives && !zoe_mpi_has_met(w))
            lives = turn(w);
        if (lives)
            enter(w, ZOE_MPI_RUNNING);
        while (lives)
            lives = turn(w);
        if (w->phase == ZOE_MPI_DEAD) { /* only this thread changes it */
            linger(w);
        } else {
            zoe_mpi_control_close(w);
            leave();
        }
    }
    enter(w, ZOE_MPI_ENDED);
    return NULL;
}
