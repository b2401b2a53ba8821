/* Attention's products: guests for AVX-512. Registers twice as wide halve the instructions; where
 * such a multiply-add takes two turns, as on Zen 4, that is what is gained. */
#include <immintrin.h>

#include "kernel/kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* Rows of one inner loop: as many accumulators. */
enum { ROWS = 12 };

INLINE void attend_rows(float *c, size_t c_stride, const float *factors, const float *a,
                        size_t a_stride, const float *panel, const size_t rows, size_t k)
{
    __m512 sum[ROWS];
#pragma GCC unroll 12
    for (size_t m = 0; m < rows; m++)
        sum[m] = _mm512_setzero_ps();
    for (size_t i = 0; i < k; i++) {
        const __m512 p = _mm512_loadu_ps(panel + i * ZOE_PANEL);
#pragma GCC unroll 12
        for (size_t m = 0; m < rows; m++)
            sum[m] = _mm512_fmadd_ps(_mm512_set1_ps(a[m * a_stride + i]), p, sum[m]);
    }
#pragma GCC unroll 12
    for (size_t m = 0; m < rows; m++) {
        float *out = c + m * c_stride;
        if (factors)
            sum[m] = _mm512_fmadd_ps(_mm512_set1_ps(factors[m]), _mm512_loadu_ps(out), sum[m]);
        _mm512_storeu_ps(out, sum[m]);
    }
}

INLINE void attend(float *c, size_t c_stride, const float *factors, const float *a, size_t a_stride,
                   const float *panel, size_t rows, size_t k)
{
    size_t m = 0;
#define PART(n)                                                                                    \
    attend_rows(c + m * c_stride, c_stride, factors ? factors + m : NULL, a + m * a_stride,        \
                a_stride, panel, n, k)
    for (; m + ROWS <= rows; m += ROWS)
        PART(ROWS);
    for (; m + 4 <= rows; m += 4)
        PART(4);
    for (; m < rows; m++)
        PART(1);
#undef PART
}

static void attend_avx512(float *c, size_t c_stride, const float *factors, const float *a,
                          size_t a_stride, const float *panel, size_t rows, size_t k)
{
    if (factors)
        attend(c, c_stride, factors, a, a_stride, panel, rows, k);
    else
        attend(c, c_stride, NULL, a, a_stride, panel, rows, k);
}

void zoe_kernels_fill_attention_avx512(zoe_kernels *k)
{
    k->attend = attend_avx512;
}
