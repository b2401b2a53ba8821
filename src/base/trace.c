/* Traces: events in memory, as bytes for another process, and as a file. */
#include "base/trace.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/context.h"
#include "base/file.h"

enum { TRACKS = 3, LANES = 16, NESTED = 16 };

typedef struct event {
    const char *name; /* a literal, or among the names of the trace */
    double begun, ended;
    uint64_t number; /* UINT64_MAX: none */
    uint32_t rank, track;
} event;

/* Names that came from another process. */
typedef struct name_list {
    struct name_list *next;
    char text[];
} name_list;

struct zoe_trace {
    pthread_mutex_t lock;
    event *events;
    size_t n, room, lost;
    name_list *names;
};

zoe_status zoe_trace_new(zoe_context *ctx, zoe_trace **trace)
{
    void *p;
    *trace = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_trace), "trace"));
    zoe_trace *t = p;
    if (pthread_mutex_init(&t->lock, NULL) != 0) {
        zoe_free(t);
        return zoe_fail(ctx, ZOE_NOMEM, "trace: no mutex");
    }
    *trace = t;
    return ZOE_OK;
}

void zoe_trace_free(zoe_trace *trace)
{
    if (!trace)
        return;
    for (name_list *n = trace->names, *next; n; n = next) {
        next = n->next;
        zoe_free(n);
    }
    pthread_mutex_destroy(&trace->lock);
    zoe_free(trace->events);
    zoe_free(trace);
}

void zoe_context_set_trace(zoe_context *ctx, zoe_trace *trace)
{
    ctx->trace = trace;
}

/* Room for n events; under the lock. */
static zoe_status reserve(zoe_context *ctx, zoe_trace *t, size_t n)
{
    void *p;
    if (n <= t->room)
        return ZOE_OK;
    const size_t room = n + n / 2 + 256;
    TRY(zoe_alloc(ctx, &p, room, sizeof(event), "trace"));
    if (t->n > 0)
        memcpy(p, t->events, t->n * sizeof(event));
    zoe_free(t->events);
    t->events = p;
    t->room = room;
    return ZOE_OK;
}

void zoe_trace_add_ended(zoe_context *ctx, zoe_track track, const char *name, size_t number,
                         double begun, double ended)
{
    zoe_trace *t = ctx ? ctx->trace : NULL;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    if (reserve(NULL, t, t->n + 1) == ZOE_OK)
        t->events[t->n++] = (event){.name = name,
                                    .begun = begun,
                                    .ended = ended > begun ? ended : begun,
                                    .number = number == SIZE_MAX ? UINT64_MAX : number,
                                    .track = (uint32_t)track};
    else
        t->lost++;
    pthread_mutex_unlock(&t->lock);
}

void zoe_trace_add(zoe_context *ctx, zoe_track track, const char *name, size_t number, double begun)
{
    if (ctx && ctx->trace)
        zoe_trace_add_ended(ctx, track, name, number, begun, zoe_now());
}

/* ---- bytes for another process of the same program ---- */

/* A header, the events, and their names, each with its NUL. */
typedef struct packed {
    uint64_t magic, events, lost, names; /* names: bytes */
} packed;

typedef struct packed_event {
    double begun, ended;
    uint64_t number, name; /* name: where it begins among the names */
    uint32_t track, unused;
} packed_event;

static const uint64_t MAGIC = UINT64_C(0x31656361727465af); /* other in another byte order */

/* Of events in a row that share a name, only the first one brings it. */
static bool has_last_name(const event *events, size_t i)
{
    return i > 0 && events[i].name == events[i - 1].name;
}

static zoe_status pack(zoe_context *ctx, const zoe_trace *t, void **data, size_t *bytes)
{
    size_t names = 0, at = 0, size;
    for (size_t i = 0; i < t->n; i++)
        names += has_last_name(t->events, i) ? 0 : strlen(t->events[i].name) + 1;
    if (!zoe_size_mul(&size, t->n, sizeof(packed_event)) ||
        !zoe_size_add(&size, size, sizeof(packed)) || !zoe_size_add(&size, size, names))
        return zoe_fail(ctx, ZOE_NOMEM, "trace: %zu events are too many", t->n);
    TRY(zoe_alloc(ctx, data, size, 1, "trace"));
    *bytes = size;
    const packed head = {.magic = MAGIC, .events = t->n, .lost = t->lost, .names = names};
    memcpy(*data, &head, sizeof head);
    packed_event *out = (packed_event *)((char *)*data + sizeof head);
    char *text = (char *)(out + t->n);
    size_t last = 0;
    for (size_t i = 0; i < t->n; i++) {
        const event *e = &t->events[i];
        if (!has_last_name(t->events, i)) {
            const size_t length = strlen(e->name) + 1;
            memcpy(text + at, e->name, length);
            last = at;
            at += length;
        }
        out[i] = (packed_event){.begun = e->begun,
                                .ended = e->ended,
                                .number = e->number,
                                .name = last,
                                .track = e->track};
    }
    return ZOE_OK;
}

