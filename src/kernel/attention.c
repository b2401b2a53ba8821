/* Attention's products and the merging of its parts: the definitions. */
#include "kernel/kernel.h"

static void attend_c(float *c, size_t c_stride, const float *factors, const float *a,
                     size_t a_stride, const float *panel, size_t rows, size_t k)
{
    for (size_t m = 0; m < rows; m++) {
        float sum[ZOE_PANEL] = {0};
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < ZOE_PANEL; j++)
                sum[j] += a[m * a_stride + i] * panel[i * ZOE_PANEL + j];
        for (size_t j = 0; j < ZOE_PANEL; j++)
            c[m * c_stride + j] = factors ? c[m * c_stride + j] * factors[m] + sum[j] : sum[j];
    }
}

static void spread(float *y, size_t distance, const void *x, zoe_dtype dtype, ptrdiff_t stride,
                   size_t width, size_t k)
{
    for (size_t i = 0; i < k; i++)
        for (size_t d = 0; d < (width + ZOE_PANEL - 1) / ZOE_PANEL * ZOE_PANEL; d++)
            y[d / ZOE_PANEL * distance + i * ZOE_PANEL + d % ZOE_PANEL] =
                d < width ? zoe_load_f32(x, dtype, i * (size_t)stride + d) : 0.0f;
}

static void spread_f32_c(float *y, size_t distance, const void *x, ptrdiff_t stride, size_t width,
                         size_t k)
{
    spread(y, distance, x, ZOE_F32, stride, width, k);
}

static void spread_f16_c(float *y, size_t distance, const void *x, ptrdiff_t stride, size_t width,
                         size_t k)
{
    spread(y, distance, x, ZOE_F16, stride, width, k);
}

static void spread_bf16_c(float *y, size_t distance, const void *x, ptrdiff_t stride, size_t width,
                          size_t k)
{
    spread(y, distance, x, ZOE_BF16, stride, width, k);
}

static void add_weighted_c(float *y, const float *x, float weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i] * weight;
}

void zoe_kernels_fill_attention_c(zoe_kernels *k)
{
    k->attend = attend_c;
    k->spread_f32 = spread_f32_c;
    k->spread_f16 = spread_f16_c;
    k->spread_bf16 = spread_bf16_c;
    k->add_weighted = add_weighted_c;
}
