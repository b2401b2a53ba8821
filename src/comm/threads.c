/* Ranks that are threads of one process.
 *
 * Messages of an ordered pair of ranks meet in the order in which they were started. The second of
 * the two ranks to start copies from the memory of the one into that of the other, at once and
 * without a buffer: a message never waits for a rank that computes, and no order of starts and
 * waits that MPI would accept can hang. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "comm/group.h"

enum { SENTENCE = 2048 };
/* A killed process is missed after a while only. */
static const double UNTIL_MISSED = 0.02;
static const double UNTIL_CANCEL_IS_ASKED = 0.05;

typedef struct ticket ticket;

/* One side of a message. */
typedef struct post {
    struct post *next; /* of those that have not met the other side */
    ticket *ticket;
    size_t rank, peer; /* who started it, and with whom */
    char *data;
    size_t bytes;
    double delay; /* by which it arrives late */
} post;

typedef struct queue {
    post *first, *last;
} queue;

/* An exchange of a rank, or room for one. */
struct ticket {
    ticket *next;
    post *posts;
    size_t n, room;
    size_t open, copying; /* messages that are not there yet; of these, some are being copied */
    bool ending;          /* waits for the copying alone */
    double ready;         /* when the last one arrives, as far as known */
    zoe_status status;
    char text[192];
};

typedef struct pair {
    queue sends, recvs; /* one of them is empty */
} pair;

typedef struct thread_rank {
    zoe_transport transport; /* first: what others know of it */
    zoe_world *world;
    zoe_comm *comm;
    pthread_cond_t news;
    ticket *unused, *under_way;
    size_t exchanges;
    bool dead; /* killed */
} thread_rank;

/* All of it is guarded by the lock, but for the data of messages: between start and the end of wait
 * only the one copier touches it. */
struct zoe_world {
    pthread_mutex_t lock;
    size_t size, n_news; /* ranks, and how many of them have their condition */
    thread_rank *ranks;
    pair *pairs; /* [from, to] */
    zoe_fault fault;
    size_t dead; /* the first rank that was killed; SIZE_MAX: none */
    double died;
    bool failed;
    zoe_culprit culprit; /* and whose failure it is */
    bool broken;         /* messages were taken back, so that those left must not meet any more */
    char text[SENTENCE]; /* of the first failure */
};

static pair *pair_of(zoe_world *w, size_t from, size_t to)
{
    return &w->pairs[from * w->size + to];
}

static void tell_all(zoe_world *w)
{
    for (size_t i = 0; i < w->size; i++)
        pthread_cond_broadcast(&w->ranks[i].news);
}

static void fail_locked(zoe_world *w, zoe_culprit who, const char *message)
{
    if (w->failed)
        return;
    w->failed = true;
    w->culprit = who;
    snprintf(w->text, sizeof w->text, "rank %zu: %s", who.rank, message);
    tell_all(w);
}

/* Has any rank failed, as far as can be known by now? */
static bool has_failed(zoe_world *w, double now)
{
    if (w->dead != SIZE_MAX && now >= w->died + UNTIL_MISSED)
        fail_locked(w, (zoe_culprit){.rank = w->dead, .gone = true}, "ended without a word");
    return w->failed;
}

static zoe_status peer_failed(const zoe_world *w, char *text, size_t room)
{
    snprintf(text, room, "%s", w->text);
    return ZOE_PEER;
}

/* ---- tickets ---- */

static ticket *ticket_new(thread_rank *r, size_t n)
{
    ticket *t = r->unused;
    void *p;
    if (t)
        r->unused = t->next;
    else if (zoe_alloc_zero(NULL, &p, 1, sizeof(ticket), "exchange") == ZOE_OK)
        t = p;
    else
        return NULL;
    if (t->room < n) {
        zoe_free(t->posts);
        t->posts = NULL;
        t->room = 0;
        if (zoe_alloc(NULL, &p, n + n / 2, sizeof(post), "exchange") != ZOE_OK) {
            t->next = r->unused;
            r->unused = t;
            return NULL;
        }
        t->posts = p;
        t->room = n + n / 2;
    }
    *t = (ticket){.next = r->under_way, .posts = t->posts, .room = t->room};
    r->under_way = t;
    return t;
}

