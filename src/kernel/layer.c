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
        const float in = zoe_load_f32(x, x_type, i);
        float v = f->exact && y_type == ZOE_F32 ? zoe_layer_value(in, f)
                                                : fmaf(in - f->mean, f->rstd + f->rest, f->offset);
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

#define LAYER_NAME(name) name##_c
#include "kernel/layer_types.h"

void zoe_kernels_fill_layer_c(zoe_kernels *k)
{
    k->layer_weight = layer_weight_c;
    fill_types(k);
}
