/* What layer_norm.c and group_norm.c share: kernels chosen by type, mean and variance. */
#ifndef ZOE_LAYER_H
#define ZOE_LAYER_H

#include "device/cpu/rows.h"

static inline int zoe_layer_type(zoe_dtype dtype)
{
    return dtype == ZOE_F32 ? 0 : dtype == ZOE_F16 ? 1 : 2;
}

/* A family's kernels by the first and the second type of their names. */
#define ZOE_LAYER_OF_TYPES(k, kind)                                                                \
    {                                                                                              \
        {k->kind##_f32_f32, k->kind##_f32_f16, k->kind##_f32_bf16},                                \
            {k->kind##_f16_f32, k->kind##_f16_f16, k->kind##_f16_bf16},                            \
            {k->kind##_bf16_f32, k->kind##_bf16_f16, k->kind##_bf16_bf16},                         \
    }

static inline zoe_kernel_layer_apply *zoe_layer_apply_of(const zoe_kernels *k, zoe_dtype x_type,
                                                         zoe_dtype y_type)
{
    zoe_kernel_layer_apply *const kernels[3][3] = ZOE_LAYER_OF_TYPES(k, layer_apply);
    return kernels[zoe_layer_type(x_type)][zoe_layer_type(y_type)];
}

static inline void zoe_layer_apply(const zoe_kernels *k, void *y, zoe_dtype y_type, const void *x,
                                   zoe_dtype x_type, const zoe_layer_form *f, size_t n)
{
    zoe_layer_apply_of(k, x_type, y_type)(y, x, f, n);
}

static inline void zoe_layer_gate(const zoe_kernels *k, void *y, const void *x, zoe_dtype x_type,
                                  const void *h, zoe_dtype h_type, const float *gate, size_t n)
{
    zoe_kernel_layer_gate *const kernels[3][3] = ZOE_LAYER_OF_TYPES(k, layer_gate);
    kernels[zoe_layer_type(x_type)][zoe_layer_type(h_type)](y, x, h, gate, n);
}

static inline zoe_kernel_layer_sums *zoe_layer_sums_of(const zoe_kernels *k, zoe_dtype dtype)
{
    return dtype == ZOE_F32   ? k->layer_sums_f32
           : dtype == ZOE_F16 ? k->layer_sums_f16
                              : k->layer_sums_bf16;
}

/* Values as they are, for zoe_layer_apply. */
static inline zoe_layer_form zoe_layer_as_it_is(void)
{
    return (zoe_layer_form){.rstd = 1.0f, .offset = -0.0f};
}

/* ---- mean and variance ---- */

typedef struct zoe_moments {
    double mean, variance;
} zoe_moments;

/* Adds the sum of x - shift and that of its square over all values to sums[0] and sums[1]. */
typedef void zoe_sums_fn(void *arg, double sums[2], float shift);

/* v as a value of dtype, which shifts are: differences to elements then have few digits, too. */
static inline float zoe_rounded(float v, zoe_dtype dtype)
{
    float stored;
    zoe_store_f32(&stored, dtype, 0, v);
    return zoe_load_f32(&stored, dtype, 0);
}

/* Of `count` values, by sums about `near`, which is one of them if they are all equal, so that their
 * variance is 0 and a large mean costs no digits; about their mean, in a second pass, if `near` was not
 * near enough. dtype is theirs. NaN or infinite where sums overflow. */
static inline zoe_moments zoe_moments_of(zoe_sums_fn *sum, void *arg, float near, zoe_dtype dtype,
                                         size_t count)
{
    const double n = (double)count;
    double sums[2] = {0.0, 0.0};
    sum(arg, sums, near);
    double rest = sums[0] / n, variance = sums[1] / n - rest * rest;
    if (rest * rest > 0.25 * variance) {
        near = zoe_rounded((float)((double)near + rest), dtype);
        sums[0] = sums[1] = 0.0;
        sum(arg, sums, near);
        rest = sums[0] / n;
        variance = sums[1] / n - rest * rest;
    }
    return (zoe_moments){(double)near + rest, variance > 0.0 || isnan(variance) ? variance : 0.0};
}

/* Something near the mean of a row or group, for zoe_moments_of: the mean of its first elements, of which
 * there are n. */
enum { ZOE_NEAR = 64 };
static inline float zoe_near_mean(const zoe_kernels *k, const void *x, zoe_dtype dtype, size_t n)
{
    const float first = zoe_load_f32(x, dtype, 0);
    double sums[2] = {0.0, 0.0};
    n = zoe_min(n, ZOE_NEAR);
    zoe_layer_sums_of(k, dtype)(sums, x, first, n);
    const float near = zoe_rounded((float)((double)first + sums[0] / (double)n), dtype);
    return isfinite(near) ? near : first;
}

/* The numbers that zoe_layer_form takes of a row or group. rstd is rounded towards 0, so that `rest` is not
 * negative and zeros keep their signs; the value rounded to the nearest is rstd + rest. */
typedef struct zoe_norm_numbers {
    float mean, rstd, rest, offset;
} zoe_norm_numbers;

static inline zoe_norm_numbers zoe_norm_numbers_of(zoe_moments m, double rstd)
{
    zoe_norm_numbers n = {.mean = (float)m.mean, .rstd = (float)rstd};
    if (isfinite(n.rstd)) {
        if ((double)n.rstd > rstd)
            n.rstd = nextafterf(n.rstd, 0.0f);
        n.rest = (float)(rstd - (double)n.rstd);
    }
    n.offset = (float)(-(m.mean - (double)n.mean) * rstd);
    return n;
}

static inline zoe_norm_numbers zoe_layer_numbers(zoe_moments m, float eps)
{
    return zoe_norm_numbers_of(m, 1.0 / sqrt(m.variance + (double)eps));
}

/* Those of a norm without a mean; NaN stays NaN. */
static inline zoe_norm_numbers zoe_rms_numbers(double square, float eps)
{
    zoe_norm_numbers n = zoe_norm_numbers_of((zoe_moments){0.0, 0.0}, zoe_rms_rstd(square, eps));
    n.offset = -0.0f;
    return n;
}

/* The form that takes n's numbers; `exact` counts for results in f32. */
static inline zoe_layer_form zoe_layer_form_of(const zoe_norm_numbers *n)
{
    return (zoe_layer_form){
        .mean = n->mean, .rstd = n->rstd, .rest = n->rest, .offset = n->offset, .exact = true};
}

#endif