static void ticket_end(thread_rank *r, ticket *t)
{
    ticket **p = &r->under_way;
    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->next = r->unused;
    r->unused = t;
}

static void tickets_free(ticket *t)
{
    while (t) {
        ticket *next = t->next;
        zoe_free(t->posts);
        zoe_free(t);
        t = next;
    }
}

/* ---- messages ---- */

static void append(queue *q, post *p)
{
    p->next = NULL;
    if (q->first)
        q->last->next = p;
    else
        q->first = p;
    q->last = p;
}

static post *take(queue *q)
{
    post *p = q->first;
    if (p)
        q->first = p->next;
    return p;
}

/* Takes those of a ticket out of the queue. */
static void withdraw(queue *q, const ticket *t)
{
    post *p = q->first;
    *q = (queue){NULL, NULL};
    while (p) {
        post *next = p->next;
        if (p->ticket != t)
            append(q, p);
        p = next;
    }
}

static void withdraw_all(zoe_world *w, const ticket *t)
{
    w->broken = true;
    for (size_t i = 0; i < t->n; i++) {
        withdraw(&pair_of(w, t->posts[i].rank, t->posts[i].peer)->sends, t);
        withdraw(&pair_of(w, t->posts[i].peer, t->posts[i].rank)->recvs, t);
    }
}

static void end_one(zoe_world *w, post *p, double ready)
{
    ticket *t = p->ticket;
    t->open--;
    t->copying--;
    t->ready = ready > t->ready ? ready : t->ready;
    if (t->open == 0 || t->status != ZOE_OK || t->ending)
        pthread_cond_broadcast(&w->ranks[p->rank].news);
}

/* The two sides of a message have met; the lock is let go meanwhile. */
static void deliver(zoe_world *w, post *send, post *recv)
{
    send->ticket->copying++;
    recv->ticket->copying++;
    if (send->bytes == recv->bytes) {
        pthread_mutex_unlock(&w->lock);
        memcpy(recv->data, send->data, recv->bytes);
        pthread_mutex_lock(&w->lock);
    } else {
        ticket *const both[2] = {send->ticket, recv->ticket};
        for (size_t i = 0; i < 2; i++) {
            both[i]->status = ZOE_INTERNAL;
            snprintf(both[i]->text, sizeof both[i]->text,
                     "rank %zu sends %zu bytes, rank %zu expects %zu", send->rank, send->bytes,
                     recv->rank, recv->bytes);
        }
    }
    const double now = zoe_now();
    end_one(w, send, now);
    end_one(w, recv, now + send->delay);
}

static post *post_new(ticket *t, size_t own, const zoe_message *m, double delay)
{
    post *p = &t->posts[t->n++];
    *p = (post){.ticket = t,
                .rank = own,
                .peer = m->peer,
                .data = m->data,
                .bytes = m->bytes,
                .delay = delay};
    return p;
}

/* Delivers what has met. Another rank may be doing the same: each pair of posts is taken once. */
static void match(zoe_world *w, pair *p)
{
    while (p->sends.first && p->recvs.first && !w->broken) {
        post *send = take(&p->sends), *recv = take(&p->recvs);
        deliver(w, send, recv);
    }
}

/* ---- what may go wrong ---- */

/* Does the fault hit this exchange of the rank? */
static bool is_struck(const thread_rank *r, zoe_fault_kind kind, size_t number)
{
    const zoe_fault *f = &r->world->fault;
    return f->kind == kind && (f->rank == r->transport.rank || f->rank == SIZE_MAX) &&
           (kind == ZOE_FAULT_DELAY ? number >= f->exchange : number == f->exchange);
}

static void die(thread_rank *r)
{
    zoe_world *w = r->world;
    r->dead = true;
    if (w->dead == SIZE_MAX) {
        w->dead = r->transport.rank;
        w->died = zoe_now();
        tell_all(w); /* to look again in time, no more */
    }
}

