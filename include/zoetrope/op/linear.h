/* Products: linear layers. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_LINEAR_H
#define ZOETROPE_OP_LINEAR_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A product that is added to that of a linear layer, such as a LoRA's: scale x w^T, with x [M, R] and
 * w [N, R]. Values are widened and used in f32 as they are, x times scale once: nothing is rounded
 * to bf16 in any mode. */
typedef struct zoe_linear_term {
    zoe_tensor x, w;
    float scale;
} zoe_linear_term;

/* Linear layer with fused write-back:
 *
 *   v = x w^T + sum of terms + bias;  v = activation(v);  v = gate * v;  y = residual + v
 *
 * Absent parts are left out.
 *
 * y         [M, N]  f32 or bf16
 * x         [M, K]  f32 or bf16
 * w         [N, K]  f32, f16, bf16, f8_e4m3, f8_e5m2 or a block type, with or without factors
 *                   (zoe_scaling); used from this form, never expanded whole
 * bias      [N]     f32 or none
 * gate      [N]     f32 or none
 * residual  [M, N]  f32 or bf16, or none; may be y
 * terms     n_terms of them: x f32 or bf16, w of any type that w may have; x may be the x of the layer
 *
 * With x in bf16: w and bias rounded to bf16; x w^T + terms + bias rounded to bf16; the activation's result
 * rounded to bf16; gate and residual in f32. round_weights: w is rounded to bf16 although x is f32.
 * Factors multiply the widened w in f32; where w is rounded to bf16, so are they before that.
 * A row of y has the same bytes whatever the other rows and M are. y shares memory with no operand
 * but the residual (the very same view); x and y may be different columns of one buffer. */
typedef struct zoe_linear_args {
    zoe_tensor y, x, w, bias, gate, residual;
    zoe_activation activation;
    bool round_weights;
    const zoe_linear_term *terms;
    size_t n_terms;
} zoe_linear_args;

size_t zoe_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args);
zoe_status zoe_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work);

#ifdef __cplusplus
}
#endif
#endif
