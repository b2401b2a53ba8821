/* Attention over a sequence on several ranks: from tokens to heads, over the ring, and back. */
#include "comm/sequence.h"
#include "op/check.h"

/* ---- the layout ---- */

static zoe_shares shares_of(zoe_place at, const zoe_sequence_attention_args *a)
{
    const size_t group = at.rank % at.ulysses, place = at.rank / at.ulysses;
    return (zoe_shares){.at = at,
                        .group = group,
                        .place = place,
                        .tokens = a->tokens,
                        .N = a->q.shape[1],
                        .D = a->q.shape[2],
                        .element = zoe_dtype_bytes(a->q.dtype),
                        .dtype = a->q.dtype,
                        .mine = zoe_place_tokens(&at, a->tokens),
                        .chunk = zoe_place_chunk(&at, place, a->tokens),
                        .heads = zoe_share(a->q.shape[1], at.ulysses, group)};
}

/* The widest that attention to any part needs. */
static size_t attention_bytes(const zoe_context *ctx, const zoe_shares *s)
{
    const zoe_tensor q = zoe_tensor_3d(NULL, s->dtype, s->chunk.count, s->heads.count, s->D);
    const zoe_tensor lse = zoe_tensor_3d(NULL, ZOE_F32, s->chunk.count, s->heads.count, 1);
    size_t most = 0;
    for (size_t p = 0; p < zoe_ring_parts(s); p++) {
        zoe_tensor k = q;
        k.shape[0] = zoe_ring_part_tokens(s, p);
        const zoe_attention_args a = zoe_ring_attention(q, lse, q, k, k, 1.0f);
        const size_t bytes = k.shape[0] > 0 ? zoe_attention_workspace(ctx, &a) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void lay_out_ulysses(const zoe_shares *s, zoe_sequence_buffers *b, zoe_arena *arena)
{
    const size_t own = zoe_heads_bytes(s, s->heads.count), all = zoe_heads_bytes(s, s->N);
    const size_t o = zoe_arena_bytes(s->chunk.count, own);
    const size_t there = 3 * s->mine.count * all, back = o + s->mine.count * all;
    b->packed = zoe_arena_take(arena, there > back ? there : back, 1);
    b->gathered = zoe_arena_take(arena, s->chunk.count, 3 * own);
    b->o = b->packed;
    b->returned = b->packed ? b->packed + o : NULL;
}

static void lay_out_ring(const zoe_shares *s, zoe_sequence_buffers *b, zoe_arena *arena)
{
    const size_t own = zoe_heads_bytes(s, s->heads.count), rows = s->chunk.count * s->heads.count;
    if (s->at.stepwise) {
        const size_t most = zoe_place_chunk(&s->at, 0, s->tokens).count;
        b->kv[0] = zoe_arena_take(arena, most, 2 * own);
        b->kv[1] = zoe_arena_take(arena, most, 2 * own);
    } else {
        b->kv[0] = zoe_arena_take(arena, s->chunk.count, 2 * own);
        b->others =
            zoe_arena_take(arena, s->chunk.count > 0 ? s->tokens - s->chunk.count : 0, 2 * own);
    }
    b->sum = zoe_arena_take(arena, rows, s->D * sizeof(float));
    b->part = zoe_arena_take(arena, rows, s->D * sizeof(float));
    b->sum_lse = zoe_arena_take(arena, rows, sizeof(float));
    b->part_lse = zoe_arena_take(arena, rows, sizeof(float));
}

static void lay_out(const zoe_context *ctx, const zoe_shares *s, zoe_sequence_buffers *b,
                    zoe_arena *arena)
{
    const size_t most = s->at.ulysses > s->at.ring ? s->at.ulysses : s->at.ring;
    *b = (zoe_sequence_buffers){0};
    if (most > 1) {
        b->sends = zoe_arena_take(arena, most, sizeof *b->sends);
        b->recvs = zoe_arena_take(arena, most, sizeof *b->recvs);
    }
    if (s->at.ulysses > 1)
        lay_out_ulysses(s, b, arena);
    if (s->at.ring > 1)
        lay_out_ring(s, b, arena);
    b->work.bytes = attention_bytes(ctx, s);
    b->work.data = zoe_arena_take(arena, b->work.bytes, 1);
}

size_t zoe_sequence_attention_workspace(const zoe_context *ctx, const zoe_place *place,
                                        const zoe_sequence_attention_args *args)
{
    const zoe_shares s = shares_of(*place, args);
    zoe_arena arena = {0};
    zoe_sequence_buffers b;
    lay_out(ctx, &s, &b, &arena);
    return arena.used;
}

/* ---- the whole ---- */

static zoe_status check(zoe_context *ctx, const zoe_shares *s, const zoe_sequence_attention_args *a)
{
    static const char op[] = "sequence attention";
    const unsigned types = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
    const struct {
        const char *name;
        zoe_tensor t;
    } all[] = {{"q", a->q}, {"k", a->k}, {"v", a->v}, {"o", a->o}};
    TRY(ZOE_CHECK(ctx, op, "q", a->q, types, 3, s->mine.count, ZOE_ANY, ZOE_ANY));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const zoe_tensor t = all[i].t;
        TRY(zoe_check_tensor(ctx, op, all[i].name, t, ZOE_TYPE(a->q.dtype), 3, a->q.shape));
        if (t.shape[1] > 1 && t.stride[1] != (ptrdiff_t)t.shape[2])
            return zoe_fail(ctx, ZOE_INVALID, "%s: the heads of %s are not dense", op, all[i].name);
    }
    for (size_t i = 0; i < 3; i++)
        TRY(zoe_check_apart(ctx, op, "o", a->o, all[i].name, all[i].t, false));
    return ZOE_OK;
}

zoe_status zoe_sequence_begin(zoe_context *ctx, zoe_sequence_run *r, const zoe_sequence *sequence,
                              const zoe_sequence_attention_args *args, zoe_workspace work)
{
    const zoe_place at = zoe_place_of(sequence);
    *r = (zoe_sequence_run){.ctx = ctx,
                            .sequence = sequence,
                            .s = shares_of(at, args),
                            .o = args->o,
                            .q = args->q,
                            .k = args->k,
                            .v = args->v,
                            .scale = args->scale};
    TRY(check(ctx, &r->s, args));
    TRY(zoe_check_workspace(ctx, "sequence attention", work,
                            zoe_sequence_attention_workspace(ctx, &at, args)));
    zoe_arena arena = {.base = work.data, .size = work.bytes};
    lay_out(ctx, &r->s, &r->b, &arena);
    return zoe_arena_status(ctx, &arena, "sequence attention");
}

zoe_status zoe_sequence_attention(zoe_context *ctx, const zoe_sequence *sequence,
                                  const zoe_sequence_attention_args *args, zoe_workspace work)
{
    zoe_sequence_run r;
    TRY(zoe_sequence_begin(ctx, &r, sequence, args, work));
    const bool ulysses = r.s.at.ulysses > 1;
    if (args->tokens == 0)
        return ZOE_OK;
    if (ulysses)
        TRY(zoe_sequence_to_heads(&r));
    TRY(r.s.at.ring > 1 ? zoe_sequence_attend_ring(&r) : zoe_sequence_attend_own(&r));
    return ulysses ? zoe_sequence_to_tokens(&r, args->o) : ZOE_OK;
}
