/* Block-quantised types: guests for AVX2, made of what block_guest.h asks for. */
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

INLINE __m128i either(__m128i a, __m128i b)
{
    return _mm_or_si128(a, b);
}

typedef __m128i bytes16;
#define BLOCK_GUEST(name) widen_##name##_avx2
#include "kernel/block_guest.h"

void zoe_kernels_fill_block_avx2(zoe_kernels *k)
{
    fill(k);
}
