/* Attention. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_ATTENTION_H
#define ZOETROPE_OP_ATTENTION_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Scaled dot-product attention, without an Lq x Lk buffer:  o = softmax(scale q k^T + bias) v
 *
 * o     [Lq, N, D]  f32, f16 or bf16
 * lse   [Lq, N, 1]  f32, gets the natural logarithm of the sum of exp(score) over the keys, for
 *       zoe_attention_merge; or none
 * q     [Lq, N, D]  f32, f16 or bf16          (N heads)
 * k, v  [Lk, N, D]  type of q, Lk >= 1
 * bias  [N, Lq + Lk - 1]  f32 or none: bias[n, key - query + Lq - 1] is added to the score, which
 *       so depends on the distance of key and query only
 * last_count    how many identical keys the last row of k and v stands for (1: just itself); adds
 *               ln(last_count) to its score
 * round_scores  scores, scores plus bias, and probabilities are each rounded to bf16, as PyTorch
 *               does for T5 in bf16; then a buffer of one score row per query may be used
 * A row whose scores are all -inf gives 0, and -inf in lse. Errors: ZOE_INVALID (shapes, types,
 * overlap, lse with rounded scores), ZOE_NOMEM (the workspace), ZOE_CANCELLED.
 * Source: Dao 2023, arXiv 2307.08691. */
typedef struct zoe_attention_args {
    zoe_tensor o, lse, q, k, v, bias;
    float scale;
    size_t last_count;
    bool round_scores;
} zoe_attention_args;

size_t zoe_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args);
zoe_status zoe_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work);

/* The order of the axes: B sequences, S tokens of each, N heads, D width of a head, H = N D, T all
 * sequences end to end. Where two are named, the second is that of the output. */
typedef enum zoe_attention_layout {
    ZOE_LAYOUT_BSH,
    ZOE_LAYOUT_BSND,
    ZOE_LAYOUT_BNSD,
    ZOE_LAYOUT_BNSD_BSND,
    ZOE_LAYOUT_BSH_NBSD,
    ZOE_LAYOUT_BSND_NBSD,
    ZOE_LAYOUT_BNSD_NBSD,
    ZOE_LAYOUT_TND,
    ZOE_LAYOUT_TND_NTD,
    ZOE_LAYOUT_NTD_TND
} zoe_attention_layout;

/* Which keys j a query i sees, both counted from the beginning of their sequence, of q queries and
 * k keys. A mask, where consulted, hides those at which it is not 0. */
typedef enum zoe_attention_sparse {
    ZOE_SPARSE_BAND = 0,   /* no mask: all; with it: i - j <= pre_tokens and j - i <= next_tokens,
                               * and the mask is consulted */
    ZOE_SPARSE_MASK = 1,   /* what the mask, which must be given, shows */
    ZOE_SPARSE_CAUSAL = 2, /* j <= i */
    ZOE_SPARSE_CAUSAL_END = 3, /* j <= i + (k - q): the last query sees the last key */
    ZOE_SPARSE_BAND_END = 4 /* i - j <= pre_tokens - (k - q) and j - i <= next_tokens + (k - q) */
} zoe_attention_sparse;

/* Attention for inference over a batch:  o = softmax(scale q k^T) v, with heads of queries that
 * may share heads of keys, lengths, bands or masks. Never a buffer of S x S; what no query of a
 * stripe may see is not computed. Sums are kept in f32.
 *
 * o             [B, S, N Dv], [B, S, N, Dv], [B, N, S, Dv], [N, B, S, Dv], [T, N, Dv] or [N, T,
 *               Dv], as the layout says; f32, f16 or bf16
 * lse           f32 [B, N, S, 1], or [T, N, 1] for layouts with T, or none: natural logarithm of
 *               the sum of exp(score) over what the query sees
 * q             f32, f16 or bf16, with N heads of width D, any from 1 on
 * k, v          type of q; widths D and Dv. Their heads may be fewer: head h of q uses number
 *               h / (N / kv_heads)
 * mask          bool, u8 or i8, or none. Modes 0 and 1: [S, Skv], [1 or B, S, Skv] or [1 or B, 1,
 *               S, Skv]; with T, [at least the longest of q, of k] or the same with ones before.
 *               Modes 2 to 4: [2048, 2048], or the same with ones before; only its shape is looked
 *               at
 * heads         N; 0 if the layout has an axis for it
 * kv_heads      0: N
 * scale         on q k^T; the vendor's default is 1, models mostly want 1 / sqrt(D)
 * sparse_mode, pre_tokens, next_tokens   see above. Of pre and next one may be negative, by no
 *               more than the other is large. The predicate is the same for S = 1
 * q_lengths     how many queries of each sequence are valid, or NULL for all: one for all, or at
 *               least B. Rows of o beyond are 0, their lse is lse_invalid. With T, required: the
 *               ends of the sequences in ascending order, the last is T
 * kv_lengths    the same for keys; those beyond are not read. With T, as many as of queries
 * lse_invalid   -INFINITY (also if 0) or INFINITY: the lse of a query that sees no key; its row
 *               of o is 0
 *
 * NaN stays in the rows that see it; so does NaN or inf in values whose weight is 0, when a key of
 * their block is seen. Bytes do not depend on threads. Errors: ZOE_INVALID (shapes, types,
 * lengths, overlap), ZOE_NOMEM (the workspace), ZOE_CANCELLED.
 * Source: Dao 2023, arXiv 2307.08691; semantics of Ascend/op-plugin, docs of
 * torch_npu.npu_fused_infer_attention_score. */
