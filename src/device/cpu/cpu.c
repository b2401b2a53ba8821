/* The cpu back end's table. */
#include "device/cpu/cpu.h"

const zoe_device zoe_device_cpu = {
    .name = "cpu",
    .linear_workspace = zoe_cpu_linear_workspace,
    .linear = zoe_cpu_linear,
    .rms_norm_linear_workspace = zoe_cpu_rms_norm_linear_workspace,
    .rms_norm_linear = zoe_cpu_rms_norm_linear,
    .layer_norm_linear_workspace = zoe_cpu_layer_norm_linear_workspace,
    .layer_norm_linear = zoe_cpu_layer_norm_linear,
    .layer_norm = zoe_cpu_layer_norm,
    .layer_norm_modulate = zoe_cpu_layer_norm_modulate,
    .gated_residual = zoe_cpu_gated_residual,
    .gated_residual_norm_modulate = zoe_cpu_gated_residual_norm_modulate,
    .group_norm_workspace = zoe_cpu_group_norm_workspace,
    .group_norm = zoe_cpu_group_norm,
    .rms_norm = zoe_cpu_rms_norm,
    .add_rms_norm = zoe_cpu_add_rms_norm,
    .rms_norm_quant = zoe_cpu_rms_norm_quant,
    .rms_norm_dynamic_quant = zoe_cpu_rms_norm_dynamic_quant,
    .qk_norm_rope = zoe_cpu_qk_norm_rope,
    .l2_norm = zoe_cpu_l2_norm,
    .norm_backward_workspace = zoe_cpu_norm_backward_workspace,
    .norm_backward = zoe_cpu_norm_backward,
    .rotary_mul = zoe_cpu_rotary_mul,
    .rotary_table = zoe_cpu_rotary_table,
    .attention_workspace = zoe_cpu_attention_workspace,
    .attention = zoe_cpu_attention,
    .attention_merge = zoe_cpu_attention_merge,
    .attention_update = zoe_cpu_attention_update,
    .activate = zoe_cpu_activate,
    .glu = zoe_cpu_glu,
    .softmax = zoe_cpu_softmax,
    .add = zoe_cpu_add,
    .cast = zoe_cpu_cast,
    .conv_weights_bytes = zoe_cpu_conv_weights_bytes,
    .conv_weights_new = zoe_cpu_conv_weights_new,
    .conv_weights_free = zoe_cpu_conv_weights_free,
    .conv3d_method = zoe_cpu_conv3d_method,
    .conv3d_workspace = zoe_cpu_conv3d_workspace,
    .conv3d = zoe_cpu_conv3d,
    .dynamic_quant_workspace = zoe_cpu_dynamic_quant_workspace,
    .dynamic_quant = zoe_cpu_dynamic_quant,
    .int8_weights_bytes = zoe_cpu_int8_weights_bytes,
    .int8_weights_new = zoe_cpu_int8_weights_new,
    .int8_weights_free = zoe_cpu_int8_weights_free,
    .linear_int8_workspace = zoe_cpu_linear_int8_workspace,
    .linear_int8 = zoe_cpu_linear_int8,
};

const zoe_device *zoe_device_of(const zoe_context *ctx)
{
    (void)ctx;
    return &zoe_device_cpu;
}