zoe_status zoe_trace_pack(zoe_context *ctx, const zoe_trace *trace, void **data, size_t *bytes)
{
    zoe_trace *t = (zoe_trace *)(uintptr_t)trace; /* the lock alone is not const */
    *data = NULL;
    *bytes = 0;
    pthread_mutex_lock(&t->lock);
    const zoe_status status = pack(ctx, t, data, bytes);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* Does the packed trace say what one can say? */
static bool is_sound(const packed *head, const unsigned char *data, size_t bytes)
{
    size_t size;
    if (head->magic != MAGIC || head->events > SIZE_MAX || head->names > SIZE_MAX ||
        !zoe_size_mul(&size, (size_t)head->events, sizeof(packed_event)) ||
        !zoe_size_add(&size, size, sizeof *head) ||
        !zoe_size_add(&size, size, (size_t)head->names) || size != bytes)
        return false;
    if (head->names > 0 && data[bytes - 1] != '\0')
        return false;
    for (size_t i = 0; i < head->events; i++) {
        packed_event e;
        memcpy(&e, data + sizeof *head + i * sizeof e, sizeof e);
        if (e.name >= head->names || e.track >= TRACKS || !isfinite(e.begun) ||
            !isfinite(e.ended) || e.ended < e.begun)
            return false;
    }
    return true;
}

static zoe_status unpack(zoe_context *ctx, zoe_trace *t, const unsigned char *data,
                         const packed *head, size_t rank, double offset)
{
    const unsigned char *text = data + sizeof *head + head->events * sizeof(packed_event);
    void *p;
    size_t n;
    if (!zoe_size_add(&n, t->n, (size_t)head->events))
        return zoe_fail(ctx, ZOE_NOMEM, "trace: too many events");
    TRY(reserve(ctx, t, n));
    TRY(zoe_alloc(ctx, &p, sizeof(name_list) + (size_t)head->names, 1, "trace"));
    name_list *own = p;
    own->next = t->names;
    t->names = own;
    memcpy(own->text, text, (size_t)head->names);
    for (size_t i = 0; i < head->events; i++) {
        packed_event e;
        memcpy(&e, data + sizeof *head + i * sizeof e, sizeof e);
        t->events[t->n++] = (event){.name = own->text + e.name,
                                    .begun = e.begun - offset,
                                    .ended = e.ended - offset,
                                    .number = e.number,
                                    .rank = (uint32_t)rank,
                                    .track = e.track};
    }
    t->lost += (size_t)head->lost;
    return ZOE_OK;
}

zoe_status zoe_trace_unpack(zoe_context *ctx, zoe_trace *trace, const void *data, size_t bytes,
                            size_t rank, double offset)
{
    packed head = {.magic = 0};
    if (bytes >= sizeof head)
        memcpy(&head, data, sizeof head);
    if (!is_sound(&head, data, bytes) || rank > INT32_MAX)
        return zoe_fail(ctx, ZOE_FORMAT, "trace of rank %zu: %zu bytes that are none", rank, bytes);
    pthread_mutex_lock(&trace->lock);
    const zoe_status status = unpack(ctx, trace, data, &head, rank, offset);
    pthread_mutex_unlock(&trace->lock);
    return status;
}

/* ---- the file ---- */

/* Viewers want the events of a line to be apart or one inside the other. Others, such as two
 * exchanges under way, get a lane of their own. */
typedef struct lane {
    double ends[NESTED];
    size_t depth;
} lane;

static bool lane_takes(lane *l, const event *e)
{
    while (l->depth > 0 && l->ends[l->depth - 1] <= e->begun)
        l->depth--;
    if (l->depth == NESTED || (l->depth > 0 && l->ends[l->depth - 1] < e->ended))
        return false;
    l->ends[l->depth++] = e->ended;
    return true;
}

/* By rank, track and time; what contains others first. */
static int compare(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->begun != y->begun)
        return x->begun < y->begun ? -1 : 1;
    return x->ended != y->ended ? (x->ended > y->ended ? -1 : 1) : 0;
}

typedef struct writer {
    zoe_context *ctx;
    zoe_output out;
    zoe_status status;
    char text[1 << 14];
    size_t used;
} writer;

