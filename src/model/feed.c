/* See feed.h. */
#include "model/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/trace.h"
#include "model/weights.h"

enum {
    PIECE = 1 << 20,  /* bytes that are read without asking whether to stop */
    RUNS = 64,        /* of one layer at first */
    PATIENCE_MS = 50, /* between two looks whether the job was cancelled */
    MARGIN = 4 << 20  /* bytes that the edges of a layer may bring along: pages of 2 MiB */
};

typedef enum layer_state { ABSENT, READING, READY } layer_state;

typedef struct feed_layer {
    zoe_pages *runs;
    size_t count, room;
    size_t bytes;
    layer_state state;
} feed_layer;

struct zoe_feed {
    const zoe_store *store;
    zoe_stream_plan plan;
    feed_layer *layers;
    size_t count;
    bool started;
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    zoe_context *ctx; /* of the pass; NULL: none */
    size_t at;        /* the layer that is taken, or the first that may be */
    bool quit;
    int failure; /* errno of the reader */
    zoe_stream_count read;
    atomic_bool stop; /* asked for between two pieces */
};

/* ---- making ---- */

zoe_status zoe_feed_new(zoe_context *ctx, zoe_feed **feed, const zoe_store *store, size_t layers,
                        zoe_stream_plan plan)
{
    void *p;
    *feed = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **feed, "weights that are streamed"));
    zoe_feed *f = p;
    const zoe_status status =
        zoe_alloc_zero(ctx, &p, layers, sizeof *f->layers, "weights that are streamed");
    if (status != ZOE_OK) {
        zoe_free(f);
        return status;
    }
    f->layers = p;
    f->count = layers;
    f->store = store;
    f->plan = plan;
    *feed = f;
    return ZOE_OK;
}

zoe_status zoe_feed_add(zoe_context *ctx, zoe_feed *feed, size_t layer, zoe_tensor tensor)
{
    feed_layer *l = &feed->layers[layer];
    const zoe_pages run = zoe_store_pages(feed->store, tensor);
    if (run.bytes == 0)
        return ZOE_OK;
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : RUNS;
        void *p;
        TRY(zoe_alloc(ctx, &p, room, sizeof *l->runs, "weights that are streamed"));
        if (l->count)
            memcpy(p, l->runs, l->count * sizeof *l->runs);
        zoe_free(l->runs);
        l->runs = p;
        l->room = room;
    }
    l->runs[l->count++] = run;
    l->bytes += run.bytes;
    return ZOE_OK;
}

static void merge(feed_layer *l)
{
    l->count = l->count ? zoe_pages_merge(l->runs, l->count) : 0;
    l->bytes = 0;
    for (size_t i = 0; i < l->count; i++)
        l->bytes += l->runs[i].bytes;
}

static bool stays(const zoe_feed *f, size_t layer)
{
    return layer < f->plan.resident;
}

static void drop(zoe_feed *f, size_t layer)
{
    feed_layer *l = &f->layers[layer];
    for (size_t i = 0; i < l->count; i++)
        zoe_pages_drop(l->runs[i], f->plan.forget);
    l->state = ABSENT;
}

size_t zoe_feed_tensor_bytes(const zoe_store *store, zoe_tensor tensor)
{
    return zoe_store_pages(store, tensor).bytes ? zoe_tensor_bytes(tensor) : 0;
}

size_t zoe_feed_held(zoe_layer_bytes_fn bytes, const void *user, size_t layers, size_t resident)
{
    size_t held = MARGIN, largest = 0;
    for (size_t i = 0; i < layers; i++) {
        const size_t here = bytes(user, i);
        if (i >= resident)
            largest = zoe_max(largest, here);
        else if (!zoe_size_add(&held, held, here))
            return SIZE_MAX;
    }
    for (size_t i = 0; i < ZOE_FEED_AHEAD; i++)
        if (!zoe_size_add(&held, held, largest) || !zoe_size_add(&held, held, MARGIN))
            return SIZE_MAX;
    return held;
}

/* ---- reading ---- */

/* 0, or an errno; ECANCELED if it was told to stop. */
static int read_layer(zoe_feed *f, const feed_layer *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t at = 0; at < l->runs[i].bytes; at += PIECE) {
            const size_t left = l->runs[i].bytes - at;
            if (atomic_load(&f->stop))
                return ECANCELED;
            const int error = zoe_pages_bring(l->runs[i], at, left < PIECE ? left : PIECE);
            if (error)
                return error;
        }
    return 0;
}

/* The layer to read next; count if there is none, or no room. */
static size_t next_layer(const zoe_feed *f)
{
    size_t streamed = 0;
    for (size_t i = 0; i < f->count; i++)
        streamed += !stays(f, i) && f->layers[i].state != ABSENT;
    for (size_t i = f->at; i < f->count; i++)
        if (f->layers[i].state == ABSENT)
            return stays(f, i) || streamed < ZOE_FEED_AHEAD ? i : f->count;
    return f->count;
}

