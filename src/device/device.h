/* Room 6, device: how an operator's work is cut into pieces and who runs them. A back end is one
 * struct of functions, one for each operator, on arguments that the op room has checked: shapes
 * fit, types are allowed, the workspace is large enough, nothing is empty (M, N, L > 0). A device
 * function can only be cancelled. */
#ifndef ZOE_DEVICE_H
#define ZOE_DEVICE_H

#include "base/base.h"
#include "zoetrope/op.h"

typedef struct zoe_device {
    const char *name;
    size_t (*linear_workspace)(const zoe_context *ctx, const zoe_linear_args *args);
    zoe_status (*linear)(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work);
    zoe_status (*layer_norm)(zoe_context *ctx, const zoe_layer_norm_args *args);
    /* cos and sin none: without rotation. */
    zoe_status (*rms_norm)(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                           float eps, zoe_tensor cos, zoe_tensor sin);
    zoe_status (*l2_norm)(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                          bool silu);
    size_t (*attention_workspace)(const zoe_context *ctx, const zoe_attention_args *args);
    zoe_status (*attention)(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work);
    zoe_status (*activate)(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation);
    zoe_status (*geglu)(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up);
    zoe_status (*add)(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);
    zoe_status (*cast)(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
    /* extents: Cout, Cin, kt, kh, kw, none 0; SIZE_MAX if the form cannot be addressed, and then
     * _new is not called. */
    size_t (*conv_weights_bytes)(const size_t extents[5]);
    zoe_status (*conv_weights_new)(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                   const size_t extents[5], zoe_tensor bias);
    void (*conv_weights_free)(zoe_conv_weights *packed);
    size_t (*conv3d_workspace)(const zoe_context *ctx, const zoe_conv3d_args *args);
    zoe_status (*conv3d)(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);
} zoe_device;

/* What the op room knows of packed convolution weights; each device keeps its own form behind it.
 */
struct zoe_conv_weights {
    const zoe_device *device;
    size_t Cout, Cin, kt, kh, kw;
};

/* The device on which the tensors of this context lie. */
const zoe_device *zoe_device_of(const zoe_context *ctx);

extern const zoe_device zoe_device_cpu;

#endif
