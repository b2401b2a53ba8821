/* Rotary embedding and attention. */
#include <math.h>

#include "call.h"

static zoe_rotary_mul_args rotary_arguments(zoe_call *call)
{
    return (zoe_rotary_mul_args){
        .x = zoe_call_tensor(call, 0),
        .cos = zoe_call_tensor(call, 1),
        .sin = zoe_call_tensor(call, 2),
        .pairing = (zoe_rotary_pairing)zoe_call_choice(call, 3, ZOE_ROTARY_QUARTER),
        .half_tables = zoe_call_flag(call, 4),
        .trig_in_x_dtype = zoe_call_flag(call, 5)};
}

static void rotary_mul(zoe_call *call)
{
    zoe_rotary_mul_args a = rotary_arguments(call);
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    zoe_call_done(call, zoe_rotary_mul(zoe_call_context(call), &a));
}

static void rotary_mul_out(zoe_call *call)
{
    zoe_rotary_mul_args a = rotary_arguments(call);
    a.y = zoe_call_target(call, 6);
    zoe_call_done(call, zoe_rotary_mul(zoe_call_context(call), &a));
}

static void rotary_mul_backward(zoe_call *call)
{
    zoe_rotary_mul_args a = rotary_arguments(call);
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_rotary_mul_backward_workspace(ctx, &a));
    zoe_call_done(call, zoe_rotary_mul_backward(ctx, &a, work));
}

static void attention(zoe_call *call)
{
    zoe_attention_args a = {.q = zoe_call_tensor(call, 0),
                            .k = zoe_call_tensor(call, 1),
                            .v = zoe_call_tensor(call, 2),
                            .bias = zoe_call_tensor(call, 3),
                            .scale = zoe_call_float(call, 4),
                            .last_count = zoe_call_count(call, 5),
                            .round_scores = zoe_call_flag(call, 6)};
    const size_t lse[] = {a.q.shape[0], a.q.shape[1], 1};
    a.o = zoe_call_new_like(call, a.q.dtype, a.q);
    a.lse =
        a.round_scores ? zoe_call_new_unwanted(call, ZOE_F32) : zoe_call_new(call, ZOE_F32, 3, lse);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_attention_workspace(ctx, &a));
    zoe_call_done(call, zoe_attention(ctx, &a, work));
}

static void read_lengths(zoe_call *call, size_t index, const int64_t **lengths, size_t *count)
{
    const zoe_tensor t = zoe_call_tensor(call, index);
    if (t.dtype == ZOE_NONE)
        return;
    if (t.dtype != ZOE_I64 || t.rank != 1)
        zoe_call_fail(call,
                      "fused_infer_attention_score: argument %zu is of type %s and rank %d, "
                      "wanted lengths as int64 of rank 1",
                      index + 1, zoe_dtype_name(t.dtype), t.rank);
    *lengths = t.data;
    *count = t.shape[0];
}

/* Extents of one batch of attention. */
typedef struct extents {
    size_t B, N, S, Dv; /* S: T for layouts with T */
} extents;

