/* Element by element: activations, gated units, sums, changes of type; and the softmax of rows. The rules that
 * hold for every operator are in zoetrope/op.h.
 *
 * Tensors here have any rank, the same shape, a dense last axis and any positive strides before it; types are
 * f32, f16 or bf16, each tensor its own unless said otherwise. Everything is computed in f32 and rounded once,
 * to the type of y. */
#ifndef ZOETROPE_OP_ELEMENTWISE_H
#define ZOETROPE_OP_ELEMENTWISE_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* y = activation(x). y may be x if of the same type. -inf gives NaN, as 0 times inf does, and +inf itself.
 * Within 4 ulp of the exact value in f32 for |x| <= 10, and 1e-7 where the result is near 0. */
zoe_status zoe_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation);

/* A gated linear unit:  y = activation(gate) * up
 *
 * SwiGLU with ZOE_ACT_SILU, GEGLU with ZOE_ACT_GELU_TANH or _ERF. Halves of one tensor are two views of it;
 * which half is the gate differs between models. y may be gate or up if of the same type.
 * round_steps: as the umT5 code computes on bf16 tensors: all three are bf16, the activation is
 * ZOE_ACT_GELU_TANH, and each of its elementary steps (square, cube, times 0.044715, plus, times
 * sqrt(2/pi), tanh, plus 1, times half the gate) and the product are rounded to bf16.
 * Source: Shazeer 2020, arXiv 2002.05202. */
typedef struct zoe_glu_args {
    zoe_tensor y, gate, up;
    zoe_activation activation;
    bool round_steps;
} zoe_glu_args;

zoe_status zoe_glu(zoe_context *ctx, const zoe_glu_args *args);

/* y = softmax of x over the last axis; y may be x if of the same type. A row with NaN or +inf, or of -inf
 * only, gives NaN, as PyTorch does; elements of -inf beside finite ones give 0. */
zoe_status zoe_softmax(zoe_context *ctx, zoe_tensor y, zoe_tensor x);

/* y = a + b; y may be a or b if of the same type. */
zoe_status zoe_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);

/* A copy with change of type: x f32, f16, bf16, f8 or, if dense, of a block type; y f32, f16 or bf16. Dense
 * tensors need only the same count. */
zoe_status zoe_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
