/* Room 6, device: how an operator's work is cut into pieces and who runs them. A back end is one
 * struct of functions, one for each operator, on arguments that the op room has checked: shapes
 * fit, types are allowed, the workspace is large enough, nothing is empty (M, N, L > 0). A device
 * function can only be cancelled. */
#ifndef ZOE_DEVICE_H
#define ZOE_DEVICE_H

#include "base/base.h"
#include "zoetrope/op.h"

/* Attention whatever its operator, with axes in one order: o [B, N, Lq, Dv], lse [B, N, Lq], q [B, N,
 * Lq, D], k [B, heads of keys, Lk, D], v [B, heads of keys, Lk, Dv]; N is a multiple of the heads of
 * keys. Every stride is the view's own; the last axis is dense, save that of lse. */
typedef struct zoe_attention_form {
    zoe_tensor o, lse, q, k, v; /* lse f32 or none */
    zoe_tensor bias;            /* f32 [N, Lq + Lk - 1] or none, as zoe_attention_args says */
    /* One byte an element, not 0 hides; [B, Lq, Lk], stride 0 where one serves all; or none. */
    zoe_tensor mask;
    /* How many queries and keys sequence b has: element b * step of them; NULL: every one. If
     * cumulative, sequences lie end to end in what B counts as 1, and these are their ends. */
    const int64_t *q_lengths, *k_lengths;
    size_t q_step, k_step; /* 1, or 0 where one serves all */
    bool cumulative;
    size_t sequences; /* B, or how many ends there are */
    /* Query i sees key j if i - j <= before and j - i <= after; with `from_end`, i counts from where
     * the last query meets the last key. Each within +-ZOE_ATTENTION_FAR. */
    int64_t before, after;
    bool from_end;
    float scale, invalid; /* invalid: lse of a query that sees no key */
    size_t last_count;    /* as zoe_attention_args says, as the next one */
    bool round_scores;    /* without mask, lengths and band */
} zoe_attention_form;
#define ZOE_ATTENTION_FAR ((int64_t)1 << 60)

/* Gradients of a norm, whatever its operator: with v = (x - mean) rstd, or without the mean, those of
 * y = (v gamma + beta) (1 + scale) + shift, as zoe_layer_norm_modulate_backward says. Rows have D
 * elements, which the last `axes` axes hold; groups of rows / groups neighbours share a scale. */
typedef struct zoe_norm_backward_form {
    zoe_tensor dx, dy, x;
    zoe_tensor scale;                         /* [groups, D] or none */
    zoe_tensor gamma, beta;                   /* D elements, dense, or none */
    zoe_tensor dscale, dshift, dgamma, dbeta; /* like these, or none */
    size_t rows, D, groups;
    int axes;
    float eps;
    bool centred;  /* with the mean */
    bool one_plus; /* 1 + gamma instead of gamma; without scale */
} zoe_norm_backward_form;

