/* The operators of the cpu back end, for its table in cpu.c; contracts as in device.h. */
#ifndef ZOE_CPU_H
#define ZOE_CPU_H

#include "device/device.h"

size_t zoe_cpu_linear_workspace(const zoe_context *ctx, const zoe_linear_args *parts, size_t n);
zoe_status zoe_cpu_linear(zoe_context *ctx, const zoe_linear_args *parts, size_t n,
                          zoe_workspace work);
/* Rows that the linear layer fetches from somewhere else than x: writes elements from .. from + n of the
 * rows m .. m + rows - 1 to y, n up to ZOE_FILL_MOST. */
enum { ZOE_FILL_MOST = 256 };
typedef struct zoe_row_source {
    void (*fill)(const void *arg, float *y, size_t y_stride, size_t m, size_t rows, size_t from,
                 size_t n);
    const void *arg;
} zoe_row_source;
/* zoe_cpu_linear of these rows; x of the parts has their shape and type. */
zoe_status zoe_cpu_linear_of(zoe_context *ctx, const zoe_row_source *source,
                             const zoe_linear_args *parts, size_t n, zoe_workspace work);
size_t zoe_cpu_rms_norm_linear_workspace(const zoe_context *ctx,
                                         const zoe_rms_norm_linear_args *args);
zoe_status zoe_cpu_rms_norm_linear(zoe_context *ctx, const zoe_rms_norm_linear_args *args,
                                   zoe_workspace work);
size_t zoe_cpu_layer_norm_linear_workspace(const zoe_context *ctx,
                                           const zoe_layer_norm_linear_args *args);
zoe_status zoe_cpu_layer_norm_linear(zoe_context *ctx, const zoe_layer_norm_linear_args *args,
                                     zoe_workspace work);
zoe_status zoe_cpu_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args);
zoe_status zoe_cpu_layer_norm_modulate(zoe_context *ctx, const zoe_layer_norm_modulate_args *args);
zoe_status zoe_cpu_gated_residual(zoe_context *ctx, const zoe_gated_residual_args *args);
zoe_status zoe_cpu_gated_residual_norm_modulate(zoe_context *ctx,
                                                const zoe_gated_residual_norm_modulate_args *args);
size_t zoe_cpu_group_norm_workspace(const zoe_context *ctx, const zoe_group_norm_args *args);
zoe_status zoe_cpu_group_norm(zoe_context *ctx, const zoe_group_norm_args *args,
                              zoe_workspace work);
zoe_status zoe_cpu_rms_norm(zoe_context *ctx, const zoe_rms_norm_args *args);
zoe_status zoe_cpu_add_rms_norm(zoe_context *ctx, const zoe_add_rms_norm_args *args);
zoe_status zoe_cpu_rms_norm_quant(zoe_context *ctx, const zoe_rms_norm_quant_args *args);
zoe_status zoe_cpu_rms_norm_dynamic_quant(zoe_context *ctx,
                                          const zoe_rms_norm_dynamic_quant_args *args);
zoe_status zoe_cpu_qk_norm_rope(zoe_context *ctx, const zoe_qk_norm_rope_args *args);
zoe_status zoe_cpu_l2_norm(zoe_context *ctx, const zoe_l2_norm_args *args);
size_t zoe_cpu_norm_backward_workspace(const zoe_context *ctx, const zoe_norm_backward_form *form);
zoe_status zoe_cpu_norm_backward(zoe_context *ctx, const zoe_norm_backward_form *form,
                                 zoe_workspace work);
zoe_status zoe_cpu_rotary_mul(zoe_context *ctx, const zoe_rotary_mul_args *args);
zoe_status zoe_cpu_rotary_table(zoe_context *ctx, const zoe_rotary_table_args *args);
size_t zoe_cpu_attention_workspace(const zoe_context *ctx, const zoe_attention_form *form);
zoe_status zoe_cpu_attention(zoe_context *ctx, const zoe_attention_form *form, zoe_workspace work);
zoe_status zoe_cpu_attention_merge(zoe_context *ctx, const zoe_attention_merge_args *args);
zoe_status zoe_cpu_attention_update(zoe_context *ctx, const zoe_attention_update_args *args);
zoe_status zoe_cpu_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x,
                            zoe_activation activation);
zoe_status zoe_cpu_glu(zoe_context *ctx, const zoe_glu_args *args);
zoe_status zoe_cpu_softmax(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
zoe_status zoe_cpu_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);
zoe_status zoe_cpu_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x);
size_t zoe_cpu_conv_weights_bytes(const size_t extents[5]);
zoe_status zoe_cpu_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                    const size_t extents[5], zoe_tensor bias);
void zoe_cpu_conv_weights_free(zoe_conv_weights *packed);
zoe_conv_method zoe_cpu_conv3d_method(const zoe_conv3d_args *args);
size_t zoe_cpu_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

size_t zoe_cpu_dynamic_quant_workspace(const zoe_context *ctx, const zoe_dynamic_quant_args *args);
zoe_status zoe_cpu_dynamic_quant(zoe_context *ctx, const zoe_dynamic_quant_args *args,
                                 zoe_workspace work);
size_t zoe_cpu_int8_weights_bytes(size_t N, size_t K, size_t group);
zoe_status zoe_cpu_int8_weights_new(zoe_context *ctx, zoe_int8_weights **packed, zoe_tensor w,
                                    size_t group);
void zoe_cpu_int8_weights_free(zoe_int8_weights *packed);
size_t zoe_cpu_linear_int8_workspace(const zoe_context *ctx, size_t M, size_t N, size_t K,
                                     zoe_dtype x, size_t group);
zoe_status zoe_cpu_linear_int8(zoe_context *ctx, const zoe_linear_int8_args *args,
                               zoe_workspace work);

#endif
