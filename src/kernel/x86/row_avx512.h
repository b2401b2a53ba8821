/* Thirty-two elements of a row at a time with AVX-512, of F32, F16 or BF16, for files whose target has
 * the instructions for bf16. These take subnormal numbers for zero: where a result could be one, the group is
 * rounded again by integers. */
#ifndef ZOE_ROW_AVX512_H
#define ZOE_ROW_AVX512_H

#include <immintrin.h>

#include "kernel/kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* Elements of one turn of a loop. */
enum { STEP = 32 };

INLINE size_t bytes_of(zoe_dtype type)
{
    return type == ZOE_F32 ? 4 : 2;
}

/* Elements in order: a has the first sixteen. */
typedef struct v32 {
    __m512 a, b;
} v32;

/* Each element of h as the upper half of a word. */
INLINE v32 widen_bf16(__m512i h)
{
    const __m512i step = _mm512_set1_epi32(0x00010000);
    const __m512i low = _mm512_mullo_epi32(
        step, _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(0x00100000));
    return (v32){_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, low, h)),
                 _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, high, h))};
}

INLINE v32 load32(const void *p, zoe_dtype type)
{
    if (type == ZOE_F32)
        return (v32){_mm512_loadu_ps(p), _mm512_loadu_ps((const float *)p + 16)};
    const __m512i h = _mm512_loadu_si512(p);
    if (type == ZOE_F16)
        return (v32){_mm512_cvtph_ps(_mm512_castsi512_si256(h)),
                     _mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1))};
    return widen_bf16(h);
}

/* The same elements in another order, for sums. */
INLINE v32 load32_unordered(const void *p, zoe_dtype type)
{
    if (type != ZOE_BF16)
        return load32(p, type);
    const __m512i h = _mm512_loadu_si512(p);
    return (v32){_mm512_castsi512_ps(_mm512_slli_epi32(h, 16)),
                 _mm512_castsi512_ps(_mm512_and_si512(h, _mm512_set1_epi32((int)0xffff0000u)))};
}

/* Sixteen elements as bf16 by integers; NaN stays NaN. */
INLINE __m256i narrow_exactly(__m512 v)
{
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_srli_epi32(_mm512_mask_set1_epi32(up, nan, 0x7fc00000), 16));
}

static __attribute__((noinline)) __m512i narrow_again(v32 v)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_exactly(v.a)), narrow_exactly(v.b), 1);
}

/* Is one of the elements subnormal? */
INLINE bool subnormal(__m512 v)
{
    const __m512i u = _mm512_castps_si512(v);
    const __mmask16 no_exponent = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_test_epi32_mask(no_exponent, u, _mm512_set1_epi32(0x007fffff)) != 0;
}

INLINE __m512i narrow_bf16(v32 v)
{
    const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(v.b, v.a);
    if (_mm512_testn_epi16_mask(h, _mm512_set1_epi16(0x7f80)) != 0 &&
        (subnormal(v.a) || subnormal(v.b)))
        return narrow_again(v);
    return h;
}

INLINE v32 round32(v32 v, zoe_dtype type)
{
    return type == ZOE_BF16 ? widen_bf16(narrow_bf16(v)) : v;
}

INLINE void put(void *p, __m512i v, bool stream)
{
    if (stream)
        _mm512_stream_si512(p, v);
    else
        _mm512_storeu_si512(p, v);
}

INLINE void store32(void *p, v32 v, zoe_dtype type, bool stream)
{
    if (type == ZOE_F32) {
        put(p, _mm512_castps_si512(v.a), stream);
        put((float *)p + 16, _mm512_castps_si512(v.b), stream);
    } else if (type == ZOE_F16) {
        /* With all lanes named: without a mask gcc's header has a constant that -Wconversion minds. */
        const __m256i low = _mm512_maskz_cvtps_ph(0xffff, v.a, _MM_FROUND_TO_NEAREST_INT);
        const __m256i high = _mm512_maskz_cvtps_ph(0xffff, v.b, _MM_FROUND_TO_NEAREST_INT);
        put(p, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), stream);
    } else {
        put(p, narrow_bf16(v), stream);
    }
}

/* The first n < STEP elements at p, with zeroes behind them in `room`. */
INLINE const void *part(float room[STEP], const void *p, zoe_dtype type, size_t n)
{
    memset(room, 0, STEP * sizeof *room);
    memcpy(room, p, n * bytes_of(type));
    return room;
}

#endif
