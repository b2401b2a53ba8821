/* Collectives, made of exchanges. */
#include <stdio.h>

#include "comm/group.h"

zoe_status zoe_comm_gather_start(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                                 void *all, const void *mine, const size_t *bytes, const char *what)
{
    const size_t size = zoe_comm_size(comm), rank = zoe_comm_rank(comm);
    zoe_piece own[2], *sends = own;
    *exchange = (zoe_exchange){.state = NULL};
    if (comm) {
        const zoe_status status = zoe_member_pieces(ctx, comm->member, 2 * size);
        if (status != ZOE_OK) {
            zoe_comm_fail(comm, zoe_context_message(ctx));
            return status;
        }
        sends = comm->member->pieces;
    }
    /* Everyone begins with another receiver. */
    zoe_piece *recvs = sends + size;
    size_t at = 0;
    for (size_t r = 0; r < size; r++) {
        recvs[r] = (zoe_piece){r, (char *)all + at, bytes[r]};
        at += bytes[r];
        sends[r] = (zoe_piece){(rank + r) % size, (void *)(uintptr_t)mine, bytes[rank]};
    }
    return zoe_exchange_start(ctx, comm, exchange, sends, size, recvs, size, what);
}

zoe_status zoe_comm_gather(zoe_context *ctx, zoe_comm *comm, void *all, const void *mine,
                           const size_t *bytes, const char *what)
{
    zoe_exchange exchange;
    TRY(zoe_comm_gather_start(ctx, comm, &exchange, all, mine, bytes, what));
    return zoe_exchange_wait(ctx, comm, &exchange);
}

/* Of n bytes each. */
static zoe_status exchange_start(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                                 const void *send, size_t to, void *recv, size_t from, size_t n,
                                 const char *what)
{
    const zoe_piece out = {to, (void *)(uintptr_t)send, n}, in = {from, recv, n};
    return zoe_exchange_start(ctx, comm, exchange, &out, send != NULL, &in, recv != NULL, what);
}

zoe_status zoe_comm_broadcast(zoe_context *ctx, zoe_comm *comm, void *data, size_t bytes,
                              size_t root, const char *what)
{
    const size_t size = zoe_comm_size(comm);
    const size_t own = (zoe_comm_rank(comm) + size - root) % size; /* the root is 0 */
    enum { LEVELS = 64 };
    zoe_exchange out[LEVELS];
    size_t n = 0, bit = 1;
    if (bytes == 0)
        return ZOE_OK;
    /* A binomial tree: it comes from the number without the lowest bit, and goes to those that have
     * one lower bit more. */
    while (bit < size && !(own & bit))
        bit <<= 1;
    if (own > 0) {
        zoe_exchange in;
        TRY(exchange_start(ctx, comm, &in, NULL, 0, data, (own - bit + root) % size, bytes, what));
        TRY(zoe_exchange_wait(ctx, comm, &in));
    }
    zoe_status status = ZOE_OK;
    for (bit >>= 1; bit > 0 && status == ZOE_OK; bit >>= 1)
        if (own + bit < size) {
            status = exchange_start(ctx, comm, &out[n], data, (own + bit + root) % size, NULL, 0,
                                    bytes, what);
            n++;
        }
    for (size_t i = 0; i < n; i++) {
        const zoe_status ended = zoe_exchange_wait(ctx, comm, &out[i]);
        status = status == ZOE_OK ? ended : status;
    }
    return status;
}

size_t zoe_comm_broadcast_copies(size_t size, size_t rank, size_t root)
{
    const size_t own = (rank + size - root) % size;
    size_t n = 0, bit = 1;
    while (bit < size && !(own & bit))
        bit <<= 1;
    for (bit >>= 1; bit > 0; bit >>= 1)
        n += own + bit < size;
    return n;
}

/* n words of 8 bytes of every rank, [rank, n], into the values of the member. always: even if the
 * context is cancelled. */
static zoe_status gather_words(zoe_context *ctx, zoe_comm *comm, const void *own, size_t n,
                               bool always, const char *what)
{
    zoe_member *m = comm->member;
    const size_t size = comm->size, bytes = n * sizeof(double);
    size_t count, all;
    zoe_status status = ZOE_NOMEM;
    if (!zoe_size_mul(&count, n, size) || !zoe_size_mul(&all, count, sizeof(double)))
        zoe_note_failure(ctx, "%s: %zu values of %zu ranks are too many", what, n, size);
    else if ((status = zoe_member_values(ctx, m, count)) == ZOE_OK)
        status = zoe_member_pieces(ctx, m, 2 * size);
    if (status != ZOE_OK) {
        zoe_comm_fail(comm, zoe_context_message(ctx));
        return status;
    }
    zoe_piece *sends = m->pieces, *recvs = m->pieces + size;
    for (size_t r = 0; r < size; r++) {
        sends[r] = (zoe_piece){(comm->rank + r) % size, (void *)(uintptr_t)own, bytes};
        recvs[r] = (zoe_piece){r, m->values + r * n, bytes};
    }
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, comm, &exchange, sends, size, recvs, size, what));
    return always ? zoe_exchange_wait_always(ctx, comm, &exchange)
                  : zoe_exchange_wait(ctx, comm, &exchange);
}

