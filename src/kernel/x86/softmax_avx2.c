/* Softmax over rows of scores: guests for AVX2. */
#include "kernel/x86/vector_avx2.h"

/* -inf in the lanes from n < 8 on. */
static inline __m256 mask_rest(__m256 v, size_t n)
{
    const __m256 low = _mm256_set1_ps(-INFINITY);
    return n >= 8 ? v : _mm256_blendv_ps(low, v, _mm256_castsi256_ps(lanes(n)));
}

/* s[i] = exp(s[i] - origin); returns the sum. */
static inline float exponentials(float *s, size_t n, float origin)
{
    const __m256 o = _mm256_set1_ps(origin);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 a = exp_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + i), o));
        const __m256 b = exp_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + i + 8), o));
        _mm256_storeu_ps(s + i, a);
        _mm256_storeu_ps(s + i + 8, b);
        sum[0] = _mm256_add_ps(sum[0], a);
        sum[1] = _mm256_add_ps(sum[1], b);
    }
    for (; i < n; i += 8) {
        const __m256 t = mask_rest(load_part(s + i, n - i), n - i);
        const __m256 a = exp_not_positive(_mm256_sub_ps(t, o));
        store_part(s + i, a, n - i);
        sum[0] = _mm256_add_ps(sum[0], a);
    }
    return sum_of_lanes(_mm256_add_ps(sum[0], sum[1]));
}

/* 2^r = 1 + C1 r + C2 r^2 ... for |r| <= 1/2 to 9.2e-8 */
#define C1 0x1.62e42ap-1f
#define C2 0x1.ebf9bcp-3f
#define C3 0x1.c6b752p-5f
#define C4 0x1.3cea88p-7f
#define C5 0x1.5bba14p-10f

/* 2^t for t <= 0 within 2.1 ulp; 0 below 2^-126. NaN stays NaN. */
static inline __m256 exp2_not_positive(__m256 t)
{
    /* Adding 1.5 * 2^23 leaves the nearest integer n in the low bits of the sum, and 127 more the
     * exponent's field of 2^n. */
    const __m256 magic = _mm256_set1_ps(0x1.8p23f + 127.0f);
    t = _mm256_max_ps(_mm256_set1_ps(-127.0f), t); /* operands in this order let NaN through */
    const __m256 shifted = _mm256_add_ps(t, magic);
    const __m256 r = _mm256_sub_ps(t, _mm256_sub_ps(shifted, magic));
    __m256 p = _mm256_set1_ps(C5);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    return _mm256_mul_ps(p,
                         _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}

/* The same for four vectors, step by step side by side: one chain of these operations after the
 * other would leave the processor waiting, as it does not look far enough ahead. */
static inline void exp2_four(__m256 t[4])
{
    const __m256 magic = _mm256_set1_ps(0x1.8p23f + 127.0f);
    __m256 shifted[4], p[4];
#define EACH _Pragma("GCC unroll 4") for (size_t j = 0; j < 4; j++)
    EACH t[j] = _mm256_max_ps(_mm256_set1_ps(-127.0f), t[j]);
    EACH shifted[j] = _mm256_add_ps(t[j], magic);
    EACH p[j] = _mm256_sub_ps(shifted[j], magic);
    EACH t[j] = _mm256_sub_ps(t[j], p[j]);
    EACH p[j] = _mm256_fmadd_ps(_mm256_set1_ps(C5), t[j], _mm256_set1_ps(C4));
    EACH p[j] = _mm256_fmadd_ps(p[j], t[j], _mm256_set1_ps(C3));
    EACH p[j] = _mm256_fmadd_ps(p[j], t[j], _mm256_set1_ps(C2));
    EACH p[j] = _mm256_fmadd_ps(p[j], t[j], _mm256_set1_ps(C1));
    EACH p[j] = _mm256_fmadd_ps(p[j], t[j], _mm256_set1_ps(1.0f));
    EACH t[j] = _mm256_mul_ps(
        p[j], _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted[j]), 23)));
}