static extents extents_of(zoe_call *call, const zoe_fused_infer_attention_score_args *a)
{
    const zoe_tensor q = a->q, v = a->v;
    const bool flat = a->layout == ZOE_LAYOUT_BSH || a->layout == ZOE_LAYOUT_BSH_NBSD;
    const bool packed = a->layout >= ZOE_LAYOUT_TND;
    if (q.rank != (flat || packed ? 3 : 4) || v.rank != q.rank)
        zoe_call_fail(call, "fused_infer_attention_score: q has rank %d and v rank %d, wanted %d",
                      q.rank, v.rank, flat || packed ? 3 : 4);
    const size_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    if (flat && (kv_heads == 0 || v.shape[2] % kv_heads != 0))
        zoe_call_fail(call,
                      "fused_infer_attention_score: %zu elements of v are not %zu heads alike",
                      v.shape[2], kv_heads);
    switch (a->layout) {
    case ZOE_LAYOUT_BSH:
    case ZOE_LAYOUT_BSH_NBSD:
        return (extents){q.shape[0], a->heads, q.shape[1], v.shape[2] / kv_heads};
    case ZOE_LAYOUT_BSND:
    case ZOE_LAYOUT_BSND_NBSD: return (extents){q.shape[0], q.shape[2], q.shape[1], v.shape[3]};
    case ZOE_LAYOUT_TND:
    case ZOE_LAYOUT_TND_NTD: return (extents){1, q.shape[1], q.shape[0], v.shape[2]};
    case ZOE_LAYOUT_NTD_TND: return (extents){1, q.shape[0], q.shape[1], v.shape[2]};
    default: return (extents){q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
    }
}

/* The shape of the output; its rank. */
static int output_shape(zoe_attention_layout layout, extents e, size_t shape[4])
{
    const size_t B = e.B, N = e.N, S = e.S, D = e.Dv;
    size_t all[4] = {B, N, S, D};
    int rank = 4;
    switch (layout) {
    case ZOE_LAYOUT_BSH: all[1] = S, all[2] = N * D, rank = 3; break;
    case ZOE_LAYOUT_BSND:
    case ZOE_LAYOUT_BNSD_BSND: all[1] = S, all[2] = N; break;
    case ZOE_LAYOUT_BSH_NBSD:
    case ZOE_LAYOUT_BSND_NBSD:
    case ZOE_LAYOUT_BNSD_NBSD: all[0] = N, all[1] = B; break;
    case ZOE_LAYOUT_TND:
    case ZOE_LAYOUT_NTD_TND: all[0] = S, all[1] = N, all[2] = D, rank = 3; break;
    case ZOE_LAYOUT_TND_NTD: all[0] = N, all[1] = S, all[2] = D, rank = 3; break;
    default: break;
    }
    for (int i = 0; i < rank; i++)
        shape[i] = all[i];
    return rank;
}

static void fused_infer_attention_score(zoe_call *call)
{
    zoe_fused_infer_attention_score_args a = {
        .q = zoe_call_tensor(call, 0),
        .k = zoe_call_tensor(call, 1),
        .v = zoe_call_tensor(call, 2),
        .mask = zoe_call_tensor(call, 3),
        .heads = zoe_call_count(call, 6),
        .kv_heads = zoe_call_count(call, 7),
        .scale = zoe_call_float(call, 8),
        .layout = (zoe_attention_layout)zoe_call_choice(call, 9, ZOE_LAYOUT_NTD_TND),
        .sparse_mode = (zoe_attention_sparse)zoe_call_choice(call, 10, ZOE_SPARSE_BAND_END),
        .pre_tokens = zoe_call_int(call, 11),
        .next_tokens = zoe_call_int(call, 12),
        .lse_invalid = zoe_call_flag(call, 14) ? INFINITY : -INFINITY};
    read_lengths(call, 4, &a.q_lengths, &a.q_length_count);
    read_lengths(call, 5, &a.kv_lengths, &a.kv_length_count);
    const extents e = extents_of(call, &a);
    size_t shape[4];
    const int rank = output_shape(a.layout, e, shape);
    a.o = zoe_call_new(call, a.q.dtype, rank, shape);
    if (!zoe_call_flag(call, 13))
        a.lse = zoe_call_new_unwanted(call, ZOE_F32);
    else if (a.layout >= ZOE_LAYOUT_TND)
        a.lse = zoe_call_new(call, ZOE_F32, 3, (const size_t[]){e.S, e.N, 1});
    else
        a.lse = zoe_call_new(call, ZOE_F32, 4, (const size_t[]){e.B, e.N, e.S, 1});
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work =
        zoe_call_workspace(call, zoe_fused_infer_attention_score_workspace(ctx, &a));
    zoe_call_done(call, zoe_fused_infer_attention_score(ctx, &a, work));
}

enum { MOST_PARTS = 64 };

/* Parts of a tensor along its first axis. */
static size_t split(zoe_call *call, zoe_tensor t, zoe_tensor parts[MOST_PARTS])
{
    if (t.rank < 2 || t.shape[0] < 1 || t.shape[0] > MOST_PARTS)
        zoe_call_fail(call,
                      "attention_merge: parts have rank %d and %zu are given, wanted 2 or more "
                      "axes and 1 to %d parts",
                      t.rank, t.rank > 0 ? t.shape[0] : 0, MOST_PARTS);
    zoe_tensor part = t;
    part.rank--;
    for (int i = 0; i < part.rank; i++) {
        part.shape[i] = t.shape[i + 1];
        part.stride[i] = t.stride[i + 1];
    }
    for (size_t p = 0; p < t.shape[0]; p++) {
        parts[p] = part;
        if (t.data)
            parts[p].data =
                (char *)t.data + (ptrdiff_t)p * t.stride[0] * (ptrdiff_t)zoe_dtype_bytes(t.dtype);
    }
    return t.shape[0];
}

static void attention_merge(zoe_call *call)
{
    zoe_tensor outs[MOST_PARTS], lses[MOST_PARTS];
    const size_t parts = split(call, zoe_call_tensor(call, 0), outs);
    if (split(call, zoe_call_tensor(call, 1), lses) != parts)
        zoe_call_fail(call, "attention_merge: %zu parts have not as many lses", parts);
    zoe_attention_merge_args a = {.parts = parts,
                                  .outs = outs,
                                  .lses = lses,
                                  .lse_invalid = zoe_call_flag(call, 2) ? INFINITY : -INFINITY};
    a.o = zoe_call_new_like(call, outs[0].dtype, outs[0]);
    a.lse = zoe_call_new_like(call, ZOE_F32, lses[0]);
    zoe_call_done(call, zoe_attention_merge(zoe_call_context(call), &a));
}

static void attention_update(zoe_call *call)
{
    zoe_attention_update_args a = {.prev_o = zoe_call_tensor(call, 0),
                                   .prev_max = zoe_call_tensor(call, 1),
                                   .prev_sum = zoe_call_tensor(call, 2),
                                   .cur_o = zoe_call_tensor(call, 3),
                                   .cur_max = zoe_call_tensor(call, 4),
                                   .cur_sum = zoe_call_tensor(call, 5)};
    a.o = zoe_call_new_like(call, a.prev_o.dtype, a.prev_o);
    a.max = zoe_call_new_like(call, ZOE_F32, a.prev_max);
    a.sum = zoe_call_new_like(call, ZOE_F32, a.prev_sum);
    zoe_call_done(call, zoe_attention_update(zoe_call_context(call), &a));
}

#define ROTARY                                                                                     \
    "Tensor x, Tensor cos, Tensor sin, int pairing=0, bool half_tables=False, "                    \
    "bool trig_in_x_dtype=False"
#define OPS(OP)                                                                                    \
    OP(rotary_mul, "rotary_mul(" ROTARY ") -> Tensor")                                             \
    OP(rotary_mul_out, "rotary_mul.out(" ROTARY ", *, Tensor(a!) out) -> ()")                      \
    OP(rotary_mul_backward,                                                                        \
       "rotary_mul_backward(Tensor grad, Tensor cos, Tensor sin, int pairing, bool half_tables, "  \
       "bool trig_in_x_dtype) -> Tensor")                                                          \
    OP(attention, "attention(Tensor q, Tensor k, Tensor v, Tensor? bias=None, float scale=1.0, "   \
                  "int last_count=1, bool round_scores=False) -> (Tensor, Tensor)")                \
    OP(fused_infer_attention_score,                                                                \
       "fused_infer_attention_score(Tensor q, Tensor k, Tensor v, Tensor? mask=None, "             \
       "Tensor? q_lengths=None, Tensor? kv_lengths=None, int heads=0, int kv_heads=0, "            \
       "float scale=1.0, int layout=2, int sparse_mode=0, int pre_tokens=2147483647, "             \
       "int next_tokens=2147483647, bool lse_wanted=False, bool lse_plus_inf=False) "              \
       "-> (Tensor, Tensor)")                                                                      \
    OP(attention_merge, "attention_merge(Tensor outs, Tensor lses, bool lse_plus_inf=False) "      \
                        "-> (Tensor, Tensor)")                                                     \
    OP(attention_update, "attention_update(Tensor prev_o, Tensor prev_max, Tensor prev_sum, "      \
                         "Tensor cur_o, Tensor cur_max, Tensor cur_sum) -> (Tensor, Tensor, "      \
                         "Tensor)")

ZOE_TORCH_OPS(OPS, zoe_torch_attention)
