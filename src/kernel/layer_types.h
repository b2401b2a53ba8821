/* The kernels of LayerNorm for every type and pair of types, made of one inlined body a kind.
 *
 * To be included once, in a file that has defined sums_of(sums, x, type, shift, n), apply_of(y, y_type, x,
 * x_type, form, n), gate_of(y, x, x_type, h, h_type, gate, n), and LAYER_NAME(name), which is the name with that of the instruction set. */
#define SUMS(x, X)                                                                                 \
    static void LAYER_NAME(layer_sums_##x)(double sums[2], const void *p, float shift, size_t n)   \
    {                                                                                              \
        sums_of(sums, p, X, shift, n);                                                             \
    }
SUMS(f32, ZOE_F32)
SUMS(f16, ZOE_F16)
SUMS(bf16, ZOE_BF16)
#undef SUMS

/* A pair of types: x to y, and y + gate x. */
#define PAIR(x, X, y, Y)                                                                           \
    static void LAYER_NAME(layer_apply_##x##_##y)(void *to, const void *p,                         \
                                                  const zoe_layer_form *f, size_t n)               \
    {                                                                                              \
        apply_of(to, Y, p, X, f, n);                                                               \
    }                                                                                              \
    static void LAYER_NAME(layer_gate_##y##_##x)(void *to, const void *p, const void *h,           \
                                                 const float *gate, size_t n)                      \
    {                                                                                              \
        gate_of(to, p, Y, h, X, gate, n);                                                          \
    }
PAIR(f32, ZOE_F32, f32, ZOE_F32)
PAIR(f32, ZOE_F32, f16, ZOE_F16)
PAIR(f32, ZOE_F32, bf16, ZOE_BF16)
PAIR(f16, ZOE_F16, f32, ZOE_F32)
PAIR(f16, ZOE_F16, f16, ZOE_F16)
PAIR(f16, ZOE_F16, bf16, ZOE_BF16)
PAIR(bf16, ZOE_BF16, f32, ZOE_F32)
PAIR(bf16, ZOE_BF16, f16, ZOE_F16)
PAIR(bf16, ZOE_BF16, bf16, ZOE_BF16)
#undef PAIR

static void fill_types(zoe_kernels *k)
{
    k->layer_sums_f32 = LAYER_NAME(layer_sums_f32);
    k->layer_sums_f16 = LAYER_NAME(layer_sums_f16);
    k->layer_sums_bf16 = LAYER_NAME(layer_sums_bf16);
    k->layer_apply_f32_f32 = LAYER_NAME(layer_apply_f32_f32);
    k->layer_apply_f32_f16 = LAYER_NAME(layer_apply_f32_f16);
    k->layer_apply_f32_bf16 = LAYER_NAME(layer_apply_f32_bf16);
    k->layer_apply_f16_f32 = LAYER_NAME(layer_apply_f16_f32);
    k->layer_apply_f16_f16 = LAYER_NAME(layer_apply_f16_f16);
    k->layer_apply_f16_bf16 = LAYER_NAME(layer_apply_f16_bf16);
    k->layer_apply_bf16_f32 = LAYER_NAME(layer_apply_bf16_f32);
    k->layer_apply_bf16_f16 = LAYER_NAME(layer_apply_bf16_f16);
    k->layer_apply_bf16_bf16 = LAYER_NAME(layer_apply_bf16_bf16);
    k->layer_gate_f32_f32 = LAYER_NAME(layer_gate_f32_f32);
    k->layer_gate_f32_f16 = LAYER_NAME(layer_gate_f32_f16);
    k->layer_gate_f32_bf16 = LAYER_NAME(layer_gate_f32_bf16);
    k->layer_gate_f16_f32 = LAYER_NAME(layer_gate_f16_f32);
    k->layer_gate_f16_f16 = LAYER_NAME(layer_gate_f16_f16);
    k->layer_gate_f16_bf16 = LAYER_NAME(layer_gate_f16_bf16);
    k->layer_gate_bf16_f32 = LAYER_NAME(layer_gate_bf16_f32);
    k->layer_gate_bf16_f16 = LAYER_NAME(layer_gate_bf16_f16);
    k->layer_gate_bf16_bf16 = LAYER_NAME(layer_gate_bf16_bf16);
}
