/* Operators on tensor views. Usable without the rest of the engine.
 *
 * Every operator checks its arguments (shapes, types, strides, workspace) and then runs on the
 * threads of the context. Outputs come first. Results have the same bytes for any number of
 * threads. NaN and inf propagate.
 *
 * Types. x in f32: everything is computed in f32 from widened weights. x in bf16: the operands
 * (weights and bias too) are rounded to bf16, sums are kept in f32, and each named intermediate is
 * rounded to bf16 once, as PyTorch does with bf16 tensors; see docs/NUMERICS.md. Outputs are
 * rounded to their own type at the end.
 *
 * Unless said otherwise the last axis is dense and other axes may have any positive stride.
 * Errors of all: ZOE_INVALID (shape, type, stride, overlap), ZOE_NOMEM (workspace too small),
 * ZOE_CANCELLED. */
#ifndef ZOETROPE_OP_H
#define ZOETROPE_OP_H

#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory of one call, 64-byte aligned. Ask the operator's _workspace function for the
 * bytes; they depend on shapes and on the number of threads. */
typedef struct zoe_workspace {
    void *data;
    size_t bytes;
} zoe_workspace;

typedef enum zoe_activation {
    ZOE_ACT_NONE,
    ZOE_ACT_SILU,      /* v * sigmoid(v) */
    ZOE_ACT_GELU_TANH, /* 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))) */
    ZOE_ACT_GELU_ERF   /* 0.5 v (1 + erf(v / sqrt 2)) */
} zoe_activation;

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

/* Scaled dot-product attention, without an Lq x Lk buffer:  o = softmax(scale q k^T + bias) v
 *
 * o     [Lq, N, D]  f32 or bf16
 * q     [Lq, N, D]  f32 or bf16          (N heads)
 * k, v  [Lk, N, D]  type of q, Lk >= 1
 * bias  [N, Lq + Lk - 1]  f32 or none: bias[n, key - query + Lq - 1] is added to the score, which
 *       so depends on the distance of key and query only
 * last_count    how many identical keys the last row of k and v stands for (1: just itself); adds
 *               ln(last_count) to its score
 * round_scores  scores, scores plus bias, and probabilities are each rounded to bf16, as PyTorch
 *               does for T5 in bf16; then a buffer of one score row per query may be used
 * Source: Dao 2023, arXiv 2307.08691. */
typedef struct zoe_attention_args {
    zoe_tensor o, q, k, v, bias;
    float scale;
    size_t last_count;
    bool round_scores;
} zoe_attention_args;

size_t zoe_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args);
zoe_status zoe_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work);

/* y = activation(x), any dense shape; y f32 or bf16, x f32 or bf16; may be the same memory if of
 * the same type. */
zoe_status zoe_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation);

/* y = gelu_tanh(gate) * up, all [M, D] and of one type, f32 or bf16; y may be gate or up. In bf16
 * every elementary step of gelu (cube, times 0.044715, plus, times sqrt(2/pi), tanh, plus 1, times
 * half gate) is rounded, as the umT5 code does. */
zoe_status zoe_geglu(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up);

/* y = a + b, any dense shape, all of one type, f32 or bf16; y may be a or b. */
zoe_status zoe_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);

/* Normalisation of the Wan VAE over channels, optionally followed by SiLU:
 *   y = x / max(|x|_2, 1e-12) * sqrt(C) * gamma
 * y, x  [M, C] f32, may be the same; gamma [C] f32. */
zoe_status zoe_l2_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma, bool silu);

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

/* A copy with change of type: dense, same count, f32/f16/bf16/f8 to f32/f16/bf16. */
zoe_status zoe_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x);

#ifdef __cplusplus
}
#endif
#endif
