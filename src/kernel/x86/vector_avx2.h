/* Eight floats at a time with AVX2, FMA and F16C: partial loads, rounding to bf16, and elementary
 * functions. Coefficients are our own minimax fits; the errors named were measured against double
 * over the whole range. */
#ifndef ZOE_VECTOR_AVX2_H
#define ZOE_VECTOR_AVX2_H

#include <immintrin.h>

#include "kernel/kernel.h"

/* A mask of the first n < 8 lanes. */
static inline __m256i lanes(size_t n)
{
    static const int32_t window[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(window + 8 - n));
}

/* min(n, 8) floats; lanes beyond are 0 and their memory is not touched. */
static inline __m256 load_part(const float *x, size_t n)
{
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, lanes(n));
}

static inline void store_part(float *y, __m256 v, size_t n)
{
    if (n >= 8)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, lanes(n), v);
}

/* Rounds to the nearest bf16 value, ties to even; NaN stays NaN. */
static inline __m256 round_to_bf16(__m256 v)
{
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i kept = _mm256_and_si256(up, _mm256_set1_epi32((int)0xffff0000u));
    return _mm256_or_ps(_mm256_castsi256_ps(kept), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

static inline __m256 widen8_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Eight consecutive elements, widened. */
typedef __m256 load8_of(const unsigned char *p);

static inline __attribute__((always_inline)) __m256 load8_f32(const unsigned char *p)
{
    return _mm256_loadu_ps((const float *)(const void *)p);
}

static inline __attribute__((always_inline)) __m256 load8_f16(const unsigned char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline __attribute__((always_inline)) __m256 load8_bf16(const unsigned char *p)
{
    return widen8_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Eight e4m3 bytes (low half of b). Sign, exponent and mantissa are moved to where f32 has them,
 * which leaves the value too small by 2^120; this also makes subnormals right. */
static inline __m256 widen8_e4m3(__m128i b)
{
    const __m256i u = _mm256_slli_epi32(_mm256_cvtepi8_epi32(b), 20);
    const __m256i fields = _mm256_and_si256(u, _mm256_set1_epi32((int)0x87f00000u));
    const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(fields), _mm256_set1_ps(0x1p120f));
    const __m256i nan = _mm256_set1_epi32((int)0xfe000000u);
    return _mm256_or_ps(value,
                        _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_slli_epi32(u, 5), nan)));
}

/* Eight e5m2 bytes: the upper halves of f16 values. */
static inline __m256 widen8_e5m2(__m128i b)
{
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), b));
}

/* The sum of the lanes, in a fixed order. */
static inline float sum_of_lanes(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float max_of_lanes(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* e^x = 2^n e^r with |r| <= ln(2)/2. Gives e^r, and n in the low bits of *shifted. */
static inline __m256 exp_parts(__m256 x, __m256 *shifted)
{
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    *shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(1.44269504088896f), magic);
    const __m256 n = _mm256_sub_ps(*shifted, magic);
    /* ln 2 in two pieces, the first short enough that its multiples are exact */
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    /* 1 + r + r^2 (c0 + c1 r + c2 r^2 + c3 r^3 + c4 r^4), halves side by side: latency is what
     * costs here */
    const __m256 r2 = _mm256_mul_ps(r, r);
    const __m256 low =
        _mm256_fmadd_ps(_mm256_set1_ps(1.66665201074e-1f), r, _mm256_set1_ps(4.99999934123e-1f));
    __m256 high =
        _mm256_fmadd_ps(_mm256_set1_ps(8.36878044597e-3f), r, _mm256_set1_ps(4.16683942426e-2f));
    high = _mm256_fmadd_ps(_mm256_set1_ps(1.38144657224e-3f), r2, high);
    const __m256 p = _mm256_fmadd_ps(_mm256_fmadd_ps(high, r2, low), r2, r);
    return _mm256_add_ps(p, _mm256_set1_ps(1.0f));
}

/* 2^n for the low bits of shifted, -127 < n < 128. */
static inline __m256 power_of_two(__m256i shifted)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(shifted, _mm256_set1_epi32(127)), 23));
}

