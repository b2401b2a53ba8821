/* Quantisation to int8 and products of int8. The rules that hold for every operator are in
 * zoetrope/op.h; how values are rounded and why, in docs/NUMERICS.md. */
#ifndef ZOETROPE_OP_INT8_H
#define ZOETROPE_OP_INT8_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The longest sum of products of two int8 values that fits 32 bits whatever they are. (With -128
 * left out, it would be 133,144.) */
#define ZOE_INT8_MOST_K 131071

/* Quantises rows, each with a scale of its own, or each run of `group` elements of each row:
 *
 *   w = x * smooth;  scale = max |w| / 127;  q = w * (127 / max |w|), rounded to nearest even
 *
 * so that w is about q * scale; q is within -127 .. 127. Each step is rounded to f32.
 *
 * q       [..., K]  i8, dense last axis
 * scale   [...] or, with groups, [..., ceil(K / group)]  f32; other axes as those of x
 * x       [..., K]  f32, f16 or bf16
 * smooth  [K]       f32, or none for 1
 * group   elements that share a scale; 0: the whole row
 *
 * A run of zeroes has scale 0 and q 0. A run with inf or NaN has that as scale, and q 0: it comes
 * back as NaN. Values below 2^-120 keep what f32 has of them.
 * Source: Ascend op-plugin, npu_dynamic_quant (symmetric). */
typedef struct zoe_dynamic_quant_args {
    zoe_tensor q, scale, x, smooth;
    size_t group;
} zoe_dynamic_quant_args;

size_t zoe_dynamic_quant_workspace(const zoe_context *ctx, const zoe_dynamic_quant_args *args);
zoe_status zoe_dynamic_quant(zoe_context *ctx, const zoe_dynamic_quant_args *args,
                             zoe_workspace work);

/* Weights in the form that zoe_linear_int8 wants, made once. */
typedef struct zoe_int8_weights zoe_int8_weights;

/* Quantises and packs w [N, K], of any type that zoe_linear takes, as zoe_dynamic_quant does its
 * rows: a scale for each output channel, or for each run of `group` elements of it. w of type i8 is
 * packed as it is and has the scale 1. group: 0, 128 or 256; without groups, K is at most
 * ZOE_INT8_MOST_K. Rows that hold NaN or inf are refused with ZOE_NONFINITE. Free with
 * zoe_int8_weights_free; NULL is fine there. */
zoe_status zoe_int8_weights_new(zoe_context *ctx, zoe_int8_weights **packed, zoe_tensor w,
                                size_t group);
void zoe_int8_weights_free(zoe_int8_weights *packed);
/* Bytes that the packed form of such a weight takes, for plans; 0 if there is none. */
size_t zoe_int8_weights_bytes(zoe_tensor w, size_t group);

/* Linear layer of int8 values with exact sums in 32 bits and fused write-back:
 *
 *   v = sum * scale * x_scale + bias;  v = activation(v);  v = gate * v;  y = residual + v
 *
 * each step rounded to f32. With groups, that of the sum is repeated for each and the results are
 * added in order. Absent parts are left out.
 *
 * y         [M, N]  f32, f16 or bf16; i32: the sum, plus a bias of i32, kept within 32 bits, and
 *                   no other part; i8: v + offset, rounded to nearest even and kept within
 *                   -128 .. 127
 * x         [M, K]  i8; or f32, f16 or bf16, which is first quantised as zoe_dynamic_quant does with
 *                   the group of the weights
 * x_scale   [M], or [M, groups] if the weights have groups  f32, or none for 1; only with x of i8
 * scale     [N] or [1]  f32, multiplied with the weights' own; none for 1; only without groups
 * offset    [N] or [1]  f32, or none; only with y of i8
 * bias      [N]     f32, f16 or bf16, or i32, which is added to the sum; or none. i32 only without
 *                   groups
 * gate      [N]     f32 or none
 * residual  [M, N]  f32, f16 or bf16, or none; may be y
 *
 * A row of y has the same bytes whatever the other rows and M are.
 * Source: Ascend op-plugin, npu_quant_matmul. */
typedef struct zoe_linear_int8_args {
    zoe_tensor y, x, x_scale;
    const zoe_int8_weights *weights;
    zoe_tensor scale, offset, bias, gate, residual;
    zoe_activation activation;
} zoe_linear_int8_args;

/* Wants every shape and type filled in; data may be NULL. */
size_t zoe_linear_int8_workspace(const zoe_context *ctx, const zoe_linear_int8_args *args);
zoe_status zoe_linear_int8(zoe_context *ctx, const zoe_linear_int8_args *args, zoe_workspace work);
/* The workspace for y [M, N] and x [M, K] of these types with weights of this group, for plans made
 * before there are weights. */
size_t zoe_linear_int8_workspace_of(const zoe_context *ctx, size_t M, size_t N, size_t K,
                                    zoe_dtype x, size_t group);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
