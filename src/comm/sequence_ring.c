/* The ring, in parts: the keys of the own chunk while those of others travel, and these as they come,
 * by rank. Parts are joined by their log-sum-exp, in f32. */
#include "base/clock.h"
#include "base/trace.h"
#include "comm/sequence.h"

static size_t chunk_tokens(const zoe_shares *s, size_t chunk)
{
    return zoe_place_chunk(&s->at, chunk, s->tokens).count;
}

size_t zoe_ring_parts(const zoe_shares *s)
{
    const size_t others = s->at.ring - 1;
    return 1 + (s->at.stepwise || others < ZOE_RING_GATHERS ? others : ZOE_RING_GATHERS);
}

/* The i-th of the other chunks, by rank. */
static size_t other_chunk(const zoe_shares *s, size_t i)
{
    return i < s->place ? i : i + 1;
}

/* The chunk that the ring's part `p` is. */
static size_t step_chunk(const zoe_shares *s, size_t p)
{
    return (s->place + s->at.ring - p) % s->at.ring;
}

/* Which of the other chunks part p > 0 has, when they are gathered. */
static zoe_span part_chunks(const zoe_shares *s, size_t p)
{
    return zoe_share(s->at.ring - 1, zoe_ring_parts(s) - 1, p - 1);
}

/* Tokens of chunks first .. first + count - 1 of the others. */
static size_t tokens_of_others(const zoe_shares *s, zoe_span chunks)
{
    size_t tokens = 0;
    for (size_t i = 0; i < chunks.count; i++)
        tokens += chunk_tokens(s, other_chunk(s, chunks.first + i));
    return tokens;
}

size_t zoe_ring_part_tokens(const zoe_shares *s, size_t p)
{
    if (p == 0)
        return s->chunk.count;
    return s->at.stepwise ? chunk_tokens(s, step_chunk(s, p))
                          : tokens_of_others(s, part_chunks(s, p));
}

static zoe_tensor floats(const zoe_shares *s, float *data, size_t width)
{
    return zoe_tensor_3d(data, ZOE_F32, s->chunk.count, s->heads.count, width);
}

/* sum, or after the last part o, gets what is in sum and part together. */
static zoe_status merge(const zoe_sequence_run *r, bool last)
{
    const zoe_shares *s = &r->s;
    const zoe_tensor outs[] = {floats(s, r->b.sum, s->D), floats(s, r->b.part, s->D)};
    const zoe_tensor lses[] = {floats(s, r->b.sum_lse, 1), floats(s, r->b.part_lse, 1)};
    const zoe_attention_merge_args a = {.o = last ? r->o : outs[0],
                                        .lse = last ? zoe_tensor_none() : lses[0],
                                        .parts = 2,
                                        .outs = outs,
                                        .lses = lses};
    return zoe_attention_merge(r->ctx, &a);
}

/* Attends to part p of the keys. Parts without keys are passed over; a rank without queries has
 * nothing to do. */
static zoe_status attend_part(zoe_sequence_run *r, size_t p, zoe_tensor k, zoe_tensor v)
{
    const zoe_shares *s = &r->s;
    const size_t keys = k.shape[0];
    if (keys == 0 || zoe_tensor_count(r->q) == 0)
        return ZOE_OK;
    const bool first = r->seen == 0, last = r->seen + keys == s->tokens;
    const double begun = zoe_now();
    zoe_attention_args a = zoe_ring_attention(r->o, zoe_tensor_none(), r->q, k, v, r->scale);
    if (!first || !last) {
        a.o = floats(s, first ? r->b.sum : r->b.part, s->D);
        a.lse = floats(s, first ? r->b.sum_lse : r->b.part_lse, 1);
    }
    TRY(zoe_attention(r->ctx, &a, r->b.work));
    if (!first)
        TRY(merge(r, last));
    r->seen += keys;
    zoe_trace_add(r->ctx, ZOE_TRACK_COMPUTE, p == 0 ? "attention local" : "attention remote",
                  SIZE_MAX, begun);
    return ZOE_OK;
}

zoe_status zoe_sequence_attend_own(zoe_sequence_run *r)
{
    return attend_part(r, 0, r->k, r->v);
}

/* Keys and values end to end, [tokens, k v, heads, D]. */
static zoe_status attend_packed(zoe_sequence_run *r, size_t p, unsigned char *kv, size_t tokens)
{
    const zoe_shares *s = &r->s;
    return attend_part(r, p, zoe_heads_rows(s, kv, tokens, 2),
                       zoe_heads_rows(s, kv + zoe_heads_bytes(s, s->heads.count), tokens, 2));
}

