/* Element by element: activations, sums, changes of type. The rules that hold for every operator are
 * in zoetrope/op.h. */
#ifndef ZOETROPE_OP_ELEMENTWISE_H
#define ZOETROPE_OP_ELEMENTWISE_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = activation(x), any dense shape; y f32 or bf16, x f32 or bf16; may be the same memory if of
 * the same type. */
zoe_status zoe_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation);

/* y = gelu_tanh(gate) * up, all [M, D] and of one type, f32 or bf16; y may be gate or up. In bf16
 * every elementary step of gelu (cube, times 0.044715, plus, times sqrt(2/pi), tanh, plus 1, times
 * half gate) is rounded, as the umT5 code does. */
zoe_status zoe_geglu(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up);

/* y = a + b, any dense shape, all of one type, f32 or bf16; y may be a or b. */
zoe_status zoe_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b);

/* A copy with change of type: dense, same count, f32/f16/bf16/f8 to f32/f16/bf16. */
zoe_status zoe_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x);

#ifdef __cplusplus
}
#endif
#endif
