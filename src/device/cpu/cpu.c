/* The cpu back end's table. */
#include "device/cpu/cpu.h"

const zoe_device zoe_device_cpu = {
    .name = "cpu",
    .linear_workspace = zoe_cpu_linear_workspace,
    .linear = zoe_cpu_linear,
    .layer_norm = zoe_cpu_layer_norm,
    .rms_norm = zoe_cpu_rms_norm,
    .l2_norm = zoe_cpu_l2_norm,
    .attention_workspace = zoe_cpu_attention_workspace,
    .attention = zoe_cpu_attention,
    .activate = zoe_cpu_activate,
    .geglu = zoe_cpu_geglu,
    .add = zoe_cpu_add,
    .cast = zoe_cpu_cast,
    .conv_weights_bytes = zoe_cpu_conv_weights_bytes,
    .conv_weights_new = zoe_cpu_conv_weights_new,
    .conv_weights_free = zoe_cpu_conv_weights_free,
    .conv3d_workspace = zoe_cpu_conv3d_workspace,
    .conv3d = zoe_cpu_conv3d,
};

const zoe_device *zoe_device_of(const zoe_context *ctx)
{
    (void)ctx;
    return &zoe_device_cpu;
}