static void flush(writer *w)
{
    if (w->status == ZOE_OK && w->used > 0)
        w->status = zoe_output_write(w->ctx, &w->out, w->text, w->used);
    w->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...)
{
    enum { MOST = 512 }; /* of one piece */
    va_list args;
    if (sizeof w->text - w->used < MOST)
        flush(w);
    va_start(args, format);
    const int n = vsnprintf(w->text + w->used, MOST, format, args);
    va_end(args);
    w->used += n < 0 ? 0 : n < MOST ? (size_t)n : MOST - 1;
}

/* Names are ASCII; of anything else only that it stood there. */
static void put_text(writer *w, const char *text)
{
    put(w, "\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            put(w, "\\%c", c);
        else if (c < 0x20)
            put(w, "\\u%04x", c);
        else if (c < 0x7f)
            put(w, "%c", c);
        else
            put(w, "\\ufffd");
    }
    put(w, "\"");
}

static const char *const track_names[TRACKS] = {"compute", "exchange", "read"};

/* Metadata: what a process or a thread is called. */
static void put_name(writer *w, const char *kind, uint32_t rank, size_t thread, const char *name,
                     size_t number)
{
    put(w, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%zu,\"args\":{\"name\":\"%s", kind,
        rank, thread, name);
    if (number != SIZE_MAX)
        put(w, " %zu", number);
    put(w, "\"}},\n");
}

static void put_event(writer *w, const event *e, size_t thread, double zero)
{
    put(w, "{\"ph\":\"X\",\"name\":");
    put_text(w, e->name);
    put(w, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%zu,\"ts\":%.3f,\"dur\":%.3f", track_names[e->track],
        e->rank, thread, (e->begun - zero) * 1e6, (e->ended - e->begun) * 1e6);
    if (e->number != UINT64_MAX)
        put(w, ",\"args\":{\"number\":%llu}", (unsigned long long)e->number);
    put(w, "},\n");
}

/* events: sorted */
static void put_all(writer *w, const event *events, size_t n, size_t lost)
{
    lane lanes[LANES];
    size_t used = 0;
    double zero = n > 0 ? events[0].begun : 0.0;
    for (size_t i = 0; i < n; i++)
        zero = events[i].begun < zero ? events[i].begun : zero;
    put(w, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost\":%zu},\"traceEvents\":[\n", lost);
    for (size_t i = 0; i < n; i++) {
        const event *e = &events[i], *last = &events[i > 0 ? i - 1 : 0];
        const bool new_rank = i == 0 || e->rank != last->rank;
        if (new_rank)
            put_name(w, "process_name", e->rank, 0, "rank", e->rank);
        if (new_rank || e->track != last->track)
            used = 0;
        size_t at = 0;
        while (at < used && !lane_takes(&lanes[at], e))
            at++;
        if (at == used && used < LANES) {
            lanes[at] = (lane){.depth = 0};
            lane_takes(&lanes[at], e);
            used++;
            put_name(w, "thread_name", e->rank, e->track * LANES + at, track_names[e->track],
                     at > 0 ? at + 1 : SIZE_MAX);
        }
        put_event(w, e, e->track * LANES + (at < LANES ? at : LANES - 1), zero);
    }
    /* The last one has no comma after it. */
    put(w, "{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"tid\":0,\"args\":{}}\n]}\n");
    flush(w);
}

/* A sorted copy of the events. */
static zoe_status sorted(zoe_context *ctx, zoe_trace *t, event **events, size_t *n, size_t *lost)
{
    void *p;
    pthread_mutex_lock(&t->lock);
    const zoe_status status = zoe_alloc(ctx, &p, t->n, sizeof(event), "trace");
    if (status == ZOE_OK && t->n > 0)
        memcpy(p, t->events, t->n * sizeof(event));
    *events = p;
    *n = t->n;
    *lost = t->lost;
    pthread_mutex_unlock(&t->lock);
    if (status == ZOE_OK && *n > 0)
        qsort(*events, *n, sizeof(event), compare);
    return status;
}

zoe_status zoe_trace_write(zoe_context *ctx, const zoe_trace *trace, const char *path)
{
    event *events;
    size_t n, lost;
    void *p;
    TRY(sorted(ctx, (zoe_trace *)(uintptr_t)trace, &events, &n, &lost));
    zoe_status status = zoe_alloc_zero(ctx, &p, 1, sizeof(writer), "trace");
    if (status == ZOE_OK) {
        writer *w = p;
        w->ctx = ctx;
        w->status = zoe_output_open(ctx, &w->out, path);
        if (w->status == ZOE_OK)
            put_all(w, events, n, lost);
        if (w->status == ZOE_OK)
            w->status = zoe_output_commit(ctx, &w->out);
        if (w->status != ZOE_OK)
            zoe_output_abort(&w->out);
        status = w->status;
        zoe_free(w);
    }
    zoe_free(events);
    return status;
}
