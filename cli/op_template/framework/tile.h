/* The tile interface: what a kernel is written with.
 *
 * A tile is an array of float of any length n, in the scratch memory of a block. A kernel loads
 * what it needs into tiles, computes on them in plain loops, and stores the result:
 *
 *   tile_load(t, x, n)             t[i] = x[i], exact
 *   tile_store(y, t, n)            y[i] = t[i], rounded once, ties to even; too large is infinite;
 *                                  NaN stays NaN and is quiet
 *   tile_sum(x, n)                 sum of x[i]
 *   tile_sum_squares(x, n)         sum of x[i]^2
 *   tile_dot(t, u, n)              sum of t[i] u[i]
 *   tile_max(t, n), tile_min(t, n) NaN if one of them is NaN; -inf and inf if n is 0
 *   tile_exp(t, n)                 t[i] = e^t[i], within 1.1 units in the last place
 *
 * x, z and y are tensors or tiles: f16 *, bf16 * or float *; t and u are tiles. A pass over a
 * tile costs as much as a pass over a tensor, so a kernel that needs no tile may load, compute
 * and store in one go:
 *
 *   tile_map(y, n, a, x, value)          y[i] = value, any expression of floats, where a is x[i]
 *   tile_map2(y, n, a, x, b, z, value)   the same, where a is x[i] and b is z[i]
 *   tile_store_each(y, i, n, value)      the same, of any expression with the index i
 *
 * for example tile_map2(y, n, a, x, b, gamma, a * scale * b).
 *
 * Sums have 32 lanes: element i goes into lane i mod 32, in order, and the lanes are added
 * pairwise at the end. So a sum has the same bits wherever its tile begins and whatever
 * instructions the compiler takes, and an error of about n / 32 roundings at most. Denormals are
 * kept. A product and a sum are two roundings: the kernels are compiled with -ffp-contract=off,
 * never with -ffast-math. Which NaN comes out of an operation on two NaNs is not said.
 *
 * The compiler vectorises a loop such as
 *   for (size_t i = 0; i < n; i++)
 *       t[i] = t[i] * scale * gamma[i];
 * by itself if it knows that the arrays do not overlap: write float *restrict. A tile that
 * begins at a multiple of TILE_LANES floats from the beginning of the scratch memory
 * (tile_round) is aligned to 64 bytes. */
#ifndef TILE_H
#define TILE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "op.h" /* TILE_LANES, tile_round */

#if defined(__F16C__) && defined(__AVX2__)
#include <immintrin.h>
#endif

typedef struct f16 {
    uint16_t bits;
} f16;
typedef struct bf16 {
    uint16_t bits;
} bf16;

/* Not every kernel uses all of them. */
#define TILE_FUNCTION static inline __attribute__((unused))
#define TILE_INLINE static inline __attribute__((always_inline, unused))

/* ---- one number ---- */

TILE_FUNCTION uint32_t tile_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TILE_FUNCTION float tile_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TILE_FUNCTION float tile_from_bf16(bf16 x)
{
    return tile_from_bits((uint32_t)x.bits << 16);
}

/* The exponent of f16 moved to where f32 has it is 112 too small; the product puts that right,
 * also for denormals. */
TILE_FUNCTION float tile_from_f16(f16 x)
{
    const uint32_t size = (uint32_t)(x.bits & 0x7fff) << 13, sign = (uint32_t)(x.bits & 0x8000)
                                                                    << 16;
    const uint32_t finite = tile_bits(tile_from_bits(size) * 0x1p112f);
    const uint32_t quiet = size > 0x0f800000 ? 0x00400000 : 0;
    return tile_from_bits((size >= 0x0f800000 ? size | 0x7f800000 | quiet : finite) | sign);
}

/* Adding half of the last place, less one bit unless the place is odd, and cutting rounds ties
 * to even. */
TILE_FUNCTION bf16 tile_to_bf16(float x)
{
    const uint32_t bits = tile_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t nan = bits | 0x00400000;
    return (bf16){(uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16)};
}

/* Below 2^-14 the places of f16 are 2^-24 apart, which are those of 0.5 in f32: adding 0.5
 * rounds to them. */
TILE_FUNCTION f16 tile_to_f16(float x)
{
    const uint32_t bits = tile_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const uint32_t normal = (size - 0x38000000 + 0x0fff + (size >> 13 & 1)) >> 13;
    const uint32_t small = tile_bits(tile_from_bits(size) + 0.5f) - 0x3f000000;
    const uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
    uint32_t half = size < 0x38800000 ? small : normal;
    half = size >= 0x477ff000 ? 0x7c00 : half; /* from 65520 on */
    half = size > 0x7f800000 ? nan : half;
    return (f16){(uint16_t)(half | sign)};
}