typedef struct zoe_fused_infer_attention_score_args {
    zoe_tensor o, lse, q, k, v, mask;
    zoe_attention_layout layout;
    size_t heads, kv_heads;
    float scale;
    zoe_attention_sparse sparse_mode;
    int64_t pre_tokens, next_tokens;
    const int64_t *q_lengths, *kv_lengths;
    size_t q_length_count, kv_length_count;
    float lse_invalid;
} zoe_fused_infer_attention_score_args;

size_t zoe_fused_infer_attention_score_workspace(const zoe_context *ctx,
                                                 const zoe_fused_infer_attention_score_args *args);
zoe_status zoe_fused_infer_attention_score(zoe_context *ctx,
                                           const zoe_fused_infer_attention_score_args *args,
                                           zoe_workspace work);

/* Joins attention over parts of the keys, each normalised by itself:
 *   L = ln sum_p exp(lses[p]);  o = sum_p outs[p] exp(lses[p] - L)
 *
 * o            [..., D]  f32, f16 or bf16; may be one of outs
 * lse          [..., 1]  f32, gets L, or none; may be one of lses
 * outs, lses   `parts` of each, shapes of o and lse. A part whose lse is -inf or +inf has no
 *              weight and is not read there
 * lse_invalid  what L is where no part has weight: -INFINITY (also if 0) or INFINITY; o is 0 there
 * Axes may be permuted by strides, as long as the last one stays: lse of [B, N, S, 1] goes with o
 * of [B, S, N, D] seen as [B, N, S, D]. Errors: ZOE_INVALID.
 * Source: operator npu_attention_update of Ascend/op-plugin; Liu et al. 2023, arXiv 2310.01889. */
typedef struct zoe_attention_merge_args {
    zoe_tensor o, lse;
    size_t parts;
    const zoe_tensor *outs, *lses;
    float lse_invalid;
} zoe_attention_merge_args;

zoe_status zoe_attention_merge(zoe_context *ctx, const zoe_attention_merge_args *args);

/* Joins two parts that keep maximum and sum apart, as a ring of ranks does step by step:
 *   max = max(prev_max, cur_max);  a = prev_sum exp(prev_max - max);
 *   b = cur_sum exp(cur_max - max);  sum = a + b;  o = prev_o a / sum + cur_o b / sum
 *
 * o, prev_o, cur_o   [..., D]  each f32, f16 or bf16; o may be prev_o or cur_o
 * max, sum and those of prev and cur   [..., C]  f32, C >= 1 copies of one number (8 on an NPU):
 *                    the first is read, all are written; they may be those of prev or of cur
 * A part with a sum of 0 or a maximum of -inf or +inf has no weight; without any, o and sum are 0
 * and max is -inf. Axes may be permuted by strides as above. Errors: ZOE_INVALID.
 * Source: operator npu_ring_attention_update of Ascend/op-plugin; Liu et al. 2023, arXiv
 * 2310.01889. */
typedef struct zoe_attention_update_args {
    zoe_tensor o, max, sum;
    zoe_tensor prev_o, prev_max, prev_sum;
    zoe_tensor cur_o, cur_max, cur_sum;
} zoe_attention_update_args;

zoe_status zoe_attention_update(zoe_context *ctx, const zoe_attention_update_args *args);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
