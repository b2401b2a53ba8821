/* Gradients of norms and rotations, for training and fine-tuning. The rules that hold for every operator are in
 * zoetrope/op.h.
 *
 * With dy the gradient of a loss by an operator's output, these give those by its inputs. Values are widened to
 * f32; sums along a row are kept in f64, sums over rows in f32 over up to 32 neighbouring rows and then in f64,
 * in an order that depends on shapes alone. Roundings that an operator does in between count as the identity.
 * What is none is not computed. Inputs may be f32, f16 or bf16, each as it likes. Rows of up to 2^24 elements. */
#ifndef ZOETROPE_OP_BACKWARD_H
#define ZOETROPE_OP_BACKWARD_H

#include "zoetrope/op/layer_norm.h"
#include "zoetrope/op/rms_norm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Of zoe_rms_norm. With s = 1 / sqrt(mean(x^2) + eps), w = gamma (or 1 + gamma, or 1), v = x s:
 *
 *   dx = s (dy w - v mean(dy w v));  dgamma = sum over rows of dy v
 *
 * dx      [..., D]  f32, f16 or bf16; may be dy or x if of the same type
 * dgamma  as gamma  f32, f16 or bf16; or none
 * dy, x   [..., D]
 * gamma   the last k axes of x, dense in dx, dy and x, or none
 * order   not ZOE_RMS_PIXELNORM
 * Source: the derivative of the formula of zoe_rms_norm. */
typedef struct zoe_rms_norm_backward_args {
    zoe_tensor dx, dgamma;
    zoe_tensor dy, x, gamma;
    float eps;
    zoe_rms_order order;
} zoe_rms_norm_backward_args;

size_t zoe_rms_norm_backward_workspace(const zoe_context *ctx,
                                       const zoe_rms_norm_backward_args *args);
zoe_status zoe_rms_norm_backward(zoe_context *ctx, const zoe_rms_norm_backward_args *args,
                                 zoe_workspace work);

/* Of zoe_layer_norm_modulate (and of zoe_layer_norm over one axis, without scale). With v = (x - mean) rstd
 * or, for ZOE_NORM_RMS, x / sqrt(mean(x^2) + eps), and w = gamma (1 + scale):
 *
 *   dx = rstd (dy w - mean(dy w) - v mean(dy w v)), for ZOE_NORM_RMS without mean(dy w)
 *   dshift = sum dy;  dscale = sum dy (v gamma + beta)     over the rows of a group
 *   dgamma = sum dy (1 + scale) v;  dbeta = sum dy (1 + scale)      over all rows
 *
 * dx              [..., D]  f32, f16 or bf16; may be dy or x if of the same type
 * dscale, dshift  [G, D]    f32, f16 or bf16; or none
 * dgamma, dbeta   [D]       the same
 * dy, x           [..., D]  R rows in all
 * scale           [G, D]    or none. G groups of R / G neighbouring rows have a scale each: 1 for all,
 *                           the number of samples, or R
 * gamma, beta     [D]       or none for 1 and 0 */
typedef struct zoe_layer_norm_modulate_backward_args {
    zoe_tensor dx, dscale, dshift, dgamma, dbeta;
    zoe_tensor dy, x, scale, gamma, beta;
    float eps;
    zoe_norm_kind kind;
} zoe_layer_norm_modulate_backward_args;

size_t
zoe_layer_norm_modulate_backward_workspace(const zoe_context *ctx,
                                           const zoe_layer_norm_modulate_backward_args *args);
zoe_status zoe_layer_norm_modulate_backward(zoe_context *ctx,
                                            const zoe_layer_norm_modulate_backward_args *args,
                                            zoe_workspace work);

/* Of zoe_rotary_mul by x, with args as there: args->x is dy and args->y gets dx. It is the rotation back:
 *
 *   dx[first] = a cos[first] + b sin[second];  dx[second] = b cos[second] - a sin[first]
 *
 * with a, b the pair of dy. There are no gradients by cos and sin. */
size_t zoe_rotary_mul_backward_workspace(const zoe_context *ctx, const zoe_rotary_mul_args *args);
zoe_status zoe_rotary_mul_backward(zoe_context *ctx, const zoe_rotary_mul_args *args,
                                   zoe_workspace work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