/* ---- eight numbers ---- */

/* In as many registers as the instruction set needs for them. */
typedef float tile_eight __attribute__((vector_size(32)));

TILE_INLINE void tile_add(tile_eight *sum, const float *a)
{
    tile_eight u;
    memcpy(&u, a, sizeof u);
    *sum += u;
}

TILE_INLINE void tile_add_product(tile_eight *sum, const float *a, const float *b)
{
    tile_eight u, v;
    memcpy(&u, a, sizeof u);
    memcpy(&v, b, sizeof v);
    *sum += u * v;
}

#if defined(__F16C__) && defined(__AVX2__)

TILE_INLINE void tile_load8_float(float *t, const float *x)
{
    _mm256_storeu_ps(t, _mm256_loadu_ps(x));
}

TILE_INLINE void tile_store8_float(float *y, const float *t)
{
    _mm256_storeu_ps(y, _mm256_loadu_ps(t));
}

TILE_INLINE void tile_load8_f16(float *t, const f16 *x)
{
    _mm256_storeu_ps(t, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x)));
}

TILE_INLINE void tile_store8_f16(f16 *y, const float *t)
{
    _mm_storeu_si128((__m128i *)(void *)y,
                     _mm256_cvtps_ph(_mm256_loadu_ps(t), _MM_FROUND_TO_NEAREST_INT));
}

TILE_INLINE void tile_load8_bf16(float *t, const bf16 *x)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
    _mm256_storeu_ps(t, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}

TILE_INLINE void tile_store8_bf16(bf16 *y, const float *t)
{
    const __m256 v = _mm256_loadu_ps(t);
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, nan, is_nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128((__m128i *)(void *)y, _mm256_castsi256_si128(packed));
}

#else

TILE_INLINE void tile_load8_float(float *t, const float *x)
{
    memcpy(t, x, 8 * sizeof *t);
}

TILE_INLINE void tile_store8_float(float *y, const float *t)
{
    memcpy(y, t, 8 * sizeof *y);
}

TILE_INLINE void tile_load8_f16(float *t, const f16 *x)
{
    for (size_t i = 0; i < 8; i++)
        t[i] = tile_from_f16(x[i]);
}

TILE_INLINE void tile_store8_f16(f16 *y, const float *t)
{
    for (size_t i = 0; i < 8; i++)
        y[i] = tile_to_f16(t[i]);
}

TILE_INLINE void tile_load8_bf16(float *t, const bf16 *x)
{
    for (size_t i = 0; i < 8; i++)
        t[i] = tile_from_bf16(x[i]);
}

TILE_INLINE void tile_store8_bf16(bf16 *y, const float *t)
{
    for (size_t i = 0; i < 8; i++)
        y[i] = tile_to_bf16(t[i]);
}

#endif

/* ---- sums ---- */

typedef struct tile_lanes {
    tile_eight part[TILE_LANES / 8];
} tile_lanes;