typedef struct zoe_device {
    const char *name;
    /* n parts of one x, none empty; w is one matrix. */
    size_t (*linear_workspace)(const zoe_context *ctx, const zoe_linear_args *parts, size_t n);
    zoe_status (*linear)(zoe_context *ctx, const zoe_linear_args *parts, size_t n,
                         zoe_workspace work);
    /* The same behind a norm; x of each part has the shape and the type of the norm's result, and no
     * data of its own. */
    size_t (*rms_norm_linear_workspace)(const zoe_context *ctx,
                                        const zoe_rms_norm_linear_args *args);
    zoe_status (*rms_norm_linear)(zoe_context *ctx, const zoe_rms_norm_linear_args *args,
                                  zoe_workspace work);
    size_t (*layer_norm_linear_workspace)(const zoe_context *ctx,
                                          const zoe_layer_norm_linear_args *args);
    zoe_status (*layer_norm_linear)(zoe_context *ctx, const zoe_layer_norm_linear_args *args,
                                    zoe_workspace work);
    /* axes is at least 1. */
    zoe_status (*layer_norm)(zoe_context *ctx, const zoe_layer_norm_args *args);
    zoe_status (*layer_norm_modulate)(zoe_context *ctx, const zoe_layer_norm_modulate_args *args);
    zoe_status (*gated_residual)(zoe_context *ctx, const zoe_gated_residual_args *args);
    zoe_status (*gated_residual_norm_modulate)(zoe_context *ctx,
                                               const zoe_gated_residual_norm_modulate_args *args);
    size_t (*group_norm_workspace)(const zoe_context *ctx, const zoe_group_norm_args *args);
    zoe_status (*group_norm)(zoe_context *ctx, const zoe_group_norm_args *args, zoe_workspace work);
    zoe_status (*rms_norm)(zoe_context *ctx, const zoe_rms_norm_args *args);
    zoe_status (*add_rms_norm)(zoe_context *ctx, const zoe_add_rms_norm_args *args);
    zoe_status (*rms_norm_quant)(zoe_context *ctx, const zoe_rms_norm_quant_args *args);
    zoe_status (*rms_norm_dynamic_quant)(zoe_context *ctx,
                                         const zoe_rms_norm_dynamic_quant_args *args);
    zoe_status (*qk_norm_rope)(zoe_context *ctx, const zoe_qk_norm_rope_args *args);
    zoe_status (*l2_norm)(zoe_context *ctx, const zoe_l2_norm_args *args);
    size_t (*norm_backward_workspace)(const zoe_context *ctx, const zoe_norm_backward_form *form);
    zoe_status (*norm_backward)(zoe_context *ctx, const zoe_norm_backward_form *form,
                                zoe_workspace work);
    zoe_status (*rotary_mul)(zoe_context *ctx, const zoe_rotary_mul_args *args);
    zoe_status (*rotary_table)(zoe_context *ctx, const zoe_rotary_table_args *args);
    size_t (*attention_workspace)(const zoe_context *ctx, const zoe_attention_form *form);
    zoe_status (*attention)(zoe_context *ctx, const zoe_attention_form *form, zoe_workspace work);
    zoe_status (*attention_merge)(zoe_context *ctx, const zoe_attention_merge_args *args);
    zoe_status (*attention_update)(zoe_context *ctx, const zoe_attention_update_args *args);
    zoe_status (*activate)(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation);
    zoe_status (*glu)(zoe_context *ctx, const zoe_glu_args *args);
    zoe_status (*softmax)(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
    zoe_status (*add)(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);
    zoe_status (*cast)(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
    /* extents: Cout, Cin, kt, kh, kw, none 0; SIZE_MAX if the form cannot be addressed, and then
     * _new is not called. */
    size_t (*conv_weights_bytes)(const size_t extents[5]);
    zoe_status (*conv_weights_new)(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                   const size_t extents[5], zoe_tensor bias);
    void (*conv_weights_free)(zoe_conv_weights *packed);
    /* The way that these arguments are computed: of ZOE_CONV_WINOGRAD asked for, another if it
     * cannot be. */
    zoe_conv_method (*conv3d_method)(const zoe_conv3d_args *args);
    size_t (*conv3d_workspace)(const zoe_context *ctx, const zoe_conv3d_args *args);
    zoe_status (*conv3d)(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);
    size_t (*dynamic_quant_workspace)(const zoe_context *ctx, const zoe_dynamic_quant_args *args);
    zoe_status (*dynamic_quant)(zoe_context *ctx, const zoe_dynamic_quant_args *args,
                                zoe_workspace work);
    /* N, K > 0; SIZE_MAX if the form cannot be addressed, and then _new is not called. */
    size_t (*int8_weights_bytes)(size_t N, size_t K, size_t group);
    zoe_status (*int8_weights_new)(zoe_context *ctx, zoe_int8_weights **packed, zoe_tensor w,
                                   size_t group);
    void (*int8_weights_free)(zoe_int8_weights *packed);
    size_t (*linear_int8_workspace)(const zoe_context *ctx, size_t M, size_t N, size_t K,
                                    zoe_dtype x, size_t group);
    zoe_status (*linear_int8)(zoe_context *ctx, const zoe_linear_int8_args *args,
                              zoe_workspace work);
} zoe_device;

/* What the op room knows of packed convolution weights; each device keeps its own form behind it.
 */
struct zoe_conv_weights {
    const zoe_device *device;
    size_t Cout, Cin, kt, kh, kw;
    bool empty; /* extents alone, for plans */
};

/* The same of packed int8 weights. */
struct zoe_int8_weights {
    const zoe_device *device;
    size_t N, K, group; /* group 0: none */
};

/* The device on which the tensors of this context lie. */
const zoe_device *zoe_device_of(const zoe_context *ctx);

extern const zoe_device zoe_device_cpu;

#endif
