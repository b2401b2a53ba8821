/* Products of int8: quantisation and the inner product loops; the definitions. */
#include "kernel/kernel.h"

static float peak_c(const float *x, size_t n)
{
    float peak = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        peak = size > peak || isnan(size) ? size : peak;
        if (isnan(peak))
            return peak;
    }
    return peak;
}

static void round_c(int8_t *q, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] * factor;
        q[i] = isnan(v) ? 0 : (int8_t)rintf(fminf(fmaxf(v, -127.0f), 127.0f));
    }
}

/* Sums over i = from .. from + n - 1 for row m and the columns of a panel. */
static void sum_group(uint32_t sums[ZOE_PANEL], const zoe_int8_product *p, size_t m, size_t panel,
                      size_t from, size_t n)
{
    const int8_t *w = p->w + panel * p->w_distance, *a = p->a + m * p->a_stride;
    memset(sums, 0, ZOE_PANEL * sizeof *sums);
    for (size_t i = from; i < from + n; i++)
        for (size_t j = 0; j < ZOE_PANEL; j++)
            sums[j] += (uint32_t)(a[i] * w[(i / 4 * ZOE_PANEL + j) * 4 + i % 4]);
}

static void gemm_c(int32_t *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    uint32_t sums[ZOE_PANEL];
    for (size_t m = 0; m < p->rows; m++)
        for (size_t panel = 0; panel < p->panels; panel++) {
            int32_t *out = c + m * c_stride + panel * ZOE_PANEL;
            sum_group(sums, p, m, panel, 0, p->k);
            for (size_t j = 0; j < ZOE_PANEL; j++)
                out[j] = (int32_t)(add ? (uint32_t)out[j] + sums[j] : sums[j]);
        }
}

static void gemm_scaled_c(float *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    uint32_t sums[ZOE_PANEL];
    for (size_t m = 0; m < p->rows; m++)
        for (size_t panel = 0; panel < p->panels; panel++) {
            float *out = c + m * c_stride + panel * ZOE_PANEL;
            const float *w_scale = p->w_scale + panel * p->w_scale_distance;
            if (!add)
                memset(out, 0, ZOE_PANEL * sizeof *out);
            for (size_t from = 0, g = 0; from < p->k; from += p->group, g++) {
                const size_t left = p->k - from;
                sum_group(sums, p, m, panel, from, left < p->group ? left : p->group);
                for (size_t j = 0; j < ZOE_PANEL; j++) {
                    const float v = (float)(int32_t)sums[j] * w_scale[g * ZOE_PANEL + j];
                    out[j] += v * p->a_scale[m * p->a_scale_stride + g];
                }
            }
        }
}

/* Through memcpy, since y may be the memory of c. */
static void scale_c(float *y, const int32_t *c, const float *scale, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t sum;
        memcpy(&sum, c + i, sizeof sum);
        const float v = (float)sum * scale[i] * factor;
        memcpy(y + i, &v, sizeof v);
    }
}

void zoe_kernels_fill_int8_c(zoe_kernels *k)
{
    k->int8_peak = peak_c;
    k->int8_round = round_c;
    k->int8_gemm = gemm_c;
    k->int8_gemm_scaled = gemm_scaled_c;
    k->int8_scale = scale_c;
}
