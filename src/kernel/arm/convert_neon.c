/* Element types: guests for NEON. */
#include "kernel/arm/vector_neon.h"

INLINE void widen(float *y, const void *x, zoe_dtype type, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        store8(y + i, load8(element_at(x, type, i), type), ZOE_F32);
    zoe_widen(y + i, element_at(x, type, i), type, n - i);
}

INLINE void narrow(void *y, zoe_dtype type, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        store8(h + i, load8(x + i, ZOE_F32), type);
    zoe_narrow(h + i, type, x + i, n - i);
}

static void widen_f16_neon(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_F16, n);
}

static void widen_bf16_neon(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_BF16, n);
}

static void widen_f8_e4m3_neon(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_F8_E4M3, n);
}

static void widen_f8_e5m2_neon(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_F8_E5M2, n);
}

static void narrow_f16_neon(void *y, const float *x, size_t n)
{
    narrow(y, ZOE_F16, x, n);
}

static void narrow_bf16_neon(void *y, const float *x, size_t n)
{
    narrow(y, ZOE_BF16, x, n);
}

static void round_bf16_neon(float *y, const float *x, size_t n)
{
#define FOUR(i, part) store_part(y + (i), round_to_bf16(load_part(x + (i), part)), part)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

void zoe_kernels_fill_convert_neon(zoe_kernels *k)
{
    k->widen_f16 = widen_f16_neon;
    k->widen_bf16 = widen_bf16_neon;
    k->widen_f8_e4m3 = widen_f8_e4m3_neon;
    k->widen_f8_e5m2 = widen_f8_e5m2_neon;
    k->narrow_f16 = narrow_f16_neon;
    k->narrow_bf16 = narrow_bf16_neon;
    k->round_bf16 = round_bf16_neon;
}