/* s[i] = 2^(s[i] - origin); returns the sum. */
static inline float powers(float *s, size_t n, float origin)
{
    const __m256 o = _mm256_set1_ps(origin);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256 t[4];
        EACH t[j] = _mm256_sub_ps(_mm256_loadu_ps(s + i + 8 * j), o);
        exp2_four(t);
        EACH _mm256_storeu_ps(s + i + 8 * j, t[j]);
        sum[0] = _mm256_add_ps(sum[0], _mm256_add_ps(t[0], t[1]));
        sum[1] = _mm256_add_ps(sum[1], _mm256_add_ps(t[2], t[3]));
    }
    for (; i < n; i += 8) {
        const __m256 t = mask_rest(load_part(s + i, n - i), n - i);
        const __m256 a = exp2_not_positive(_mm256_sub_ps(t, o));
        store_part(s + i, a, n - i);
        sum[0] = _mm256_add_ps(sum[0], a);
    }
    return sum_of_lanes(_mm256_add_ps(sum[0], sum[1]));
}

/* The largest of s and top, passing over NaN. */
static inline float top_of(const float *s, size_t n, float top)
{
    __m256 high[4];
    size_t i = 0;
    high[0] = high[1] = high[2] = high[3] = _mm256_set1_ps(top);
    for (; i + 32 <= n; i += 32) /* max gives the second operand if one is NaN */
        EACH high[j] = _mm256_max_ps(_mm256_loadu_ps(s + i + 8 * j), high[j]);
    for (; i < n; i += 8)
        high[0] = _mm256_max_ps(mask_rest(load_part(s + i, n - i), n - i), high[0]);
    return max_of_lanes(
        _mm256_max_ps(_mm256_max_ps(high[0], high[1]), _mm256_max_ps(high[2], high[3])));
}

/* Up to 8 rows, so that what is once a row is done in vectors. */
static inline void softmax_rows(float *s, size_t stride, size_t rows, size_t n, float *max,
                                float *sum, float *factor)
{
    float top[8] = {0}, origin[8], part[8] = {0};
    for (size_t r = 0; r < rows; r++)
        top[r] = top_of(s + r * stride, n, max[r]);
    const __m256 t = _mm256_loadu_ps(top);
    /* With nothing above -inf yet, weights must be 2^-inf = 0 and not 2^(-inf + inf). */
    const __m256 o = _mm256_andnot_ps(_mm256_cmp_ps(t, _mm256_set1_ps(-INFINITY), _CMP_EQ_OQ), t);
    const __m256 f = exp2_not_positive(_mm256_sub_ps(load_part(max, rows), o));
    _mm256_storeu_ps(origin, o);
    for (size_t r = 0; r < rows; r++)
        part[r] = powers(s + r * stride, n, origin[r]);
    const __m256 old = _mm256_mul_ps(load_part(sum, rows), f);
    store_part(sum, _mm256_add_ps(old, _mm256_loadu_ps(part)), rows);
    store_part(factor, f, rows);
    store_part(max, t, rows);
}

static void softmax_step_avx2(float *s, size_t stride, size_t rows, size_t n, float *max,
                              float *sum, float *factor)
{
    for (size_t r = 0; r < rows; r += 8)
        softmax_rows(s + r * stride, stride, rows - r < 8 ? rows - r : 8, n, max + r, sum + r,
                     factor + r);
}

static void softmax_bf16_avx2(float *s, size_t n, float scale, const float *bias, float extra)
{
    if (n == 0)
        return;
    const __m256 factor = _mm256_set1_ps(scale);
    __m256 top = _mm256_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; i += 8) {
        __m256 t = round_to_bf16(_mm256_mul_ps(load_part(s + i, n - i), factor));
        if (bias)
            t = round_to_bf16(_mm256_add_ps(t, load_part(bias + i, n - i)));
        store_part(s + i, t, n - i);
        top = _mm256_max_ps(mask_rest(t, n - i), top);
    }
    s[n - 1] += extra;
    const float m = max_of_lanes(top);
    const float origin = s[n - 1] > m ? s[n - 1] : m;
    const __m256 sum = _mm256_set1_ps(exponentials(s, n, origin));
    for (size_t i = 0; i < n; i += 8)
        store_part(s + i, round_to_bf16(_mm256_div_ps(load_part(s + i, n - i), sum)), n - i);
}

static void scale_avx2(float *y, float factor, size_t n)
{
    const __m256 f = _mm256_set1_ps(factor);
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, _mm256_mul_ps(load_part(y + i, n - i), f), n - i);
}

void zoe_kernels_fill_softmax_avx2(zoe_kernels *k)
{
    k->softmax_step = softmax_step_avx2;
    k->softmax_bf16 = softmax_bf16_avx2;
    k->scale = scale_avx2;
}
