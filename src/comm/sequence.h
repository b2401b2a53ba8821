/* Inside comm: attention over a sequence on several ranks, its parts. */
#ifndef ZOE_COMM_SEQUENCE_H
#define ZOE_COMM_SEQUENCE_H

#include "comm/comm.h"

/* In how many exchanges the keys of all others are gathered at most: the first ones are attended to
 * while the last ones travel. */
enum { ZOE_RING_GATHERS = 3 };

/* Who has what. */
typedef struct zoe_shares {
    zoe_place at;
    size_t group, place; /* rank in the Ulysses group; chunk of the ring */
    size_t tokens, N, D, element;
    zoe_dtype dtype;
    zoe_span mine, chunk, heads;
} zoe_shares;

/* Scratch memory of one attention. */
typedef struct zoe_sequence_buffers {
    zoe_piece *sends, *recvs;      /* [max(U, R)] */
    unsigned char *packed;         /* to the heads: for each rank, [tokens, q k v, heads, D] */
    unsigned char *gathered;       /* [chunk, q k v, heads, D] */
    unsigned char *o, *returned;   /* [chunk, heads, D], of each rank [tokens, heads, D]; take the
                                      place of packed */
    unsigned char *kv[2], *others; /* [a chunk, k v, heads, D], [other chunks, k v, heads, D] */
    float *sum, *part;             /* [chunk, heads, D]: attention to the keys so far, to others */
    float *sum_lse, *part_lse;     /* [chunk, heads] */
    zoe_workspace work;
} zoe_sequence_buffers;

typedef struct zoe_sequence_run {
    zoe_context *ctx;
    const zoe_sequence *sequence;
    zoe_shares s;
    zoe_sequence_buffers b;
    zoe_tensor o, q, k,
        v; /* [chunk, heads, D] of this rank; before and after Ulysses, [tokens, N, D] */
    float scale;
    size_t seen; /* keys attended to so far */
} zoe_sequence_run;

/* Checks the arguments and lays the workspace out. */
zoe_status zoe_sequence_begin(zoe_context *ctx, zoe_sequence_run *r, const zoe_sequence *sequence,
                              const zoe_sequence_attention_args *args, zoe_workspace work);

/* From q, k, v of this rank's tokens to those of its heads, and from the outputs of its heads to o,
 * those of its tokens. Source: Jacobs et al. 2023 (arXiv 2309.14509). */
zoe_status zoe_sequence_to_heads(zoe_sequence_run *r);
zoe_status zoe_sequence_to_tokens(const zoe_sequence_run *r, zoe_tensor o);

/* Attention to the own chunk, and to all of the ring. */
zoe_status zoe_sequence_attend_own(zoe_sequence_run *r);
zoe_status zoe_sequence_attend_ring(zoe_sequence_run *r);

/* How many parts the keys come in: the own chunk, then others. */
size_t zoe_ring_parts(const zoe_shares *s);
/* Tokens of part p. */
size_t zoe_ring_part_tokens(const zoe_shares *s, size_t p);

static inline zoe_attention_args zoe_ring_attention(zoe_tensor o, zoe_tensor lse, zoe_tensor q,
                                                    zoe_tensor k, zoe_tensor v, float scale)
{
    return (zoe_attention_args){
        .o = o, .lse = lse, .q = q, .k = k, .v = v, .scale = scale, .last_count = 1};
}

/* Bytes of one token of so many heads. */
static inline size_t zoe_heads_bytes(const zoe_shares *s, size_t heads)
{
    return heads * s->D * s->element;
}

/* [tokens, heads, D] within rows that are `parts` times as long. */
static inline zoe_tensor zoe_heads_rows(const zoe_shares *s, unsigned char *data, size_t tokens,
                                        size_t parts)
{
    zoe_tensor t = zoe_tensor_3d(data, s->dtype, tokens, s->heads.count, s->D);
    t.stride[0] = (ptrdiff_t)(parts * s->heads.count * s->D);
    return t;
}

/* Token i. */
static inline unsigned char *zoe_heads_row(zoe_tensor t, size_t i)
{
    return (unsigned char *)t.data + i * (size_t)t.stride[0] * zoe_dtype_bytes(t.dtype);
}

#endif
