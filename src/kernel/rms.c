/* Norms by the root of a mean square, and what belongs to them: the definitions. */
#include "kernel/activation.h"

static double squares_c(const void *x, zoe_dtype type, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)zoe_load_f32(x, type, i);
        sum += v * v;
    }
    return sum;
}

static double squares_f32_c(const void *x, size_t n)
{
    return squares_c(x, ZOE_F32, n);
}

static double squares_f16_c(const void *x, size_t n)
{
    return squares_c(x, ZOE_F16, n);
}

static double squares_bf16_c(const void *x, size_t n)
{
    return squares_c(x, ZOE_BF16, n);
}

static float rounded(float v, zoe_dtype type)
{
    switch (type) {
    case ZOE_F16: return zoe_f32_of_f16(zoe_f16_of_f32(v));
    case ZOE_BF16: return zoe_bf16_round(v);
    default: return v;
    }
}

static double squares_rounded_c(const void *x, zoe_dtype type, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const float v = zoe_load_f32(x, type, i);
        sum += (double)rounded(v * v, type);
    }
    return sum;
}

static void rms_apply_c(void *y, const void *x, const void *gamma, float rstd,
                        const zoe_rms_form *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = rounded(zoe_load_f32(x, f->x, i) * rstd, f->cast);
        if (f->gamma != ZOE_NONE) {
            const float g = rounded(zoe_load_f32(gamma, f->gamma, i), f->weight);
            v = rounded(v * (f->one_plus ? 1.0f + g : g), f->product);
        }
        zoe_store_f32(y, f->y, i, v);
    }
    if (f->other) {
        zoe_rms_form g = *f;
        g.other = NULL;
        rms_apply_c(f->other->y, f->other->x, gamma, f->other->rstd, &g, n);
    }
}

static void l2_apply_c(void *y, const void *x, const float *gamma, const float *bias,
                       const zoe_l2_form *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = rounded(zoe_load_f32(x, f->x, i) / f->norm, f->round);
        v = rounded(v * f->root, f->round);
        if (gamma)
            v = rounded(v * gamma[i], f->round);
        if (bias)
            v = rounded(v + bias[i], f->round);
        zoe_store_f32(y, f->y, i, f->silu ? zoe_activation_value(ZOE_ACT_SILU, v) : v);
    }
}

static void add_rows_c(float *y, const void *a, const void *b, zoe_dtype type, bool round, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float sum = zoe_load_f32(a, type, i) + zoe_load_f32(b, type, i);
        y[i] = round ? rounded(sum, type) : sum;
    }
}

static void shift_scale_c(float *y, const float *x, const float *shift, const float *scale,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = shift ? x[i] + shift[i] : x[i];
        y[i] = scale ? v * scale[i] : v;
    }
}

static void quantise_c(int8_t *q, const float *x, const float *scale, const float *offset,
                       bool divide, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = divide ? x[i] / scale[i] : x[i] * scale[i];
        if (offset)
            v += offset[i];
        v = rintf(v);
        q[i] = (int8_t)(isnan(v) ? 0.0f : v < -128.0f ? -128.0f : v > 127.0f ? 127.0f : v);
    }
}

void zoe_kernels_fill_rms_c(zoe_kernels *k)
{
    k->squares_f32 = squares_f32_c;
    k->squares_f16 = squares_f16_c;
    k->squares_bf16 = squares_bf16_c;
    k->squares_rounded = squares_rounded_c;
    k->rms_apply = rms_apply_c;
    k->l2_apply = l2_apply_c;
    k->add_rows = add_rows_c;
    k->shift_scale = shift_scale_c;
    k->quantise = quantise_c;
}
