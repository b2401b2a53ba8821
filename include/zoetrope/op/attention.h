/* Attention. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_ATTENTION_H
#define ZOETROPE_OP_ATTENTION_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scaled dot-product attention, without an Lq x Lk buffer:  o = softmax(scale q k^T + bias) v
 *
 * o     [Lq, N, D]  f32 or bf16
 * q     [Lq, N, D]  f32 or bf16          (N heads)
 * k, v  [Lk, N, D]  type of q, Lk >= 1
 * bias  [N, Lq + Lk - 1]  f32 or none: bias[n, key - query + Lq - 1] is added to the score, which
 *       so depends on the distance of key and query only
 * last_count    how many identical keys the last row of k and v stands for (1: just itself); adds
 *               ln(last_count) to its score
 * round_scores  scores, scores plus bias, and probabilities are each rounded to bf16, as PyTorch
 *               does for T5 in bf16; then a buffer of one score row per query may be used
 * Source: Dao 2023, arXiv 2307.08691. */
typedef struct zoe_attention_args {
    zoe_tensor o, q, k, v, bias;
    float scale;
    size_t last_count;
    bool round_scores;
} zoe_attention_args;

size_t zoe_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args);
zoe_status zoe_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work);

#ifdef __cplusplus
}
#endif
#endif