zoe_status zoe_comm_sum(zoe_context *ctx, zoe_comm *comm, double *values, size_t n)
{
    if (!comm || n == 0)
        return ZOE_OK;
    TRY(gather_words(ctx, comm, values, n, false, "sum"));
    const double *all = comm->member->values;
    memcpy(values, all, n * sizeof *values);
    for (size_t r = 1; r < comm->size; r++)
        for (size_t i = 0; i < n; i++)
            values[i] += all[r * n + i];
    return ZOE_OK;
}

zoe_status zoe_comm_max(zoe_context *ctx, zoe_comm *comm, double *values, size_t n)
{
    if (!comm || n == 0)
        return ZOE_OK;
    TRY(gather_words(ctx, comm, values, n, false, "maximum"));
    const double *all = comm->member->values;
    memcpy(values, all, n * sizeof *values);
    for (size_t r = 1; r < comm->size; r++)
        for (size_t i = 0; i < n; i++)
            if (all[r * n + i] > values[i] || isnan(all[r * n + i]))
                values[i] = all[r * n + i];
    return ZOE_OK;
}

/* ---- agreement ---- */

enum { SENTENCE = 2048 };

/* What each rank says: its status and how long its sentence is. */
typedef struct verdict {
    int32_t status;
    uint32_t length;
} verdict;

_Static_assert(sizeof(verdict) == sizeof(double), "verdicts travel in the place of values");

/* The rank whose sentence counts: the lowest that failed, before those that only heard of another's
 * failure; size if there is none. */
static size_t first_failed(const zoe_comm *comm, verdict *v)
{
    size_t found = comm->size;
    for (size_t r = 0; r < comm->size; r++) {
        verdict other;
        memcpy(&other, comm->member->values + r, sizeof other);
        if (other.status == ZOE_OK || (found < comm->size && v->status != ZOE_PEER) ||
            (found < comm->size && other.status == ZOE_PEER))
            continue;
        found = r;
        *v = other;
    }
    return found;
}

/* The sentence of rank `from`, of `length` bytes, on all. */
static zoe_status share_sentence(zoe_context *ctx, zoe_comm *comm, char text[SENTENCE], size_t from,
                                 size_t length, bool always)
{
    const bool sends = comm->rank == from;
    const zoe_piece in = {from, text, length};
    zoe_piece *out = comm->member->pieces; /* there is room since the verdicts */
    zoe_exchange exchange;
    for (size_t r = 0; r < comm->size; r++)
        out[r] = (zoe_piece){r, text, r == from ? 0 : length};
    TRY(zoe_exchange_start(ctx, comm, &exchange, out, sends ? comm->size : 0, &in, sends ? 0 : 1,
                           "agree"));
    TRY(always ? zoe_exchange_wait_always(ctx, comm, &exchange)
               : zoe_exchange_wait(ctx, comm, &exchange));
    text[length] = '\0';
    return ZOE_OK;
}

zoe_status zoe_comm_agree(zoe_context *ctx, zoe_comm *comm, zoe_status mine)
{
    char text[SENTENCE] = "";
    const bool always = mine != ZOE_OK; /* a rank that is cancelled tells the others so */
    verdict v = {.status = mine, .length = 0};
    if (!comm)
        return mine;
    if (mine != ZOE_OK)
        v.length =
            (uint32_t)snprintf(text, sizeof text, "%.*s", SENTENCE - 1, zoe_context_message(ctx));
    zoe_status status = gather_words(ctx, comm, &v, 1, always, "agree");
    if (status != ZOE_OK)
        return mine != ZOE_OK ? mine : status;
    const size_t from = first_failed(comm, &v);
    if (from < comm->size && v.length > 0 && v.length < SENTENCE)
        status = share_sentence(ctx, comm, text, from, v.length, always);
    if (mine != ZOE_OK || status != ZOE_OK || from == comm->size)
        return mine != ZOE_OK ? mine : status;
    if (v.status == ZOE_PEER) /* of a rank that is none of the group */
        return zoe_fail(ctx, ZOE_PEER, "%s", text);
    const size_t failed = zoe_comm_world_rank(comm, from);
    if (comm->member->blamed.rank == SIZE_MAX)
        comm->member->blamed.rank = failed;
    return zoe_fail(ctx, ZOE_PEER, "rank %zu: %s", failed, text);
}