static zoe_status check_rank(thread_rank *r, char *text, size_t room)
{
    if (r->dead) {
        snprintf(text, room, "rank %zu: was killed", r->transport.rank);
        return ZOE_PEER;
    }
    return has_failed(r->world, zoe_now()) ? peer_failed(r->world, text, room) : ZOE_OK;
}

/* ---- the transport ---- */

static zoe_status start_locked(thread_rank *r, ticket **out, const zoe_message *sends,
                               size_t n_sends, const zoe_message *recvs, size_t n_recvs, char *text,
                               size_t room)
{
    zoe_world *w = r->world;
    const size_t own = r->transport.rank, number = r->exchanges++;
    if (is_struck(r, ZOE_FAULT_DEATH, number))
        die(r);
    TRY(check_rank(r, text, room));
    const double delay = is_struck(r, ZOE_FAULT_DELAY, number) ? w->fault.seconds : 0.0;
    ticket *t = is_struck(r, ZOE_FAULT_NOMEM, number) ? NULL : ticket_new(r, n_sends + n_recvs);
    if (!t) {
        snprintf(text, room, "no memory to note %zu messages", n_sends + n_recvs);
        return ZOE_NOMEM;
    }
    t->open = n_sends + n_recvs;
    for (size_t i = 0; i < n_recvs; i++)
        append(&pair_of(w, recvs[i].peer, own)->recvs, post_new(t, own, &recvs[i], 0.0));
    for (size_t i = 0; i < n_sends; i++)
        append(&pair_of(w, own, sends[i].peer)->sends, post_new(t, own, &sends[i], delay));
    for (size_t i = 0; i < n_sends; i++)
        match(w, pair_of(w, own, sends[i].peer));
    for (size_t i = 0; i < n_recvs; i++)
        match(w, pair_of(w, recvs[i].peer, own));
    *out = t;
    return ZOE_OK;
}

static zoe_status start(zoe_transport *transport, void **ticket_out, const zoe_message *sends,
                        size_t n_sends, const zoe_message *recvs, size_t n_recvs, char *text,
                        size_t room)
{
    thread_rank *r = (thread_rank *)transport;
    ticket *t = NULL;
    pthread_mutex_lock(&r->world->lock);
    const zoe_status status = start_locked(r, &t, sends, n_sends, recvs, n_recvs, text, room);
    pthread_mutex_unlock(&r->world->lock);
    *ticket_out = t;
    return status;
}

/* When is there something to look for again? */
static double next_look(const zoe_world *w, const ticket *t, double now)
{
    double next = now + UNTIL_CANCEL_IS_ASKED;
    if (t->open == 0)
        next = fmin(next, t->ready);
    if (w->dead != SIZE_MAX)
        next = fmin(next, w->died + UNTIL_MISSED);
    return next;
}

static void sleep_until(thread_rank *r, double time)
{
    const double whole = floor(time);
    const struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)((time - whole) * 1e9)};
    pthread_cond_timedwait(&r->news, &r->world->lock, &t);
}

static zoe_status wait_locked(thread_rank *r, ticket *t, bool (*cancelled)(void *user), void *user,
                              char *text, size_t room)
{
    for (;;) {
        const double now = zoe_now();
        if (t->open == 0 && t->status == ZOE_OK && now >= t->ready)
            return ZOE_OK;
        if (t->status != ZOE_OK) {
            snprintf(text, room, "%s", t->text);
            return t->status;
        }
        TRY(check_rank(r, text, room));
        if (cancelled(user))
            return ZOE_CANCELLED;
        sleep_until(r, next_look(r->world, t, now));
    }
}

static zoe_status wait_for(zoe_transport *transport, void *ticket_in, bool (*cancelled)(void *user),
                           void *user, double *ended, char *text, size_t room)
{
    thread_rank *r = (thread_rank *)transport;
    ticket *t = ticket_in;
    pthread_mutex_lock(&r->world->lock);
    const zoe_status status = wait_locked(r, t, cancelled, user, text, room);
    if (status != ZOE_OK) {
        withdraw_all(r->world, t);
        t->ending = true;
        while (t->copying > 0)
            pthread_cond_wait(&r->news, &r->world->lock);
    }
    *ended = t->ready;
    ticket_end(r, t);
    pthread_mutex_unlock(&r->world->lock);
    return status;
}

