/* Block-quantised types: guests for AVX2. The quantised elements of a block become bytes, 16 at a
 * time; one function a formula turns those into floats with the same products and sums as the
 * definition. */
#include "base/block.h"
#include "kernel/x86/vector_avx2.h"

#define INLINE static inline __attribute__((always_inline))

typedef unsigned char byte;

INLINE float half(const byte *p)
{
    return _cvtsh_ss(zoe_block_half(p));
}

INLINE __m128i load16(const byte *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Eight floats of 16 signed bytes, from the first or the ninth on. */
INLINE __m256 first8(__m128i q)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

INLINE __m256 last8(__m128i q)
{
    return first8(_mm_srli_si128(q, 8));
}

/* y = d q, for 16 elements */
INLINE void put(float *y, __m128i q, float d)
{
    const __m256 s = _mm256_set1_ps(d);
    _mm256_storeu_ps(y, _mm256_mul_ps(s, first8(q)));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(s, last8(q)));
}

/* y = d q + m */
INLINE void put_plus(float *y, __m128i q, float d, float m)
{
    const __m256 s = _mm256_set1_ps(d), a = _mm256_set1_ps(m);
    _mm256_storeu_ps(y, _mm256_add_ps(_mm256_mul_ps(s, first8(q)), a));
    _mm256_storeu_ps(y + 8, _mm256_add_ps(_mm256_mul_ps(s, last8(q)), a));
}

/* y = d q - m */
INLINE void put_less(float *y, __m128i q, float d, float m)
{
    const __m256 s = _mm256_set1_ps(d), a = _mm256_set1_ps(m);
    _mm256_storeu_ps(y, _mm256_sub_ps(_mm256_mul_ps(s, first8(q)), a));
    _mm256_storeu_ps(y + 8, _mm256_sub_ps(_mm256_mul_ps(s, last8(q)), a));
}

/* The `bits` low bits of every byte of q, after a shift to the right. The loops over the groups of a
 * block are unrolled, which makes the shifts constant. */
INLINE __m128i field(__m128i q, int shift, int bits)
{
    const __m128i moved = _mm_srl_epi16(q, _mm_cvtsi32_si128(shift));
    return _mm_and_si128(moved, _mm_set1_epi8((char)((1 << bits) - 1)));
}

/* The same, moved to the left: q holds one of the upper bits of an element. */
INLINE __m128i upper(__m128i q, int shift, int bits, int to)
{
    return _mm_slli_epi16(field(q, shift, bits), to);
}

INLINE __m128i minus(__m128i q, int n)
{
    return _mm_sub_epi8(q, _mm_set1_epi8((char)n));
}

/* Bit i of 16 bits as 16 in byte i. */
INLINE __m128i fifth_bits(const byte *p)
{
    const __m128i places = _mm_set1_epi64x((long long)0x8040201008040201u);
    const __m128i spread = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bits = _mm_shuffle_epi8(_mm_set1_epi16((short)zoe_block_half(p)), spread);
    const __m128i set = _mm_cmpeq_epi8(_mm_and_si128(bits, places), places);
    return _mm_and_si128(set, _mm_set1_epi8(16));
}

INLINE void block_q4_0(float *y, const byte *b)
{
    const __m128i q = load16(b + 2);
    put(y, minus(field(q, 0, 4), 8), half(b));
    put(y + 16, minus(field(q, 4, 4), 8), half(b));
}

INLINE void block_q4_1(float *y, const byte *b)
{
    const __m128i q = load16(b + 4);
    put_plus(y, field(q, 0, 4), half(b), half(b + 2));
    put_plus(y + 16, field(q, 4, 4), half(b), half(b + 2));
}

INLINE void block_q5_0(float *y, const byte *b)
{
    const __m128i q = load16(b + 6);
    put(y, minus(_mm_or_si128(field(q, 0, 4), fifth_bits(b + 2)), 16), half(b));
    put(y + 16, minus(_mm_or_si128(field(q, 4, 4), fifth_bits(b + 4)), 16), half(b));
}

INLINE void block_q5_1(float *y, const byte *b)
{
    const __m128i q = load16(b + 8);
    put_plus(y, _mm_or_si128(field(q, 0, 4), fifth_bits(b + 4)), half(b), half(b + 2));
    put_plus(y + 16, _mm_or_si128(field(q, 4, 4), fifth_bits(b + 6)), half(b), half(b + 2));
}

