/* Products: linear layers. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_LINEAR_H
#define ZOETROPE_OP_LINEAR_H

#include "zoetrope/op/layer_norm.h"
#include "zoetrope/op/rms_norm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

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
 * y         [..., M, N]  f32, f16 or bf16
 * x         [..., M, K]  f32, f16 or bf16; up to 5 axes
 * w         [N, K]  f32, f16, bf16, f8_e4m3, f8_e5m2 or a block type, with or without factors
 *                   (zoe_scaling); used from this form, never expanded whole
 *           [..., N, K]  with the axes of x before its last two: a matrix for each of x; no factors
 * bias      [N]     f32 or none
 * gate      [N]     f32 or none
 *           [G, N]  one for each of G groups of equally many rows of x, such as samples or frames,
 *                   counted over all of its axes but the last; if w has several matrices, G divides
 *                   their number or the other way round
 * residual  [..., M, N]  f32, f16 or bf16, or none; may be y
 * terms     n_terms of them: x f32, f16 or bf16, w of any type that w [N, K] may have; x may be the x
 *           of the layer; only where x is [M, K]
 *
 * With x in bf16: w and bias rounded to bf16; x w^T + terms + bias rounded to bf16; the activation's result
 * rounded to bf16; gate and residual in f32. round_weights: w is rounded to bf16 although x is not
 * bf16. With x in f16 nothing is rounded but y.
 * Factors multiply the widened w in f32; where w is rounded to bf16, so are they before that.
 * An element is summed in f32 over slices of 256 of K, each with fused operations over ascending k, and
 * over these in ascending order; so a row of y has the same bytes whatever the other rows and M are.
 * y shares memory with no operand but the residual (the very same view); x and y may be different
 * columns of one buffer. */
typedef struct zoe_linear_args {
    zoe_tensor y, x, w, bias, gate, residual;
    zoe_activation activation;
    bool round_weights;
    const zoe_linear_term *terms;
    size_t n_terms;
} zoe_linear_args;

size_t zoe_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args);
zoe_status zoe_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work);

/* Several linear layers of one x as one product, such as q, k and v: the bytes of zoe_linear for each
 * part alone, with more work to share among the threads and less reading of x. All parts have the same
 * x; everything else is each part's own. No y shares memory with an operand of any part but its own
 * residual. A workspace for these parts serves each of them alone. */
#define ZOE_LINEAR_PARTS 8 /* at most */
size_t zoe_linear_parts_workspace(const zoe_context *ctx, const zoe_linear_args *parts, size_t n);
zoe_status zoe_linear_parts(zoe_context *ctx, const zoe_linear_args *parts, size_t n,
                            zoe_workspace work);

/* zoe_rms_norm or zoe_layer_norm_modulate, and zoe_linear_parts of its result, which is nowhere stored:
 * rows are normalised where the product copies its x anyway. The bytes of both operators in turn.
 *
 * norm     as that operator has it; y, rstd and y_scale are none; gamma [D] or none
 * type     that y would have: f32, f16 or bf16
 * parts    1 to ZOE_LINEAR_PARTS: x is none, w is [N, K] with K = D; outputs lie apart from norm.x and
 *          from its vectors as well, so a residual that is norm.x cannot be y
 * What it spares is one writing and one reading of the normalised rows. Each block of columns of y
 * normalises its rows again, from statistics that are computed once. */
typedef struct zoe_rms_norm_linear_args {
    zoe_rms_norm_args norm;
    zoe_dtype type;
    const zoe_linear_args *parts;
    size_t n_parts;
} zoe_rms_norm_linear_args;

size_t zoe_rms_norm_linear_workspace(const zoe_context *ctx, const zoe_rms_norm_linear_args *args);
zoe_status zoe_rms_norm_linear(zoe_context *ctx, const zoe_rms_norm_linear_args *args,
                               zoe_workspace work);

typedef struct zoe_layer_norm_linear_args {
    zoe_layer_norm_modulate_args norm;
    zoe_dtype type;
    const zoe_linear_args *parts;
    size_t n_parts;
} zoe_layer_norm_linear_args;

size_t zoe_layer_norm_linear_workspace(const zoe_context *ctx,
                                       const zoe_layer_norm_linear_args *args);
zoe_status zoe_layer_norm_linear(zoe_context *ctx, const zoe_layer_norm_linear_args *args,
                                 zoe_workspace work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
