/* Normalisation by the root of a mean square, and what is done with it in one pass over memory:
 * residual sums, int8 quantisation, rotary embedding. The rules that hold for every operator are in
 * zoetrope/op.h.
 *
 * For all of them: x is of rank 1 to 5 with a dense last axis and any positive strides before it; x,
 * y, gamma and beta are each f32, f16 or bf16. Statistics are sums of squares in f32 lanes of at most
 * 8 terms, then in double; where f32 would overflow or lose digits, in double from the start. rstd is
 * computed from the mean and eps in double and rounded once; a mean that f32 cannot hold counts as what f32
 * makes of it, so that a row of 3e38 gives 0 and one of 1e-30 with eps 0 gives inf, as with f32
 * statistics. A row's result depends on that row alone. */
#ifndef ZOETROPE_OP_RMS_NORM_H
#define ZOETROPE_OP_RMS_NORM_H

#include "zoetrope/op/rotary.h"
#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* When roundings happen. Tx is the type of x, Tg that of gamma, s = 1 / sqrt(mean(x^2) + eps) in
 * f32; y is rounded to its own type at the end of each. For x in f32 the first two are the same. */
typedef enum zoe_rms_order {
    /* x s gamma. torch.nn.RMSNorm, npu_rms_norm, LTX-2 */
    ZOE_RMS_MUL_F32,
    /* x s rounded to Tx, times gamma; if gamma has that type, the product is rounded to it too. Wan's
     * query and key norms, Llama, Qwen */
    ZOE_RMS_CAST_THEN_MUL,
    /* x s (1 + gamma). Gemma */
    ZOE_RMS_ONE_PLUS_GAMMA,
    /* x s rounded to Tg if that is f16 or bf16, then times gamma in Tg. T5 */
    ZOE_RMS_T5,
    /* Step by step in Tx: squares, their mean, the sum with eps, the root r and x / r are each rounded
     * to Tx. gamma is none. The VAE of LTX-2 (PixelNorm) */
    ZOE_RMS_PIXELNORM
} zoe_rms_order;

/* y = x / sqrt(mean(x^2) + eps) * gamma
 *
 * y      as x     may be x if of the same type
 * rstd   [...]    f32, s of every row, or none; not with ZOE_RMS_PIXELNORM
 * x      [..., D]
 * gamma  the last k axes of x, over which the mean then goes (D is their product, and they must be
 *        dense in x and y), or none: the last axis
 * round_gamma: gamma is first rounded to the type of x, and counts as being of that type: what a model
 * converted to that type has.
 * Source: Zhang and Sennrich 2019, arXiv 1910.07467. */
typedef struct zoe_rms_norm_args {
    zoe_tensor y, rstd, x, gamma;
    float eps;
    zoe_rms_order order;
    bool round_gamma;
} zoe_rms_norm_args;

zoe_status zoe_rms_norm(zoe_context *ctx, const zoe_rms_norm_args *args);

/* sum = x + residual, and y as zoe_rms_norm has it of that sum.
 *
 * y, sum       as x     y may be x or residual, sum may be the other one
 * rstd         [...]    f32 or none
 * x, residual  [..., D] of one type, and sum of that type too
 * gamma        [D]      or none
 * unrounded: y and its statistic come from the sum before it is rounded to the type of x. Otherwise from
 * the rounded one, as an addition followed by a norm would have it. Not with ZOE_RMS_PIXELNORM. */
typedef struct zoe_add_rms_norm_args {
    zoe_tensor y, sum, rstd, x, residual, gamma;
    float eps;
    zoe_rms_order order;
    bool round_gamma, unrounded;
} zoe_add_rms_norm_args;

zoe_status zoe_add_rms_norm(zoe_context *ctx, const zoe_add_rms_norm_args *args);

