/* Normalisations. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_NORM_H
#define ZOETROPE_OP_NORM_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Layer normalisation over the last axis, with affine weights and modulation:
 *
 *   n = (x - mean(x)) / sqrt(var(x) + eps);  y = (n * gamma + beta) * (1 + scale) + shift
 *
 * y            [M, D]  f32 or bf16; may be x if of the same type
 * x            [M, D]  f32 or bf16 (widened exactly; statistics are f32 at least)
 * gamma, beta  [D]     f32 or none (both or neither)
 * scale, shift [D]     f32 or none (both or neither)
 * round_norm: n * gamma + beta is rounded to bf16 before the modulation. Biased variance. */
typedef struct zoe_layer_norm_args {
    zoe_tensor y, x, gamma, beta, scale, shift;
    float eps;
    bool round_norm;
} zoe_layer_norm_args;

zoe_status zoe_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args);

/* Root-mean-square normalisation over the last axis:  y = x / sqrt(mean(x^2) + eps) * gamma
 *
 * y      [M, D]  f32 or bf16; may be x if of the same type
 * x      [M, D]  f32 or bf16
 * gamma  [D]     f32 or none
 * With x in bf16 the normalised value is rounded to bf16 before gamma, gamma is rounded to bf16.
 * The mean square is kept in double, so that no finite row overflows.
 * Source: Zhang and Sennrich 2019, arXiv 1910.07467. */
zoe_status zoe_rms_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma, float eps);

/* zoe_rms_norm over whole rows, then rotary position embedding of each head, in one pass:
 * pair (2j, 2j+1) of every head of row m is rotated by the angle whose cosine and sine are cos[m,
 * j], sin[m, j].
 *
 * y         [M, D]    f32 or bf16; may be x if of the same type
 * x         [M, D]    f32 or bf16, D = heads * head width, head width even
 * gamma     [D]       f32
 * cos, sin  [M, head width / 2]  f32
 * With x in bf16 the value is rounded to bf16 after the normalisation, after gamma, and after the
 * rotation. */
zoe_status zoe_rms_norm_rope(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                             float eps, zoe_tensor cos, zoe_tensor sin);

/* Normalisation of the Wan VAE over channels, optionally followed by SiLU:
 *   y = x / max(|x|_2, 1e-12) * sqrt(C) * gamma
 * y, x  [M, C] f32, may be the same; gamma [C] f32. */
zoe_status zoe_l2_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma, bool silu);

#ifdef __cplusplus
}
#endif
#endif
