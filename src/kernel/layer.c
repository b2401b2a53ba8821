/* LayerNorm, modulation and gated residuals over stored types: the definitions. Names end with the
 * types of what is read (and, where another stands behind it, of what is written). */
#include "kernel/kernel.h"

static void sums_of(double sums[2], const void *x, zoe_dtype dtype, float shift, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double d = (double)zoe_load_f32(x, dtype, i) - (double)shift;
        sums[0] += d;
        sums[1] += d * d;
    }
}

static void apply_of(void *y, zoe_dtype y_type, const void *x, zoe_dtype x_type,
                     const zoe_layer_form *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = fmaf(zoe_load_f32(x, x_type, i) - f->mean, f->rstd, f->offset);
        if (f->weight)
            v = v * f->weight[i] + f->bias[i];
        zoe_store_f32(y, y_type, i, v);
    }
    if (f->other) {
        const zoe_layer_form g = zoe_layer_form_of_other(f);
        apply_of(f->other->y, y_type, f->other->x, x_type, &g, n);
    }
}

static void gate_of(void *y, const void *x, zoe_dtype x_type, const void *h, zoe_dtype h_type,
                    const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        zoe_store_f32(y, x_type, i,
                      zoe_load_f32(x, x_type, i) + gate[i] * zoe_load_f32(h, h_type, i));
}

static void layer_weight_c(float *y, const float *x, float add, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = isnan(x[i]) ? zoe_f32_from_bits(0x7fc00000u) : x[i] + add;
}

#define SUMS(x, X)                                                                                 \
    static void layer_sums_##x##_c(double sums[2], const void *p, float shift, size_t n)           \
    {                                                                                              \
        sums_of(sums, p, X, shift, n);                                                             \
    }
SUMS(f32, ZOE_F32)
SUMS(f16, ZOE_F16)
SUMS(bf16, ZOE_BF16)

/* A pair of types: x to y, and y + gate x. */
#define PAIR(x, X, y, Y)                                                                           \
    static void layer_apply_##x##_##y##_c(void *to, const void *p, const zoe_layer_form *f,        \
                                          size_t n)                                                \
    {                                                                                              \
        apply_of(to, Y, p, X, f, n);                                                               \
    }                                                                                              \
    static void layer_gate_##y##_##x##_c(void *to, const void *p, const void *h,                   \
                                         const float *gate, size_t n)                              \
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

void zoe_kernels_fill_layer_c(zoe_kernels *k)
{
#define PUT(name) k->name = name##_c
    PUT(layer_weight);
    ZOE_LAYER_KERNELS(PUT);
#undef PUT
}