/* With the last elements, behind which the two arrays hold zeros. */
TILE_INLINE float tile_fold(const tile_lanes *sum, const float *a, const float *b)
{
    float lane[TILE_LANES];
    memcpy(lane, sum, sizeof lane);
    for (size_t i = 0; i < TILE_LANES; i++)
        lane[i] += a[i] * b[i];
    for (size_t half = TILE_LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static const float tile_ones[TILE_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

TILE_FUNCTION float tile_dot(const float *a, const float *b, size_t n)
{
    tile_lanes sum = {0};
    size_t i = 0;
    for (; n - i >= TILE_LANES; i += TILE_LANES)
        for (size_t p = 0; p < TILE_LANES / 8; p++)
            tile_add_product(&sum.part[p], a + i + 8 * p, b + i + 8 * p);
    float last[2][TILE_LANES] = {{0}};
    for (size_t l = 0; l < n % TILE_LANES; l++) {
        last[0][l] = a[i + l];
        last[1][l] = b[i + l];
    }
    return tile_fold(&sum, last[0], last[1]);
}

/* ---- load and store ---- */

/* The functions for one type: tile_load_<type> and so on. */
#define TILE_TYPE(type, to_float, from_float)                                                      \
    TILE_FUNCTION void tile_load_##type(float *restrict t, const type *restrict x, size_t n)       \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; n - i >= 8; i += 8)                                                                 \
            tile_load8_##type(t + i, x + i);                                                       \
        for (size_t l = 0; l < n % 8; l++)                                                         \
            t[i + l] = to_float(x[i + l]);                                                         \
    }                                                                                              \
                                                                                                   \
    TILE_FUNCTION void tile_store_##type(type *restrict y, const float *restrict t, size_t n)      \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; n - i >= 8; i += 8)                                                                 \
            tile_store8_##type(y + i, t + i);                                                      \
        for (size_t l = 0; l < n % 8; l++)                                                         \
            y[i + l] = from_float(t[i + l]);                                                       \
    }

#define TILE_SAME(x) (x)
TILE_TYPE(f16, tile_from_f16, tile_to_f16)
TILE_TYPE(bf16, tile_from_bf16, tile_to_bf16)
TILE_TYPE(float, TILE_SAME, TILE_SAME)

/* What is computed in one go goes through a buffer of so many elements: those of one register
 * where conversions are instructions, enough for a loop that the compiler vectorises elsewhere. */
#if defined(__F16C__) && defined(__AVX2__)
enum { TILE_STEP = 8, TILE_CHUNK = TILE_LANES };
#else
enum { TILE_STEP = 64, TILE_CHUNK = 4 * TILE_LANES };
#endif

#define TILE_SUM(name, type, add, fold_with)                                                       \
    TILE_FUNCTION float name##_##type(const type *x, size_t n)                                     \
    {                                                                                              \
        tile_lanes sum = {0};                                                                      \
        float t[TILE_CHUNK];                                                                       \
        for (; n >= TILE_CHUNK; n -= TILE_CHUNK, x += TILE_CHUNK) {                                \
            tile_load_##type(t, x, TILE_CHUNK);                                                    \
            for (size_t i = 0; i < TILE_CHUNK; i += TILE_LANES)                                    \
                for (size_t p = 0; p < TILE_LANES / 8; p++)                                        \
                    add(i + 8 * p);                                                                \
        }                                                                                          \
        tile_load_##type(t, x, n);                                                                 \
        size_t i = 0;                                                                              \
        for (; n - i >= TILE_LANES; i += TILE_LANES)                                               \
            for (size_t p = 0; p < TILE_LANES / 8; p++)                                            \
                add(i + 8 * p);                                                                    \
        float last[TILE_LANES] = {0};                                                              \
        for (size_t l = 0; l < n % TILE_LANES; l++)                                                \
            last[l] = t[i + l];                                                                    \
        return tile_fold(&sum, last, fold_with);                                                   \
    }
#define TILE_ADD(at) tile_add(&sum.part[p], t + (at))
#define TILE_ADD_SQUARE(at) tile_add_product(&sum.part[p], t + (at), t + (at))

TILE_SUM(tile_sum, f16, TILE_ADD, tile_ones)
TILE_SUM(tile_sum, bf16, TILE_ADD, tile_ones)
TILE_SUM(tile_sum, float, TILE_ADD, tile_ones)
TILE_SUM(tile_sum_squares, f16, TILE_ADD_SQUARE, last)
TILE_SUM(tile_sum_squares, bf16, TILE_ADD_SQUARE, last)
TILE_SUM(tile_sum_squares, float, TILE_ADD_SQUARE, last)

#define TILE_BY_TYPE(x, f)                                                                         \
    _Generic((x), const f16 *: f##_f16, const bf16 *: f##_bf16, const float *: f##_float,          \
             f16 *: f##_f16, bf16 *: f##_bf16, float *: f##_float)
#define tile_load(t, x, n) TILE_BY_TYPE(x, tile_load)(t, x, n)
#define tile_sum(x, n) TILE_BY_TYPE(x, tile_sum)(x, n)
#define tile_sum_squares(x, n) TILE_BY_TYPE(x, tile_sum_squares)(x, n)
#define tile_store(y, t, n) TILE_BY_TYPE(y, tile_store)(y, t, n)
#define tile_store_each(y, i, n, value)                                                            \
    do {                                                                                           \
        size_t at_ = 0;                                                                            \
        for (; (n)-at_ >= TILE_STEP; at_ += TILE_STEP) {                                           \
            float out_[TILE_STEP];                                                                 \
            for (size_t lane_ = 0; lane_ < TILE_STEP; lane_++) {                                   \
                const size_t i = at_ + lane_;                                                      \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, TILE_STEP);                                                \
        }                                                                                          \
        if (at_ < (n)) {                                                                           \
            float out_[TILE_STEP];                                                                 \
            for (size_t lane_ = 0; lane_ < (n) % TILE_STEP; lane_++) {                             \
                const size_t i = at_ + lane_;                                                      \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, (n) % TILE_STEP);                                          \
        }                                                                                          \
    } while (0)

#define tile_map(y, n, a, x, value)                                                                \
    do {                                                                                           \
        size_t at_ = 0;                                                                            \
        for (; (n)-at_ >= TILE_STEP; at_ += TILE_STEP) {                                           \
            float in_[TILE_STEP], out_[TILE_STEP];                                                 \
            tile_load(in_, (x) + at_, TILE_STEP);                                                  \
            for (size_t lane_ = 0; lane_ < TILE_STEP; lane_++) {                                   \
                const float a = in_[lane_];                                                        \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, TILE_STEP);                                                \
        }                                                                                          \
        if (at_ < (n)) {                                                                           \
            float in_[TILE_STEP], out_[TILE_STEP];                                                 \
            tile_load(in_, (x) + at_, (n) % TILE_STEP);                                            \
            for (size_t lane_ = 0; lane_ < (n) % TILE_STEP; lane_++) {                             \
                const float a = in_[lane_];                                                        \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, (n) % TILE_STEP);                                          \
        }                                                                                          \
    } while (0)

#define tile_map2(y, n, a, x, b, z, value)                                                         \
    do {                                                                                           \
        size_t at_ = 0;                                                                            \
        for (; (n)-at_ >= TILE_STEP; at_ += TILE_STEP) {                                           \
            float in_[TILE_STEP], more_[TILE_STEP], out_[TILE_STEP];                               \
            tile_load(in_, (x) + at_, TILE_STEP);                                                  \
            tile_load(more_, (z) + at_, TILE_STEP);                                                \
            for (size_t lane_ = 0; lane_ < TILE_STEP; lane_++) {                                   \
                const float a = in_[lane_], b = more_[lane_];                                      \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, TILE_STEP);                                                \
        }                                                                                          \
        if (at_ < (n)) {                                                                           \
            float in_[TILE_STEP], more_[TILE_STEP], out_[TILE_STEP];                               \
            tile_load(in_, (x) + at_, (n) % TILE_STEP);                                            \
            tile_load(more_, (z) + at_, (n) % TILE_STEP);                                          \
            for (size_t lane_ = 0; lane_ < (n) % TILE_STEP; lane_++) {                             \
                const float a = in_[lane_], b = more_[lane_];                                      \
                out_[lane_] = (value);                                                             \
            }                                                                                      \
            tile_store((y) + at_, out_, (n) % TILE_STEP);                                          \
        }                                                                                          \
    } while (0)

/* ---- largest and smallest ---- */

/* A NaN loses every comparison, so it is kept beside the lanes. */
#define TILE_EXTREME(name, better, start)                                                          \
    TILE_FUNCTION float name(const float *t, size_t n)                                             \
    {                                                                                              \
        float lane[TILE_LANES], found = (start);                                                   \
        uint32_t nan[TILE_LANES] = {0}, any = 0;                                                   \
        for (size_t l = 0; l < TILE_LANES; l++)                                                    \
            lane[l] = (start);                                                                     \
        for (size_t i = 0; i < n; i += TILE_LANES) {                                               \
            const size_t lanes = n - i < TILE_LANES ? n - i : TILE_LANES;                          \
            for (size_t l = 0; l < lanes; l++) {                                                   \
                lane[l] = t[i + l] better lane[l] ? t[i + l] : lane[l];                            \
                nan[l] |= t[i + l] != t[i + l];                                                    \
            }                                                                                      \
        }                                                                                          \
        for (size_t l = 0; l < TILE_LANES; l++) {                                                  \
            found = lane[l] better found ? lane[l] : found;                                        \
            any |= nan[l];                                                                         \
        }                                                                                          \
        return any ? NAN : found;                                                                  \
    }
TILE_EXTREME(tile_max, >, -INFINITY)
TILE_EXTREME(tile_min, <, INFINITY)

/* ---- e^x ---- */

/* e^x = 2^k e^r with |r| <= ln(2) / 2; ln(2) in two parts, of which k times the first is exact.
 * e^r by the series of Taylor up to r^7, whose next term is below 2^-31. 2^k in two factors, so
 * that denormal results are rounded once. */
TILE_FUNCTION void tile_exp(float *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float x = t[i];
        float in = x < -104.0f ? -104.0f : x;
        in = in > 89.0f ? 89.0f : in;
        in = x == x ? in : 0.0f;
        const float k = (in * 0x1.715476p+0f + 0x1.8p23f) - 0x1.8p23f;
        const float r = (in - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
        float p = 1.0f / 5040.0f;
        p = p * r + 1.0f / 720.0f;
        p = p * r + 1.0f / 120.0f;
        p = p * r + 1.0f / 24.0f;
        p = p * r + 1.0f / 6.0f;
        p = p * r + 0.5f;
        p = p * (r * r) + r + 1.0f;
        const int32_t exponent = (int32_t)k, first = exponent / 2, second = exponent - first;
        const float scaled = p * tile_from_bits((uint32_t)(first + 127) << 23) *
                             tile_from_bits((uint32_t)(second + 127) << 23);
        t[i] = x == x ? scaled : x + x;
    }
}

#endif
