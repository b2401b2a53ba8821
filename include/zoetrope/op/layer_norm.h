/* The LayerNorm family: LayerNorm, modulation, gated residuals, GroupNorm. The rules that hold for
 * every operator are in zoetrope/op.h; none of these takes scratch memory unless it says so.
 *
 * Types: x, h, y and every vector may be f32, f16 or bf16, each as it likes. Everything is computed
 * in f32 from the widened values, fused multiply-adds only where a formula says fma, and rounded once
 * to the type of y, unless a field asks for more roundings. Statistics are wider than f32, so that
 * large means cost no digits, a row of equal values is exactly 0 after the normalisation, and finite
 * rows do not overflow. A NaN stays in its row; an infinity makes its row NaN. With ZOE_NORM_RMS
 * extreme rows come out as in zoetrope/op/rms_norm.h.
 *
 * Shapes: the leading axes of x are arbitrary and may have any positive strides. Vectors that go with
 * them (scale, shift, gate) have the leading axes of x, of which each may be 1 and the last ones may
 * be left out: for x [B, L, D], [D] is for all, [B, D] or [B, 1, D] for each sample, [B, L, D] for
 * each token. With `group` given they are [G, D], and group [B, L] (i32) names the row of each token:
 * for the two timesteps of Wan 2.2 TI2V, 0 for the tokens of the first frame and 1 for the others. */
#ifndef ZOETROPE_OP_LAYER_NORM_H
#define ZOETROPE_OP_LAYER_NORM_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Layer normalisation over the last `axes` axes, with D elements in all:
 *
 *   n = (x - mean) rstd;  y = n gamma + beta
 *
 * For y in f32, n is rounded once; for half types, x less the mean rounded to f32 is rounded before.
 *
 * y            [..., D]  may be x if of the same type
 * mean, rstd   [...]     f32: mean and 1 / sqrt(variance + eps) of each row, or none
 * x            [..., D]  rank 1 to 5; the normalised axes are dense
 * gamma, beta            the last `axes` extents of x, or none for 1 and 0
 * axes                   how many of the last axes are normalised; 0 means 1
 * The variance is the population's. Source: Ba, Kiros and Hinton 2016, arXiv 1607.06450. */
typedef struct zoe_layer_norm_args {
    zoe_tensor y, mean, rstd;
    zoe_tensor x, gamma, beta;
    float eps;
    int axes;
} zoe_layer_norm_args;

zoe_status zoe_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args);

typedef enum zoe_norm_kind {
    ZOE_NORM_LAYER,
    ZOE_NORM_RMS /* n = x / sqrt(mean(x^2) + eps) */
} zoe_norm_kind;

/* Normalisation over the last axis, then modulation (adaLN):
 *
 *   y = (n gamma + beta) (1 + scale) + shift,  n as above
 *
 * y            [..., D]  may be x if of the same type; or i8, see below
 * y_scale      [...]     f32, with y in i8 only
 * x            [..., D]
 * gamma, beta  [D]       or none for 1 and 0
 * scale, shift           or none for 0; group: or none; see above
 * round_norm             bf16 or f16: n gamma + beta is rounded to it before the modulation, as models
 *                        with activations of that type do (Wan: LayerNorm's type_as)
 * maths                  bf16 or f16: the modulation is evaluated in it, every step rounded (LTX-2 in
 *                        bf16); none or f32: in f32, as Wan does; 1 + scale is never rounded then
 *
 * y in i8: each row as whole numbers between -127 and 127 times its y_scale, max |row| / 127:
 * q = round(row * (127 / max |row|)), ties to even. A row of zeroes has y_scale 0; a row with NaN or an
 * infinity has q = 0 and y_scale NaN or infinite.
 * Source: Peebles and Xie 2022, arXiv 2212.09748; order as in Wan2.2 wan/modules/model.py. */
typedef struct zoe_layer_norm_modulate_args {
    zoe_tensor y, y_scale;
    zoe_tensor x, gamma, beta, scale, shift, group;
    float eps;
    zoe_norm_kind kind;
    zoe_dtype round_norm, maths;
} zoe_layer_norm_modulate_args;

zoe_status zoe_layer_norm_modulate(zoe_context *ctx, const zoe_layer_norm_modulate_args *args);

/* y = x + gate h
 *
 * y      [..., D]  of the type of x; may be x, or h if of the same type
 * x, h   [..., D]
 * gate             or none for 1; group: or none; see above
 * maths            bf16 or f16: gate, product and sum are rounded to it (LTX-2 in bf16); x is of that
 *                  type or f32. None or f32: in f32 */
typedef struct zoe_gated_residual_args {
    zoe_tensor y, x, h, gate, group;
    zoe_dtype maths;
} zoe_gated_residual_args;

zoe_status zoe_gated_residual(zoe_context *ctx, const zoe_gated_residual_args *args);

/* zoe_gated_residual and zoe_layer_norm_modulate of its result, in one walk over the rows, with the
 * same bytes as one after the other: what stands between two sub-layers of a transformer block.
 * norm.x and norm.group are none, residual.y and residual.group take their places; norm.y lies apart
 * from everything else. */
typedef struct zoe_gated_residual_norm_modulate_args {
    zoe_gated_residual_args residual;
    zoe_layer_norm_modulate_args norm;
} zoe_gated_residual_norm_modulate_args;

zoe_status zoe_gated_residual_norm_modulate(zoe_context *ctx,
                                            const zoe_gated_residual_norm_modulate_args *args);

/* Group normalisation, then SiLU if asked:
 *
 *   y = (x - mean) rstd weight[c] + bias[c];  y = y / (1 + exp(-y))
 *
 * y, x          [N, C, ...], or [N, ..., C] with channels_last; rank 2 to 5; y may be x if of the same
 *               type. The axes of a plane (all but N and C) are dense among each other, or with
 *               channels_last evenly spaced
 * mean, rstd    [N, groups]  f32, f16 or bf16: of each group, 1 / sqrt(variance + eps), or none
 * weight, bias  [C]          or none for 1 and 0
 * groups                     divides C; a group is C / groups neighbouring channels
 * eps is above 0. Groups may have any number of elements: sums are f64 over short runs.
 * Source: Wu and He 2018, arXiv 1803.08494. */
typedef struct zoe_group_norm_args {
    zoe_tensor y, mean, rstd;
    zoe_tensor x, weight, bias;
    size_t groups;
    float eps;
    bool silu, channels_last;
} zoe_group_norm_args;

size_t zoe_group_norm_silu_workspace(const zoe_context *ctx, const zoe_group_norm_args *args);
zoe_status zoe_group_norm_silu(zoe_context *ctx, const zoe_group_norm_args *args,
                               zoe_workspace work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
