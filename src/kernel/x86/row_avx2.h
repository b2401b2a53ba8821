/* Sixteen elements of a row at a time with AVX2, in whatever type they are stored. Functions here
 * take types as arguments and are inlined into loops that know them, so that no loop asks for a
 * type. */
#ifndef ZOE_ROW_AVX2_H
#define ZOE_ROW_AVX2_H

#include "kernel/x86/vector_avx2.h"

#define ROW_INLINE static inline __attribute__((always_inline))

/* Elements in order: a has the first eight. Split: a has those of even index, b those of odd index,
 * which saves moves between lanes where every operand is bf16. */
typedef struct v16 {
    __m256 a, b;
} v16;

ROW_INLINE v16 row_load(const void *p, zoe_dtype type, bool split)
{
    v16 v;
    if (type == ZOE_F32) {
        v.a = _mm256_loadu_ps(p);
        v.b = _mm256_loadu_ps((const float *)p + 8);
    } else if (type == ZOE_F16) {
        v.a = _mm256_cvtph_ps(_mm_loadu_si128(p));
        v.b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1));
    } else if (split) {
        const __m256i u = _mm256_loadu_si256(p);
        v.a = _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
        v.b = _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000u)));
    } else {
        v.a = widen8_bf16(_mm_loadu_si128(p));
        v.b = widen8_bf16(_mm_loadu_si128((const __m128i *)p + 1));
    }
    return v;
}

/* bf16 in the upper half of each word, rounded to nearest even; the lower half is garbage. `exact`:
 * NaN may have any payload. Without it, its low 16 bits must be 0, and then the sum below cannot
 * carry out of it. */
ROW_INLINE __m256i row_round_up(__m256 v, bool exact)
{
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    return exact ? _mm256_or_si256(up, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) : up;
}

ROW_INLINE __m256 row_round8(__m256 v, zoe_dtype type, bool exact)
{
    if (type == ZOE_F16)
        return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    if (type == ZOE_BF16)
        return _mm256_castsi256_ps(
            _mm256_and_si256(row_round_up(v, exact), _mm256_set1_epi32((int)0xffff0000u)));
    return v;
}

ROW_INLINE v16 row_round(v16 v, zoe_dtype type, bool exact)
{
    return (v16){row_round8(v.a, type, exact), row_round8(v.b, type, exact)};
}

ROW_INLINE void row_put(void *p, __m256i v, bool stream)
{
    if (stream)
        _mm256_stream_si256(p, v);
    else
        _mm256_storeu_si256(p, v);
}

/* stream: p is a multiple of 32. */
ROW_INLINE void row_store(void *p, v16 v, zoe_dtype type, bool split, bool exact, bool stream)
{
    if (type == ZOE_F32) {
        row_put(p, _mm256_castps_si256(v.a), stream);
        row_put((float *)p + 8, _mm256_castps_si256(v.b), stream);
    } else if (type == ZOE_F16) {
        row_put(p,
                _mm256_set_m128i(_mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT),
                                 _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT)),
                stream);
    } else {
        const __m256i a = _mm256_srli_epi32(row_round_up(v.a, exact), 16);
        const __m256i b = row_round_up(v.b, exact);
        if (split)
            row_put(p, _mm256_blend_epi16(a, b, 0xaa), stream);
        else
            row_put(
                p, _mm256_permute4x64_epi64(_mm256_packus_epi32(a, _mm256_srli_epi32(b, 16)), 0xd8),
                stream);
    }
}

/* Elements to handle before a row at y of this type can be streamed; SIZE_MAX if never. */
static inline size_t row_head(const void *y, size_t element, size_t line)
{
    const size_t bytes = (0 - (uintptr_t)y) % line;
    return bytes % element == 0 ? bytes / element : SIZE_MAX;
}

static inline size_t row_element(zoe_dtype type)
{
    return type == ZOE_F32 ? 4 : 2;
}

static inline const void *row_at(const void *p, zoe_dtype type, size_t i)
{
    return (const unsigned char *)p + i * row_element(type);
}

/* The first n < 16 elements at p, with zeroes behind them in `room`. */
static inline const void *row_part(float room[16], const void *p, zoe_dtype type, size_t n)
{
    memset(room, 0, 16 * sizeof *room);
    memcpy(room, p, n * row_element(type));
    return room;
}

#endif
