/* Element types: the definitions. */
#include "kernel/kernel.h"

static void widen_f16_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_F16, n);
}

static void widen_bf16_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_BF16, n);
}

static void widen_f8_e4m3_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_F8_E4M3, n);
}

static void widen_f8_e5m2_c(float *y, const void *x, size_t n)
{
    zoe_widen(y, x, ZOE_F8_E5M2, n);
}

static void narrow_f16_c(void *y, const float *x, size_t n)
{
    zoe_narrow(y, ZOE_F16, x, n);
}

static void narrow_bf16_c(void *y, const float *x, size_t n)
{
    zoe_narrow(y, ZOE_BF16, x, n);
}

static void round_bf16_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_bf16_round(x[i]);
}

void zoe_kernels_fill_convert_c(zoe_kernels *k)
{
    k->widen_f16 = widen_f16_c;
    k->widen_bf16 = widen_bf16_c;
    k->widen_f8_e4m3 = widen_f8_e4m3_c;
    k->widen_f8_e5m2 = widen_f8_e5m2_c;
    k->narrow_f16 = narrow_f16_c;
    k->narrow_bf16 = narrow_bf16_c;
    k->round_bf16 = round_bf16_c;
}
