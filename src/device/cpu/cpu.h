/* The operators of the cpu back end, for its table in cpu.c; contracts as in device.h. */
#ifndef ZOE_CPU_H
#define ZOE_CPU_H

#include "device/device.h"

size_t zoe_cpu_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args);
zoe_status zoe_cpu_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work);
zoe_status zoe_cpu_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args);
zoe_status zoe_cpu_rms_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                            float eps, zoe_tensor cos, zoe_tensor sin);
zoe_status zoe_cpu_l2_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                           bool silu);
size_t zoe_cpu_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args);
zoe_status zoe_cpu_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work);
zoe_status zoe_cpu_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x,
                            zoe_activation activation);
zoe_status zoe_cpu_geglu(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up);
zoe_status zoe_cpu_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);
zoe_status zoe_cpu_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
size_t zoe_cpu_conv_weights_bytes(const size_t extents[5]);
zoe_status zoe_cpu_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                    const size_t extents[5], zoe_tensor bias);
void zoe_cpu_conv_weights_free(zoe_conv_weights *packed);
size_t zoe_cpu_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

#endif
