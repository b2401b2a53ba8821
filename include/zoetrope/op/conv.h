/* Convolutions. The rules that hold for every operator are in zoetrope/op.h.
 *
 * Pictures and clips are channels last; x, past, residual and y are f32, f16 or bf16, each of its
 * own type (past that of x). Products are summed in f32, the residual is added in f32, and the
 * result is rounded once, to the type of y. There is no column buffer: scratch memory is a few tiles
 * a thread, besides what Winograd's form and enlarging want for weights.
 *
 * How exact: with m the largest |x| that an output's kernel covers and s the sum of |w| of its
 * channel, the direct way stays within 2^-20 m s + 2^-24 |y|, plus the rounding of y (measured on even,
 * noisy and spiked input; at most a sixth of it was seen). Winograd's F(2x2, 3x3) keeps to that if m is taken over the 4 x 4 pixels (and all frames of the
 * kernel) whose 2 x 2 outputs are made together: a large value costs digits one pixel further than
 * the kernel reaches. In the same way a NaN or inf there may reach one pixel further, and inf may
 * become NaN. Otherwise NaN and inf reach just the outputs whose kernel covers them; padding and
 * temporal taps before the timeline count as zeros, also for weights that are not finite (0 inf =
 * NaN in a row or column of padding; frames before the timeline are left out). */
#ifndef ZOETROPE_OP_CONV_H
#define ZOETROPE_OP_CONV_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Convolution weights in the form that the convolutions want, made once. */
typedef struct zoe_conv_weights zoe_conv_weights;

/* Packs w [Cout, Cin, kt, kh, kw] (any float type, blocks and scaled weights too; dense) and bias
 * [Cout] (any float type, or none), to f32. A w of rank 4, [Cout, Cin, kh, kw], means kt = 1. A w
 * without data gives the extents alone, good for the _workspace functions and nothing else.
 * Errors: ZOE_INVALID (types, shapes, strides), ZOE_NOMEM. */
zoe_status zoe_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                zoe_tensor bias);
void zoe_conv_weights_free(zoe_conv_weights *packed);
/* Bytes that the packed form of such a weight takes, for plans; and those of a form, 0 for NULL, which
 * are the same if it has the extents alone. */
size_t zoe_conv_weights_bytes(zoe_tensor w);
size_t zoe_conv_weights_size(const zoe_conv_weights *packed);

/* The way of computing. ZOE_CONV_AUTO chooses by the shapes of y and the weights, and not by T or
 * P: chunks with their past give the bytes of the whole clip. Rows of a frame computed apart have
 * the bytes of the whole frame if the way is the same and, with Winograd, y begins at an even row
 * and column of the whole. */
typedef enum zoe_conv_method { ZOE_CONV_AUTO, ZOE_CONV_DIRECT, ZOE_CONV_WINOGRAD } zoe_conv_method;

/* Convolution over time, rows and columns:
 *
 *   y[t, i, j, :] = bias + sum over taps (a, p, q) of
 *                   W[:, :, a, p, q] input[st t + dt a - front, sh i + dh p - top,
 *                                          sw j + dw q - left, :] + residual[t, i, j, :]
 *
 * y         [T', H', W', Cout]
 * x         [T, H, W, Cin]
 * past      [P, H, W, Cin] or none: frames before x, in order; together with x they are one
 *           timeline. P <= dt (kt - 1)
 * residual  like y, or none: added to the result; may be y
 * pad_front zero frames before the timeline (past, x); nothing behind
 * pad_top, pad_bottom, pad_left, pad_right
 *           zero rows and columns around each frame
 * stride_*  st, sh, sw, at least 1
 * dilation_* dt, dh, dw; 0 means 1
 * upsample  each frame is first enlarged to 2H x 2W by repeating pixels (nearest), without storing
 *           that
 * method    ZOE_CONV_WINOGRAD is refused where it cannot be: it wants 3 x 3 taps in space and at most
 *           3 in time, Cin >= 16 and a multiple of 8, strides and dilations of 1, no enlarging
 * T' = (P + T + pad_front - dt (kt - 1) - 1) / st + 1, rounded down; rows and columns alike.
 *
 * zoe_conv3d_workspace wants every shape filled in, y's too; data may be NULL.
 * Errors: ZOE_INVALID (shapes, types, strides, overlap other than y == residual), ZOE_NOMEM (the
 * workspace is too small), ZOE_CANCELLED.
 * Source: Wan2.1 wan/modules/vae.py (CausalConv3d); Lavin and Gray 2016 (arXiv 1509.09308). */
typedef struct zoe_conv3d_args {
    zoe_tensor y, x, past, residual;
    const zoe_conv_weights *weights;
    size_t pad_front, pad_top, pad_bottom, pad_left, pad_right;
    size_t stride_t, stride_h, stride_w;
    size_t dilation_t, dilation_h, dilation_w;
    bool upsample;
    zoe_conv_method method;
} zoe_conv3d_args;

size_t zoe_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);
/* The way that zoe_conv3d takes for these arguments; data may be NULL. */
zoe_conv_method zoe_conv3d_method(const zoe_conv3d_args *args);

/* zoe_conv3d with the front filled up: as many zero frames before (past, x) as make T' = T frames of
 * T (with a stride st: T / st, rounded up), so that an output never sees what comes after it. x,
 * past and y as there; give the last dt (kt - 1) frames of the chunk before as past, or none at the
 * beginning. */
typedef struct zoe_causal_conv3d_args {
    zoe_tensor y, x, past, residual;
    const zoe_conv_weights *weights;
    size_t pad_top, pad_bottom, pad_left, pad_right;
    size_t stride_t, stride_h, stride_w;
    size_t dilation_t, dilation_h, dilation_w;
    bool upsample;
    zoe_conv_method method;
} zoe_causal_conv3d_args;

size_t zoe_causal_conv3d_workspace(const zoe_context *ctx, const zoe_causal_conv3d_args *args);
zoe_status zoe_causal_conv3d(zoe_context *ctx, const zoe_causal_conv3d_args *args,
                             zoe_workspace work);

/* zoe_conv3d on B single pictures: y [B, H', W', Cout], x [B, H, W, Cin], weights with kt = 1. */
typedef struct zoe_conv2d_args {
    zoe_tensor y, x, residual;
    const zoe_conv_weights *weights;
    size_t pad_top, pad_bottom, pad_left, pad_right;
    size_t stride_h, stride_w;
    size_t dilation_h, dilation_w;
    bool upsample;
    zoe_conv_method method;
} zoe_conv2d_args;

size_t zoe_conv2d_workspace(const zoe_context *ctx, const zoe_conv2d_args *args);
zoe_status zoe_conv2d(zoe_context *ctx, const zoe_conv2d_args *args, zoe_workspace work);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