INLINE void block_q8_0(float *y, const byte *b)
{
    put(y, load16(b + 2), half(b));
    put(y + 16, load16(b + 18), half(b));
}

INLINE void block_q4_k(float *y, const byte *b)
{
    const float d = half(b), dmin = half(b + 2);
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (int i = 0; i < 32; i += 16)
            put_less(y + 32 * j + i, field(load16(b + 16 + j / 2 * 32 + i), j % 2 * 4, 4), s, m);
    }
}

INLINE void block_q5_k(float *y, const byte *b)
{
    const float d = half(b), dmin = half(b + 2);
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (int i = 0; i < 32; i += 16) {
            const __m128i low = field(load16(b + 48 + j / 2 * 32 + i), j % 2 * 4, 4);
            const __m128i high = upper(load16(b + 16 + i), j, 1, 4);
            put_less(y + 32 * j + i, _mm_or_si128(low, high), s, m);
        }
    }
}

INLINE void block_q2_k(float *y, const byte *b)
{
    const float d = half(b + 80), dmin = half(b + 82);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const __m128i q = load16(b + 16 + k / 8 * 32 + k % 2 * 16);
        put_less(y + 16 * k, field(q, k % 8 / 2 * 2, 2), d * (float)(b[k] & 15),
                 dmin * (float)(b[k] >> 4));
    }
}

INLINE void block_q3_k(float *y, const byte *b)
{
    const float d = half(b + 108);
    int8_t scale[16];
    zoe_block_scales(scale, b + 96);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const __m128i low = field(load16(b + 32 + k / 8 * 32 + k % 2 * 16), k % 8 / 2 * 2, 2);
        const __m128i high = upper(load16(b + k % 2 * 16), k / 2, 1, 2);
        put(y + 16 * k, minus(_mm_or_si128(low, high), 4), d * (float)scale[k]);
    }
}

INLINE void block_q6_k(float *y, const byte *b)
{
    const float d = half(b + 208);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const int j = k % 8 / 2, part = k % 2 * 16;
        const __m128i low = field(load16(b + k / 8 * 64 + j % 2 * 32 + part), j / 2 * 4, 4);
        const __m128i high = upper(load16(b + 128 + k / 8 * 32 + part), 2 * j, 2, 4);
        put(y + 16 * k, minus(_mm_or_si128(low, high), 32), d * (float)(int8_t)b[192 + k]);
    }
}

typedef void widen_block(float *y, const byte *b);

INLINE void widen(float *y, const void *x, zoe_dtype dtype, size_t n, widen_block *block)
{
    const size_t elements = zoe_block_elements(dtype), bytes = zoe_block_bytes(dtype);
    const byte *b = x;
    for (; n >= elements; n -= elements, y += elements, b += bytes)
        block(y, b);
    zoe_widen(y, b, dtype, n);
}

static void widen_q4_0_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q4_0, n, block_q4_0);
}

static void widen_q4_1_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q4_1, n, block_q4_1);
}

static void widen_q5_0_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q5_0, n, block_q5_0);
}

static void widen_q5_1_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q5_1, n, block_q5_1);
}

static void widen_q8_0_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q8_0, n, block_q8_0);
}

static void widen_q2_k_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q2_K, n, block_q2_k);
}

static void widen_q3_k_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q3_K, n, block_q3_k);
}

static void widen_q4_k_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q4_K, n, block_q4_k);
}

static void widen_q5_k_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q5_K, n, block_q5_k);
}

static void widen_q6_k_avx2(float *y, const void *x, size_t n)
{
    widen(y, x, ZOE_Q6_K, n, block_q6_k);
}

void zoe_kernels_fill_block_avx2(zoe_kernels *k)
{
    k->widen_q4_0 = widen_q4_0_avx2;
    k->widen_q4_1 = widen_q4_1_avx2;
    k->widen_q5_0 = widen_q5_0_avx2;
    k->widen_q5_1 = widen_q5_1_avx2;
    k->widen_q8_0 = widen_q8_0_avx2;
    k->widen_q2_k = widen_q2_k_avx2;
    k->widen_q3_k = widen_q3_k_avx2;
    k->widen_q4_k = widen_q4_k_avx2;
    k->widen_q5_k = widen_q5_k_avx2;
    k->widen_q6_k = widen_q6_k_avx2;
}
