/* Exchanges: pieces between the ranks of a group as messages of the transport. */
#include <stdio.h>

#include "base/clock.h"
#include "base/trace.h"
#include "comm/group.h"

enum { SENTENCE = 2048 };

/* The first failure of an exchange is everybody's: this rank is no longer in step with the others,
 * who would wait for what never comes. */
static zoe_status failed(zoe_context *ctx, zoe_comm *comm, zoe_status status, const char *what,
                         const char *text)
{
    char sentence[SENTENCE + 128];
    if (status == ZOE_PEER)
        return zoe_fail(ctx, status, "%s", text);
    snprintf(sentence, sizeof sentence, "%s: %s", what, text);
    zoe_comm_fail(comm, sentence);
    return zoe_fail(ctx, status, "%s", sentence);
}

/* The next piece for this rank itself from i on; n if there is none. */
static size_t own_piece(const zoe_piece *pieces, size_t n, size_t i, size_t rank)
{
    while (i < n && (pieces[i].rank != rank || pieces[i].bytes == 0))
        i++;
    return i;
}

/* What a rank sends to itself. */
static zoe_status copy_own(zoe_context *ctx, zoe_comm *comm, const zoe_piece *sends, size_t n_sends,
                           const zoe_piece *recvs, size_t n_recvs, const char *what)
{
    const size_t rank = zoe_comm_rank(comm);
    size_t s = own_piece(sends, n_sends, 0, rank), r = own_piece(recvs, n_recvs, 0, rank);
    while (s < n_sends && r < n_recvs && sends[s].bytes == recvs[r].bytes) {
        if (sends[s].data != recvs[r].data)
            memmove(recvs[r].data, sends[s].data, recvs[r].bytes);
        s = own_piece(sends, n_sends, s + 1, rank);
        r = own_piece(recvs, n_recvs, r + 1, rank);
    }
    if (s == n_sends && r == n_recvs)
        return ZOE_OK;
    char text[SENTENCE];
    snprintf(text, sizeof text, "rank %zu sends itself %zu bytes and expects %zu",
             zoe_comm_world_rank(comm, rank), s < n_sends ? sends[s].bytes : 0,
             r < n_recvs ? recvs[r].bytes : 0);
    return failed(ctx, comm, ZOE_INTERNAL, what, text);
}

/* The pieces of other ranks as messages of the world; n of them in all, `bytes` together. */
static zoe_status address(zoe_context *ctx, const zoe_comm *comm, zoe_message *messages, size_t *n,
                          uint64_t *bytes, const zoe_piece *pieces, size_t n_pieces)
{
    for (size_t i = 0; i < n_pieces; i++) {
        const zoe_piece p = pieces[i];
        if (p.rank >= zoe_comm_size(comm))
            return zoe_fail(ctx, ZOE_INTERNAL, "exchange with rank %zu of %zu", p.rank,
                            zoe_comm_size(comm));
        if (p.rank == zoe_comm_rank(comm) || p.bytes == 0)
            continue;
        messages[(*n)++] = (zoe_message){zoe_comm_world_rank(comm, p.rank), p.data, p.bytes};
        *bytes += p.bytes;
    }
    return ZOE_OK;
}

static zoe_status post(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                       const zoe_piece *sends, size_t n_sends, const zoe_piece *recvs,
                       size_t n_recvs)
{
    zoe_member *m = comm->member;
    zoe_transport *t = m->transport;
    size_t out = 0, in = 0;
    uint64_t sent = 0, received = 0;
    char text[SENTENCE] = "";
    zoe_status status = zoe_member_messages(ctx, m, n_sends + n_recvs);
    if (status == ZOE_OK)
        status = address(ctx, comm, m->messages, &out, &sent, sends, n_sends);
    if (status == ZOE_OK)
        status = address(ctx, comm, m->messages + out, &in, &received, recvs, n_recvs);
    if (status != ZOE_OK)
        zoe_comm_fail(comm, zoe_context_message(ctx));
    if (status != ZOE_OK || out + in == 0)
        return status;
    m->traffic.exchanges++;
    status = t->functions->start(t, &exchange->state, m->messages, out, m->messages + out, in, text,
                                 sizeof text);
    if (status != ZOE_OK) {
        exchange->state = NULL;
        return failed(ctx, comm, status, exchange->what, text);
    }
    m->traffic.sent += sent;
    m->traffic.received += received;
    return ZOE_OK;
}

zoe_status zoe_exchange_start(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                              const zoe_piece *sends, size_t n_sends, const zoe_piece *recvs,
                              size_t n_recvs, const char *what)
{
    *exchange = (zoe_exchange){.what = what, .begun = zoe_now()};
    if (comm)
        TRY(post(ctx, comm, exchange, sends, n_sends, recvs, n_recvs));
    else
        for (size_t i = 0; i < n_sends + n_recvs; i++)
            if ((i < n_sends ? sends[i] : recvs[i - n_sends]).rank > 0)
                return zoe_fail(ctx, ZOE_INTERNAL, "%s: an exchange with others, without any",
                                what);
    const zoe_status status = copy_own(ctx, comm, sends, n_sends, recvs, n_recvs, what);
    if (status != ZOE_OK)
        zoe_exchange_wait(ctx, comm, exchange); /* the world has failed: this ends at once */
    return status;
}

static bool is_cancelled(void *ctx)
{
    return zoe_cancelled(ctx);
}

static bool is_never_cancelled(void *ctx)
{
    (void)ctx;
    return false;
}

static zoe_status wait_for(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                           bool (*cancelled)(void *user))
{
    if (!exchange->state)
        return ZOE_OK;
    zoe_transport *t = comm->member->transport;
    char text[SENTENCE] = "";
    const double begun = zoe_now();
    double ended = 0.0;
    const zoe_status status =
        t->functions->wait(t, exchange->state, cancelled, ctx, &ended, text, sizeof text);
    exchange->state = NULL;
    zoe_trace_add(ctx, ZOE_TRACK_COMPUTE, "wait", SIZE_MAX, begun);
    if (status == ZOE_CANCELLED) {
        zoe_comm_fail(comm, "interrupted");
        return zoe_fail(ctx, status, "interrupted");
    }
    if (status != ZOE_OK)
        return failed(ctx, comm, status, exchange->what, text);
    zoe_trace_add_ended(ctx, ZOE_TRACK_EXCHANGE, exchange->what, SIZE_MAX, exchange->begun, ended);
    return ZOE_OK;
}

zoe_status zoe_exchange_wait(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange)
{
    return wait_for(ctx, comm, exchange, is_cancelled);
}

zoe_status zoe_exchange_wait_always(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange)
{
    return wait_for(ctx, comm, exchange, is_never_cancelled);
}