/* e^x within 1.1 ulp; infinities, subnormal results and NaN as they should be. */
static inline __m256 exp_v(__m256 x)
{
    __m256 shifted;
    /* Operands in this order let NaN through. */
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));
    const __m256 p = exp_parts(x, &shifted);
    /* 2^n in two factors, since n may go beyond what one can hold */
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(n, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, power_of_two(half)),
                         power_of_two(_mm256_sub_epi32(n, half)));
}

/* e^x for x <= 0 within 1.1 ulp; 0 where the result would be subnormal. NaN stays NaN. */
static inline __m256 exp_not_positive(__m256 x)
{
    __m256 shifted;
    const __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-87.33654f), _CMP_LT_OQ);
    const __m256 p = exp_parts(x, &shifted);
    const __m256 v = _mm256_mul_ps(p, power_of_two(_mm256_castps_si256(shifted)));
    return _mm256_andnot_ps(tiny, v);
}

static inline __m256 negate(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

/* 1 / (1 + e^-x) times v */
static inline __m256 times_sigmoid(__m256 v, __m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    return _mm256_div_ps(v, _mm256_add_ps(one, exp_v(negate(x))));
}

static inline __m256 silu_v(__m256 v)
{
    return times_sigmoid(v, v);
}

/* 0.5 (1 + tanh u) = 1 / (1 + e^-2u) with u = sqrt(2/pi) (v + 0.044715 v^3) */
static inline __m256 gelu_tanh_v(__m256 v)
{
    const __m256 linear = _mm256_set1_ps(1.59576912160573f);
    const __m256 cubic = _mm256_set1_ps(0.0713548162726f);
    const __m256 square = _mm256_mul_ps(v, v);
    return times_sigmoid(v, _mm256_mul_ps(v, _mm256_fmadd_ps(square, cubic, linear)));
}

/* v / (1 + e^(-1.702 v)) */
static inline __m256 gelu_sigmoid_v(__m256 v)
{
    return times_sigmoid(v, _mm256_mul_ps(v, _mm256_set1_ps(1.702f)));
}

/* v Phi(v). With a = |v| / sqrt 2: erfc a = exp(-(a^2 + g(a))), where g grows slowly and is a
 * polynomial up to 4; beyond, what it lacks is below 1e-8. */
static inline __m256 gelu_erf_v(__m256 v)
{
    const __m256 a = _mm256_mul_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v),
                                   _mm256_set1_ps(0.707106781186548f));
    const __m256 t = _mm256_min_ps(_mm256_set1_ps(4.0f), a);
    __m256 g = _mm256_set1_ps(-6.3297141317e-6f);
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(8.84152361328e-5f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(-5.13950280952e-4f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(1.41205484909e-3f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(1.51364429111e-4f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(-1.93723615463e-2f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(1.02862812484e-1f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(-3.63396757759e-1f));
    g = _mm256_fmadd_ps(g, t, _mm256_set1_ps(1.12838027535f));
    const __m256 half_erfc = _mm256_mul_ps(
        _mm256_set1_ps(0.5f), exp_v(negate(_mm256_fmadd_ps(a, a, _mm256_mul_ps(g, t)))));
    const __m256 upper = _mm256_sub_ps(_mm256_set1_ps(1.0f), half_erfc);
    return _mm256_mul_ps(v, _mm256_blendv_ps(upper, half_erfc, v));
}

/* tanh within 1.4 ulp: an odd polynomial near 0, else by e^2|u|. */
static inline __m256 tanh_v(__m256 u)
{
    const __m256 sign = _mm256_and_ps(_mm256_set1_ps(-0.0f), u);
    const __m256 a = _mm256_xor_ps(u, sign);
    const __m256 z = _mm256_mul_ps(u, u);
    __m256 p = _mm256_set1_ps(-5.60391513963e-3f);
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.05517205464e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-5.37141077514e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(1.33311528134e-1f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-3.33332720831e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, z), a, a);
    const __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f);
    const __m256 e = _mm256_add_ps(exp_v(_mm256_mul_ps(two, a)), one);
    const __m256 far = _mm256_sub_ps(one, _mm256_div_ps(two, e));
    const __m256 is_far = _mm256_cmp_ps(a, _mm256_set1_ps(0.625f), _CMP_GT_OQ);
    return _mm256_or_ps(_mm256_blendv_ps(p, far, is_far), sign);
}

#endif
