/* Ulysses: each rank of a group gives up its tokens' other heads for its own heads of the group's
 * tokens, and gets its tokens' outputs back. One message a pair each way; its rows are those of the
 * receiver, so that it lands where it is wanted. */
#include "comm/sequence.h"

/* Tokens of rank `other` of the Ulysses group. */
static zoe_span tokens_of(const zoe_shares *s, size_t other)
{
    return zoe_share(s->tokens, s->at.ulysses * s->at.ring, s->place * s->at.ulysses + other);
}

/* Where what goes to rank `other` begins; the own share is put where it is wanted. */
static unsigned char *packed_for(const zoe_sequence_run *r, size_t other)
{
    const zoe_shares *s = &r->s;
    if (other == s->group)
        return r->b.gathered +
               (s->mine.first - s->chunk.first) * 3 * zoe_heads_bytes(s, s->heads.count);
    return r->b.packed +
           3 * s->mine.count * zoe_heads_bytes(s, zoe_share(s->N, s->at.ulysses, other).first);
}

static void pack_token(void *arg, size_t i, size_t worker)
{
    const zoe_sequence_run *r = arg;
    const zoe_shares *s = &r->s;
    const zoe_tensor inputs[] = {r->q, r->k, r->v};
    (void)worker;
    for (size_t other = 0; other < s->at.ulysses; other++) {
        const zoe_span heads = zoe_share(s->N, s->at.ulysses, other);
        const size_t bytes = zoe_heads_bytes(s, heads.count);
        unsigned char *to = packed_for(r, other) + 3 * i * bytes;
        for (size_t j = 0; j < 3; j++)
            memcpy(to + j * bytes, zoe_heads_row(inputs[j], i) + zoe_heads_bytes(s, heads.first),
                   bytes);
    }
}

static zoe_status exchange(const zoe_sequence_run *r, zoe_comm *comm, size_t n, const char *what)
{
    zoe_exchange e;
    TRY(zoe_exchange_start(r->ctx, comm, &e, r->b.sends, n, r->b.recvs, n, what));
    return zoe_exchange_wait(r->ctx, comm, &e);
}

zoe_status zoe_sequence_to_heads(zoe_sequence_run *r)
{
    const zoe_shares *s = &r->s;
    const size_t own = zoe_heads_bytes(s, s->heads.count);
    size_t n = 0;
    zoe_parallel_for(r->ctx, s->mine.count, pack_token, r);
    for (size_t i = 1; i < s->at.ulysses; i++) { /* everyone begins with another receiver */
        const size_t other = (s->group + i) % s->at.ulysses;
        const zoe_span theirs = tokens_of(s, other);
        const size_t heads = zoe_share(s->N, s->at.ulysses, other).count;
        r->b.sends[n] = (zoe_piece){.rank = other,
                                    .data = packed_for(r, other),
                                    .bytes = 3 * s->mine.count * zoe_heads_bytes(s, heads)};
        r->b.recvs[n++] =
            (zoe_piece){.rank = other,
                        .data = r->b.gathered + (theirs.first - s->chunk.first) * 3 * own,
                        .bytes = theirs.count * 3 * own};
    }
    TRY(exchange(r, r->sequence->ulysses, n, "ulysses q k v"));
    r->q = zoe_heads_rows(s, r->b.gathered, s->chunk.count, 3);
    r->k = zoe_heads_rows(s, r->b.gathered + own, s->chunk.count, 3);
    r->v = zoe_heads_rows(s, r->b.gathered + 2 * own, s->chunk.count, 3);
    r->o = zoe_heads_rows(s, r->b.o, s->chunk.count, 1);
    return ZOE_OK;
}

typedef struct unpack_task {
    const zoe_sequence_run *r;
    zoe_tensor o;
} unpack_task;

/* Where what rank `other` returns begins; what the rank itself has lies in its output already. */
static unsigned char *returned_by(const zoe_sequence_run *r, size_t other)
{
    const zoe_shares *s = &r->s;
    if (other == s->group)
        return r->b.o + (s->mine.first - s->chunk.first) * zoe_heads_bytes(s, s->heads.count);
    return r->b.returned +
           s->mine.count * zoe_heads_bytes(s, zoe_share(s->N, s->at.ulysses, other).first);
}

static void unpack_token(void *arg, size_t i, size_t worker)
{
    const unpack_task *t = arg;
    const zoe_shares *s = &t->r->s;
    (void)worker;
    for (size_t other = 0; other < s->at.ulysses; other++) {
        const zoe_span heads = zoe_share(s->N, s->at.ulysses, other);
        const size_t bytes = zoe_heads_bytes(s, heads.count);
        memcpy(zoe_heads_row(t->o, i) + zoe_heads_bytes(s, heads.first),
               returned_by(t->r, other) + i * bytes, bytes);
    }
}

zoe_status zoe_sequence_to_tokens(const zoe_sequence_run *r, zoe_tensor o)
{
    const zoe_shares *s = &r->s;
    const size_t own = zoe_heads_bytes(s, s->heads.count);
    size_t n = 0;
    for (size_t i = 1; i < s->at.ulysses; i++) { /* everyone begins with another receiver */
        const size_t other = (s->group + i) % s->at.ulysses;
        const zoe_span theirs = tokens_of(s, other);
        const size_t heads = zoe_share(s->N, s->at.ulysses, other).count;
        r->b.sends[n] = (zoe_piece){.rank = other,
                                    .data = r->b.o + (theirs.first - s->chunk.first) * own,
                                    .bytes = theirs.count * own};
        r->b.recvs[n++] = (zoe_piece){.rank = other,
                                      .data = returned_by(r, other),
                                      .bytes = s->mine.count * zoe_heads_bytes(s, heads)};
    }
    TRY(exchange(r, r->sequence->ulysses, n, "ulysses o"));
    unpack_task task = {.r = r, .o = o};
    zoe_parallel_for(r->ctx, s->mine.count, unpack_token, &task);
    return ZOE_OK;
}