static void pack_kv(void *arg, size_t i, size_t worker)
{
    const zoe_sequence_run *r = arg;
    const size_t bytes = zoe_heads_bytes(&r->s, r->s.heads.count);
    unsigned char *to = r->b.kv[0] + 2 * i * bytes;
    (void)worker;
    memcpy(to, zoe_heads_row(r->k, i), bytes);
    memcpy(to + bytes, zoe_heads_row(r->v, i), bytes);
}

/* Starts to send the own keys to the ranks whose keys are part p, and to receive these. Ranks without
 * queries want none. */
static zoe_status start_gather(const zoe_sequence_run *r, size_t p, zoe_exchange *e)
{
    const zoe_shares *s = &r->s;
    const size_t row = 2 * zoe_heads_bytes(s, s->heads.count);
    const zoe_span chunks = part_chunks(s, p);
    unsigned char *to = r->b.others + tokens_of_others(s, (zoe_span){0, chunks.first}) * row;
    for (size_t i = 0; i < chunks.count; i++) {
        const size_t other = other_chunk(s, chunks.first + i), theirs = chunk_tokens(s, other);
        r->b.sends[i] = (zoe_piece){
            .rank = other, .data = r->b.kv[0], .bytes = theirs > 0 ? s->chunk.count * row : 0};
        r->b.recvs[i] =
            (zoe_piece){.rank = other, .data = to, .bytes = s->chunk.count > 0 ? theirs * row : 0};
        to += r->b.recvs[i].bytes;
    }
    return zoe_exchange_start(r->ctx, r->sequence->ring, e, r->b.sends, chunks.count, r->b.recvs,
                              chunks.count, "ring k v");
}

/* All keys and values of others are under way while the own ones are attended to. */
static zoe_status attend_gathered(zoe_sequence_run *r)
{
    const zoe_shares *s = &r->s;
    const size_t parts = zoe_ring_parts(s), row = 2 * zoe_heads_bytes(s, s->heads.count);
    zoe_exchange e[1 + ZOE_RING_GATHERS] = {0};
    unsigned char *kv = r->b.others;
    zoe_status status;
    for (size_t p = 1; p < parts; p++)
        TRY_GOTO(start_gather(r, p, &e[p]));
    TRY_GOTO(zoe_sequence_attend_own(r));
    for (size_t p = 1; p < parts; p++) {
        const size_t tokens = zoe_ring_part_tokens(s, p);
        TRY_GOTO(zoe_exchange_wait(r->ctx, r->sequence->ring, &e[p]));
        TRY_GOTO(attend_packed(r, p, kv, tokens));
        kv += tokens * row;
    }
done:
    for (size_t p = 1; p < parts; p++) { /* does nothing unless something failed */
        const zoe_status ended = zoe_exchange_wait(r->ctx, r->sequence->ring, &e[p]);
        status = status == ZOE_OK ? ended : status;
    }
    return status;
}

/* Chunks go round: each step attends to the one at hand while it is passed on and the next comes. */
static zoe_status attend_stepwise(zoe_sequence_run *r)
{
    const zoe_shares *s = &r->s;
    const size_t R = s->at.ring, row = 2 * zoe_heads_bytes(s, s->heads.count);
    for (size_t p = 0; p < R; p++) {
        unsigned char *here = r->b.kv[p % 2], *next = r->b.kv[(p + 1) % 2];
        const size_t tokens = zoe_ring_part_tokens(s, p);
        zoe_exchange e = {0};
        if (p + 1 < R) {
            const zoe_piece send = {(s->place + 1) % R, here, tokens * row};
            const zoe_piece recv = {(s->place + R - 1) % R, next,
                                    zoe_ring_part_tokens(s, p + 1) * row};
            TRY(zoe_exchange_start(r->ctx, r->sequence->ring, &e, &send, 1, &recv, 1, "ring k v"));
        }
        const zoe_status status =
            p == 0 ? zoe_sequence_attend_own(r) : attend_packed(r, p, here, tokens);
        const zoe_status ended = zoe_exchange_wait(r->ctx, r->sequence->ring, &e);
        TRY(status);
        TRY(ended);
    }
    return ZOE_OK;
}

zoe_status zoe_sequence_attend_ring(zoe_sequence_run *r)
{
    zoe_parallel_for(r->ctx, r->s.chunk.count, pack_kv, r);
    return r->s.at.stepwise ? attend_stepwise(r) : attend_gathered(r);
}
