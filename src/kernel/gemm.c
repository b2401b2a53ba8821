/* Products: packing, the inner product loop and what follows it; the definitions. */
#include "kernel/activation.h"

static void pack(float *panel, const void *w, zoe_dtype dtype, ptrdiff_t stride, size_t rows,
                 size_t k)
{
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < ZOE_PANEL; r++)
            panel[i * ZOE_PANEL + r] =
                r < rows ? zoe_load_f32(w, dtype, r * (size_t)stride + i) : 0.0f;
}

static void pack_f32_c(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, ZOE_F32, stride, rows, k);
}

static void pack_f16_c(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, ZOE_F16, stride, rows, k);
}

static void pack_bf16_c(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, ZOE_BF16, stride, rows, k);
}

static void pack_f8_e4m3_c(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, ZOE_F8_E4M3, stride, rows, k);
}

static void pack_f8_e5m2_c(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, ZOE_F8_E5M2, stride, rows, k);
}

static void scale_panel_c(float *panel, const float *factors, size_t k)
{
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < ZOE_PANEL; r++)
            panel[i * ZOE_PANEL + r] *= factors[r];
}

static void slice(float *panel, const void *w, zoe_dtype dtype, ptrdiff_t stride, size_t columns,
                  size_t k)
{
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < ZOE_PANEL; r++)
            panel[i * ZOE_PANEL + r] =
                r < columns ? zoe_load_f32(w, dtype, i * (size_t)stride + r) : 0.0f;
}

static void slice_f32_c(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, ZOE_F32, stride, columns, k);
}

static void slice_bf16_c(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, ZOE_BF16, stride, columns, k);
}

static void gemm_c(float *c, size_t c_stride, const float *a, size_t a_stride, const float *panel,
                   size_t rows, size_t k, bool add)
{
    for (size_t m = 0; m < rows; m++) {
        float sum[ZOE_PANEL] = {0};
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < ZOE_PANEL; j++)
                sum[j] += a[m * a_stride + i] * panel[i * ZOE_PANEL + j];
        for (size_t j = 0; j < ZOE_PANEL; j++)
            c[m * c_stride + j] = add ? c[m * c_stride + j] + sum[j] : sum[j];
    }
}

static void few(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                zoe_dtype dtype, ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    for (size_t m = 0; m < rows; m++)
        for (size_t j = 0; j < ZOE_PANEL; j++) {
            float sum = 0.0f, *out = c + m * c_stride + j;
            for (size_t i = 0; i < k; i++)
                sum += a[m * a_stride + i] * zoe_load_f32(w, dtype, j * (size_t)stride + i);
            *out = add ? *out + sum : sum;
        }
}

static void few_f32_c(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                      ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, ZOE_F32, stride, rows, k, add);
}

static void few_f16_c(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                      ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, ZOE_F16, stride, rows, k, add);
}

static void few_bf16_c(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                       ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, ZOE_BF16, stride, rows, k, add);
}

static void finish_c(float *y, const float *x, const zoe_finishing *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = f->bias ? x[i] + f->bias[i] : x[i];
        v = f->round ? zoe_bf16_round(v) : v;
        v = zoe_activation_value(f->activation, v);
        v = f->round ? zoe_bf16_round(v) : v;
        v = f->gate ? f->gate[i] * v : v;
        y[i] = f->residual ? f->residual[i] + v : v;
    }
}

void zoe_kernels_fill_gemm_c(zoe_kernels *k)
{
    k->pack_f32 = pack_f32_c;
    k->pack_f16 = pack_f16_c;
    k->pack_bf16 = pack_bf16_c;
    k->pack_f8_e4m3 = pack_f8_e4m3_c;
    k->pack_f8_e5m2 = pack_f8_e5m2_c;
    k->scale_panel = scale_panel_c;
    k->slice_f32 = slice_f32_c;
    k->slice_bf16 = slice_bf16_c;
    k->gemm = gemm_c;
    k->few_f32 = few_f32_c;
    k->few_f16 = few_f16_c;
    k->few_bf16 = few_bf16_c;
    k->finish = finish_c;
}