static void fail(zoe_transport *transport, const char *message)
{
    thread_rank *r = (thread_rank *)transport;
    pthread_mutex_lock(&r->world->lock);
    if (!r->dead)
        fail_locked(r->world, (zoe_culprit){.rank = transport->rank}, message);
    pthread_mutex_unlock(&r->world->lock);
}

static zoe_culprit culprit(zoe_transport *transport)
{
    thread_rank *r = (thread_rank *)transport;
    pthread_mutex_lock(&r->world->lock);
    const zoe_culprit who = r->world->culprit;
    pthread_mutex_unlock(&r->world->lock);
    return who;
}

static void close_rank(zoe_transport *transport)
{
    (void)transport; /* the world ends it */
}

static const zoe_transport_functions functions = {
    .start = start, .wait = wait_for, .fail = fail, .culprit = culprit, .close = close_rank};

/* ---- worlds ---- */

static bool condition_new(pthread_cond_t *c)
{
    pthread_condattr_t monotonic; /* as zoe_now is */
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const int error = pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return error == 0;
}

static zoe_status fill(zoe_context *ctx, zoe_world *w, size_t size)
{
    void *p;
    size_t pairs;
    if (!zoe_size_mul(&pairs, size, size))
        return zoe_fail(ctx, ZOE_NOMEM, "a world of %zu ranks is too large", size);
    TRY(zoe_alloc_zero(ctx, &p, pairs, sizeof(pair), "pairs of ranks"));
    w->pairs = p;
    TRY(zoe_alloc_zero(ctx, &p, size, sizeof(thread_rank), "ranks"));
    w->ranks = p;
    w->size = size;
    for (size_t i = 0; i < size; i++) {
        thread_rank *r = &w->ranks[i];
        r->transport = (zoe_transport){.functions = &functions, .size = size, .rank = i};
        r->world = w;
        TRY(zoe_comm_over_with(ctx, &r->comm, &r->transport, false));
        if (!condition_new(&r->news))
            return zoe_fail(ctx, ZOE_NOMEM, "a world of %zu ranks: no condition variable", size);
        w->n_news++;
    }
    return ZOE_OK;
}

zoe_status zoe_world_new(zoe_context *ctx, zoe_world **world, size_t size)
{
    void *p;
    *world = NULL;
    if (size == 0)
        return zoe_fail(ctx, ZOE_INVALID, "a world needs at least one rank");
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_world), "ranks"));
    zoe_world *w = p;
    w->dead = w->culprit.rank = SIZE_MAX;
    if (pthread_mutex_init(&w->lock, NULL) != 0) {
        zoe_free(w);
        return zoe_fail(ctx, ZOE_NOMEM, "a world of %zu ranks: no mutex", size);
    }
    const zoe_status status = fill(ctx, w, size);
    if (status != ZOE_OK)
        zoe_world_free(w);
    else
        *world = w;
    return status;
}

void zoe_world_free(zoe_world *world)
{
    if (!world)
        return;
    for (size_t i = 0; i < world->size; i++) {
        thread_rank *r = &world->ranks[i];
        zoe_comm_release(r->comm);
        tickets_free(r->unused);
        tickets_free(r->under_way);
    }
    for (size_t i = 0; i < world->n_news; i++)
        pthread_cond_destroy(&world->ranks[i].news);
    pthread_mutex_destroy(&world->lock);
    zoe_free(world->ranks);
    zoe_free(world->pairs);
    zoe_free(world);
}

zoe_comm *zoe_world_comm(zoe_world *world, size_t rank)
{
    return world->ranks[rank].comm;
}

void zoe_world_set_fault(zoe_world *world, const zoe_fault *fault)
{
    world->fault = *fault;
}
