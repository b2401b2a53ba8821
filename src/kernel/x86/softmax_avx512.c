/* Softmax over rows of scores: guests for AVX-512. */
#include <immintrin.h>

#include "kernel/kernel.h"

static inline __mmask16 lanes(size_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

/* min(n, 16) floats; -inf in the lanes beyond, whose memory is not touched. */
static inline __m512 load_or_low(const float *x, size_t n)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), lanes(n), x);
}

/* 2^t for t <= 0 within 2.1 ulp. NaN stays NaN. The polynomial is that of softmax_avx2.c. */
static inline __m512 exp2_not_positive(__m512 t)
{
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    t = _mm512_max_ps(_mm512_set1_ps(-150.0f), t); /* operands in this order let NaN through */
    const __m512 n = _mm512_sub_ps(_mm512_add_ps(t, magic), magic);
    const __m512 r = _mm512_sub_ps(t, n);
    __m512 p = _mm512_set1_ps(0x1.5bba14p-10f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.3cea88p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c6b752p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ebf9bcp-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e42ap-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* s[i] = 2^(s[i] - origin); returns the sum. */
static inline float powers(float *s, size_t n, float origin)
{
    const __m512 o = _mm512_set1_ps(origin);
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 a = exp2_not_positive(_mm512_sub_ps(_mm512_loadu_ps(s + i), o));
        const __m512 b = exp2_not_positive(_mm512_sub_ps(_mm512_loadu_ps(s + i + 16), o));
        _mm512_storeu_ps(s + i, a);
        _mm512_storeu_ps(s + i + 16, b);
        sum[0] = _mm512_add_ps(sum[0], a);
        sum[1] = _mm512_add_ps(sum[1], b);
    }
    for (; i < n; i += 16) {
        const __m512 a = exp2_not_positive(_mm512_sub_ps(load_or_low(s + i, n - i), o));
        _mm512_mask_storeu_ps(s + i, lanes(n - i), a);
        sum[0] = _mm512_add_ps(sum[0], a);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(sum[0], sum[1]));
}

/* The largest of s and top, passing over NaN. */
static inline float top_of(const float *s, size_t n, float top)
{
    __m512 high[2];
    size_t i = 0;
    high[0] = high[1] = _mm512_set1_ps(top);
    for (; i + 32 <= n; i += 32) { /* max gives the second operand if one is NaN */
        high[0] = _mm512_max_ps(_mm512_loadu_ps(s + i), high[0]);
        high[1] = _mm512_max_ps(_mm512_loadu_ps(s + i + 16), high[1]);
    }
    for (; i < n; i += 16)
        high[0] = _mm512_max_ps(load_or_low(s + i, n - i), high[0]);
    return _mm512_reduce_max_ps(_mm512_max_ps(high[0], high[1]));
}

/* Up to 16 rows, so that what is once a row is done in vectors. */
static inline void softmax_rows(float *s, size_t stride, size_t rows, size_t n, float *max,
                                float *sum, float *factor)
{
    const __mmask16 here = lanes(rows);
    float top[16] = {0}, origin[16], part[16] = {0};
    for (size_t r = 0; r < rows; r++)
        top[r] = top_of(s + r * stride, n, max[r]);
    const __m512 t = _mm512_loadu_ps(top);
    /* With nothing above -inf yet, weights must be 2^-inf = 0 and not 2^(-inf + inf). */
    const __m512 o =
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ), t);
    const __m512 f = exp2_not_positive(_mm512_sub_ps(_mm512_maskz_loadu_ps(here, max), o));
    _mm512_storeu_ps(origin, o);
    for (size_t r = 0; r < rows; r++)
        part[r] = powers(s + r * stride, n, origin[r]);
    const __m512 old = _mm512_mul_ps(_mm512_maskz_loadu_ps(here, sum), f);
    _mm512_mask_storeu_ps(sum, here, _mm512_add_ps(old, _mm512_loadu_ps(part)));
    _mm512_mask_storeu_ps(factor, here, f);
    _mm512_mask_storeu_ps(max, here, t);
}

static void softmax_step_avx512(float *s, size_t stride, size_t rows, size_t n, float *max,
                                float *sum, float *factor)
{
    for (size_t r = 0; r < rows; r += 16)
        softmax_rows(s + r * stride, stride, rows - r < 16 ? rows - r : 16, n, max + r, sum + r,
                     factor + r);
}

void zoe_kernels_fill_softmax_avx512(zoe_kernels *k)
{
    k->softmax_step = softmax_step_avx512;
}