static void *reader(void *arg)
{
    zoe_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->quit) {
        const size_t i = f->ctx && !f->failure ? next_layer(f) : f->count;
        if (i == f->count || atomic_load(&f->stop)) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        feed_layer *l = &f->layers[i];
        zoe_context *ctx = f->ctx;
        l->state = READING;
        pthread_mutex_unlock(&f->lock);
        const double begun = zoe_now();
        const int error = read_layer(f, l);
        const double seconds = zoe_now() - begun;
        if (!error)
            zoe_trace_add(ctx, ZOE_TRACK_READ, "read block", i, begun);
        pthread_mutex_lock(&f->lock);
        l->state = error ? ABSENT : READY;
        if (error)
            drop(f, i);
        if (error && error != ECANCELED)
            f->failure = error;
        f->read.bytes += error ? 0 : l->bytes;
        f->read.reading += seconds;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

zoe_status zoe_feed_start(zoe_context *ctx, zoe_feed *feed)
{
    pthread_condattr_t steady;
    for (size_t i = 0; i < feed->count; i++) {
        feed_layer *l = &feed->layers[i];
        merge(l);
        for (size_t k = 0; k < l->count; k++)
            zoe_pages_advise(l->runs[k], !stays(feed, i));
    }
    pthread_mutex_init(&feed->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&feed->changed, &steady);
    pthread_condattr_destroy(&steady);
    feed->started = pthread_create(&feed->reader, NULL, reader, feed) == 0;
    if (!feed->started)
        return zoe_fail(ctx, ZOE_INTERNAL, "%s: no thread can be had that reads the weights",
                        zoe_store_path(feed->store));
    return ZOE_OK;
}

void zoe_feed_free(zoe_feed *feed)
{
    if (!feed)
        return;
    if (feed->started) {
        zoe_feed_end(feed);
        pthread_mutex_lock(&feed->lock);
        feed->quit = true;
        pthread_cond_broadcast(&feed->changed);
        pthread_mutex_unlock(&feed->lock);
        pthread_join(feed->reader, NULL);
        pthread_cond_destroy(&feed->changed);
        pthread_mutex_destroy(&feed->lock);
    }
    for (size_t i = 0; i < feed->count; i++) {
        feed_layer *l = &feed->layers[i];
        for (size_t k = 0; k < l->count && feed->started; k++)
            zoe_pages_advise(l->runs[k], false);
        zoe_free(l->runs);
    }
    zoe_free(feed->layers);
    zoe_free(feed);
}

/* ---- a pass ---- */

void zoe_feed_begin(zoe_context *ctx, zoe_feed *feed)
{
    if (!feed)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->ctx = ctx;
    feed->at = 0;
    feed->failure = 0;
    atomic_store(&feed->stop, false);
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
}

/* Layers that were read for nothing make room. */
static void pass_over(zoe_feed *f, size_t layer)
{
    for (size_t i = f->at; i < layer; i++)
        if (!stays(f, i) && f->layers[i].state == READY)
            drop(f, i);
}

static void wait_a_little(zoe_feed *f)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&f->changed, &f->lock, &until);
}

static zoe_status report(zoe_context *ctx, const zoe_feed *f, int error)
{
    TRY(zoe_store_check(ctx, f->store));
    return zoe_fail(ctx, ZOE_IO, "%s: cannot read the weights: %s", zoe_store_path(f->store),
                    strerror(error));
}

zoe_status zoe_feed_take(zoe_context *ctx, zoe_feed *feed, size_t layer)
{
    if (!feed)
        return ZOE_OK;
    const double begun = zoe_now();
    pthread_mutex_lock(&feed->lock);
    if (feed->at < layer) {
        pass_over(feed, layer);
        feed->at = layer;
        pthread_cond_broadcast(&feed->changed);
    }
    while (feed->layers[layer].state != READY && !feed->failure && !zoe_cancelled(ctx)) {
        /* One that is being read and not wanted any more may take the place of this one. */
        for (size_t i = 0; i < layer; i++)
            if (!stays(feed, i) && feed->layers[i].state == READY)
                drop(feed, i);
        pthread_cond_broadcast(&feed->changed);
        wait_a_little(feed);
    }
    const int failure = feed->layers[layer].state == READY ? 0 : feed->failure;
    feed->read.waiting += zoe_now() - begun;
    pthread_mutex_unlock(&feed->lock);
    return failure ? report(ctx, feed, failure) : zoe_check_cancel(ctx);
}

void zoe_feed_release(zoe_feed *feed, size_t layer)
{
    if (!feed || stays(feed, layer))
        return;
    pthread_mutex_lock(&feed->lock);
    if (feed->layers[layer].state == READY)
        drop(feed, layer);
    if (feed->at <= layer)
        feed->at = layer + 1;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
}

void zoe_feed_end(zoe_feed *feed)
{
    if (!feed)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->ctx = NULL;
    atomic_store(&feed->stop, true);
    pthread_cond_broadcast(&feed->changed);
    for (size_t i = 0; i < feed->count; i++) {
        while (feed->layers[i].state == READING)
            wait_a_little(feed);
        if (!stays(feed, i) && feed->layers[i].state == READY)
            drop(feed, i);
    }
    pthread_mutex_unlock(&feed->lock);
}

zoe_stream_count zoe_feed_count(zoe_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    const zoe_stream_count count = feed->read;
    pthread_mutex_unlock(&feed->lock);
    return count;
}
