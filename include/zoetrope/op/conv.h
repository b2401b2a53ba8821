/* Convolutions. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_CONV_H
#define ZOETROPE_OP_CONV_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Convolution weights in the form that zoe_conv3d wants, made once. */
typedef struct zoe_conv_weights zoe_conv_weights;

/* Packs w [Cout, Cin, kt, kh, kw] (f32, f16 or bf16, dense) and bias [Cout] (any float type, or
 * none). A w of rank 4, [Cout, Cin, kh, kw], means kt = 1. */
zoe_status zoe_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                zoe_tensor bias);
void zoe_conv_weights_free(zoe_conv_weights *packed);
/* Bytes that the packed form of such a weight takes, for plans. */
size_t zoe_conv_weights_bytes(zoe_tensor w);

/* Convolution over time, rows and columns, channels last, f32, without a column buffer:
 *
 *   y[t, i, j, :] = bias + sum over taps (a, p, q) of
 *                   W[:, :, a, p, q] input[st t + a - front, sh i + p - top, sw j + q - left, :]
 *
 * y         [T', H', W', Cout]
 * x         [T, H, W, Cin]
 * past      [P, H, W, Cin] or none: frames before x, in order; together with x they are one
 *           timeline. P <= kt - 1
 * residual  like y, or none: added to the result; may be y
 * pad_front zero frames before the timeline (past, x); nothing behind
 * pad_top, pad_bottom, pad_left, pad_right
 *           zero rows and columns around each frame
 * upsample  each frame is first enlarged to 2H x 2W by repeating pixels (nearest), without storing
 *           that
 * T' = (P + T + pad_front - kt) / st + 1, rounded down; rows and columns alike.
 *
 * Large 3x3 planes are computed by Winograd's F(2x2, 3x3): there a NaN or inf may reach one pixel
 * further than the kernel does, and inf may become NaN. The choice does not depend on T or P, so
 * chunks with their past give the bytes of the whole clip. zoe_conv3d_workspace wants every shape
 * filled in, y's too; data may be NULL. */
typedef struct zoe_conv3d_args {
    zoe_tensor y, x, past, residual;
    const zoe_conv_weights *weights;
    size_t pad_front, pad_top, pad_bottom, pad_left, pad_right;
    size_t stride_t, stride_h, stride_w; /* at least 1 */
    bool upsample;
} zoe_conv3d_args;

size_t zoe_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

#ifdef __cplusplus
}
#endif
#endif