/* v = x s gamma + beta in f32;  y = v / scale + offset, rounded to nearest even and kept within
 * -128 .. 127; NaN becomes 0. With a residual, of the unrounded sum of both.
 *
 * y              [..., D] i8
 * sum            [..., D] of the type of x, the rounded sum, or none; may be x or residual
 * rstd           [...]    f32 or none
 * x              [..., D]
 * residual       [..., D] of the type of x, or none
 * gamma, beta    [D]      or none
 * scale          [D] or [1] f32, f16 or bf16, not 0
 * offset         [D] or [1] f32, f16, bf16, i8 or i32, or none; of the length of scale
 * multiply: v * scale instead of v / scale. Each step rounds to f32. */
typedef struct zoe_rms_norm_quant_args {
    zoe_tensor y, sum, rstd, x, residual, gamma, beta, scale, offset;
    float eps;
    bool multiply;
} zoe_rms_norm_quant_args;

zoe_status zoe_rms_norm_quant(zoe_context *ctx, const zoe_rms_norm_quant_args *args);

/* w = (x s gamma + beta) * smooth in f32;  scale = max |w| / 127 of each row;  y = w * (127 / max |w|),
 * rounded to nearest even; so w is about y * scale. A row of zeroes has scale 0 and y 0; one with an
 * inf or NaN in w has that as its scale, and y 0. With a residual, of the unrounded sum of both.
 *
 * y                    [..., D] i8, -127 .. 127
 * scale                [...]    f32
 * sum                  [..., D] of the type of x, the rounded sum, or none; may be x or residual
 * x                    [..., D]
 * residual             [..., D] of the type of x, or none
 * gamma, smooth, beta  [D]      or none */
typedef struct zoe_rms_norm_dynamic_quant_args {
    zoe_tensor y, scale, sum, x, residual, gamma, smooth, beta;
    float eps;
} zoe_rms_norm_dynamic_quant_args;

zoe_status zoe_rms_norm_dynamic_quant(zoe_context *ctx,
                                      const zoe_rms_norm_dynamic_quant_args *args);

/* zoe_rms_norm of whole rows of q and of k, then the rotary embedding of each of their heads, reading
 * and writing memory once.
 *
 * y         as x            may be x if of the same type
 * x         [..., N * D]    N heads of width D, which q and k need not have alike
 * gamma     [N * D]         or none
 * cos, sin  [..., D / 2]    f32, one entry a pair; axes before the last one are those of x, or 1, D up
 *                           to 4096
 * k.x may be none: then q alone. order: ZOE_RMS_MUL_F32, or ZOE_RMS_CAST_THEN_MUL, where the rotation
 * begins from values rounded to the type of x. pairing: ZOE_ROTARY_HALF or ZOE_ROTARY_INTERLEAVE. */
typedef struct zoe_norm_rope_rows {
    zoe_tensor y, x, gamma;
} zoe_norm_rope_rows;

typedef struct zoe_qk_norm_rope_args {
    zoe_norm_rope_rows q, k;
    zoe_tensor cos, sin;
    float eps;
    zoe_rms_order order;
    bool round_gamma;
    zoe_rotary_pairing pairing;
} zoe_qk_norm_rope_args;

zoe_status zoe_qk_norm_rope(zoe_context *ctx, const zoe_qk_norm_rope_args *args);

/* Normalisation of the Wan VAE over channels:
 *
 *   y = x / max(|x|_2, clamp) * sqrt(C) * gamma + bias, then silu if asked
 *
 * y, x         [..., C]  y may be x if of the same type
 * gamma, bias  [C]       or none
 * With x in f16 or bf16 the norm, and the value after each step up to the bias, are rounded to that
 * type; silu is computed in f32 and rounded at the end. clamp 0 means 1e-12. It acts in f32, so that a
 * row of zeroes gives 0. strict_torch: it is rounded to the type of x first, which makes it 0 for f16,
 * and a row of zeroes NaN, as the official code has it.
 * Source: Wan2.2 wan/modules/vae2_1.py, class RMS_norm. */
typedef struct zoe_l2_norm_args {
    zoe_tensor y, x, gamma, bias;
    float clamp;
    bool silu, strict_torch;
} zoe_l2_norm_args;

zoe_status zoe_l2_norm(zoe_context *ctx, const zoe_l2_norm_args *args);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
