/* Convolution tiles with AVX2 and FMA. */
#include "kernel/kernel.h"

#include <immintrin.h>

/* Bytes by which weights are asked for before their use. */
enum { AHEAD = 4096 };

/* Two vectors of sums for each of six pixels; 12 chains hide the latency of the fused operation,
 * and leave registers for two vectors of weights and one spread input. */
static void tile_16(float *sums, const float *const *x, const float *w, size_t taps, size_t C)
{
    __m256 s[ZOE_CONV_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < ZOE_CONV_ROWS; r++)
        s[r][0] = s[r][1] = _mm256_setzero_ps();
    for (size_t tap = 0; tap < taps; tap++, x += ZOE_CONV_ROWS) {
        const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2];
        const float *const x3 = x[3], *const x4 = x[4], *const x5 = x[5];
        for (size_t c = 0; c < C; c++, w += 16) {
            const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8);
            /* The next panel often comes from far; what lies behind the last is not read. */
            _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
#define ROW(r)                                                                                     \
    do {                                                                                           \
        const __m256 v = _mm256_broadcast_ss(x##r + c);                                            \
        s[r][0] = _mm256_fmadd_ps(v, w0, s[r][0]);                                                 \
        s[r][1] = _mm256_fmadd_ps(v, w1, s[r][1]);                                                 \
    } while (0)
            ROW(0);
            ROW(1);
            ROW(2);
            ROW(3);
            ROW(4);
            ROW(5);
#undef ROW
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < ZOE_CONV_ROWS; r++, sums += 16) {
        _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), s[r][0]));
        _mm256_storeu_ps(sums + 8, _mm256_add_ps(_mm256_loadu_ps(sums + 8), s[r][1]));
    }
}

/* The same with one vector per pixel. Even and odd channels have sums of their own, else six chains
 * would be too few. */
static void tile_8(float *sums, const float *const *x, const float *w, size_t taps, size_t C)
{
    __m256 s[ZOE_CONV_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < ZOE_CONV_ROWS; r++)
        s[r][0] = s[r][1] = _mm256_setzero_ps();
    for (size_t tap = 0; tap < taps; tap++, x += ZOE_CONV_ROWS) {
        const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2];
        const float *const x3 = x[3], *const x4 = x[4], *const x5 = x[5];
        size_t c = 0;
        for (; c + 1 < C; c += 2, w += 16) {
            const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8);
#define ROW(r)                                                                                     \
    do {                                                                                           \
        s[r][0] = _mm256_fmadd_ps(_mm256_broadcast_ss(x##r + c), w0, s[r][0]);                     \
        s[r][1] = _mm256_fmadd_ps(_mm256_broadcast_ss(x##r + c + 1), w1, s[r][1]);                 \
    } while (0)
            ROW(0);
            ROW(1);
            ROW(2);
            ROW(3);
            ROW(4);
            ROW(5);
#undef ROW
        }
        if (c < C) {
            const __m256 w0 = _mm256_loadu_ps(w);
#define ROW(r) s[r][0] = _mm256_fmadd_ps(_mm256_broadcast_ss(x##r + c), w0, s[r][0])
            ROW(0);
            ROW(1);
            ROW(2);
            ROW(3);
            ROW(4);
            ROW(5);
#undef ROW
            w += 8;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < ZOE_CONV_ROWS; r++, sums += 8)
        _mm256_storeu_ps(sums,
                         _mm256_add_ps(_mm256_loadu_ps(sums), _mm256_add_ps(s[r][0], s[r][1])));
}

static void conv_avx2(float *sums, const float *const *x, const float *w, size_t taps, size_t C,
                      size_t width)
{
    if (width == 16)
        tile_16(sums, x, w, taps, C);
    else
        tile_8(sums, x, w, taps, C);
}

static inline void turn_three(__m256 out[4], __m256 w0, __m256 w1, __m256 w2)
{
    const __m256 half = _mm256_set1_ps(0.5f), outer = _mm256_add_ps(w0, w2);
    out[0] = w0;
    out[1] = _mm256_mul_ps(half, _mm256_add_ps(outer, w1));
    out[2] = _mm256_mul_ps(half, _mm256_sub_ps(outer, w1));
    out[3] = w2;
}

static void winograd_weights_avx2(float *u, size_t distance, const float *w, size_t w_distance,
                                  size_t n)
{
    for (size_t c = 0; c < n; c += 8) {
        __m256 columns[3][4], out[4];
#pragma GCC unroll 3
        for (size_t j = 0; j < 3; j++)
            turn_three(columns[j], _mm256_loadu_ps(w + j * w_distance + c),
                       _mm256_loadu_ps(w + (3 + j) * w_distance + c),
                       _mm256_loadu_ps(w + (6 + j) * w_distance + c));
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            turn_three(out, columns[0][i], columns[1][i], columns[2][i]);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++)
                _mm256_storeu_ps(u + (4 * i + j) * distance + c, out[j]);
        }
    }
}

static inline void turn_four(__m256 out[4], __m256 d0, __m256 d1, __m256 d2, __m256 d3)
{
    out[0] = _mm256_sub_ps(d0, d2);
    out[1] = _mm256_add_ps(d1, d2);
    out[2] = _mm256_sub_ps(d2, d1);
    out[3] = _mm256_sub_ps(d1, d3);
}

static void winograd_input_avx2(float *v, size_t distance, const float *const *x, size_t C)
{
    for (size_t c = 0; c < C; c += 8) {
        __m256 rows[4][4], out[4];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++)
            turn_four(rows[i], _mm256_loadu_ps(x[4 * i] + c), _mm256_loadu_ps(x[4 * i + 1] + c),
                      _mm256_loadu_ps(x[4 * i + 2] + c), _mm256_loadu_ps(x[4 * i + 3] + c));
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            turn_four(out, rows[0][j], rows[1][j], rows[2][j], rows[3][j]);
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++)
                _mm256_storeu_ps(v + (4 * i + j) * distance + c, out[i]);
        }
    }
}

static void winograd_output_avx2(float *y, const float *m, size_t distance, const float *bias,
                                 size_t width)
{
    for (size_t n = 0; n < width; n += 8) {
        const __m256 b = _mm256_loadu_ps(bias + n);
        __m256 rows[4][2];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            const float *at = m + 4 * i * distance + n;
            const __m256 m1 = _mm256_loadu_ps(at + distance);
            const __m256 m2 = _mm256_loadu_ps(at + 2 * distance);
            rows[i][0] = _mm256_add_ps(_mm256_add_ps(_mm256_loadu_ps(at), m1), m2);
            rows[i][1] = _mm256_sub_ps(_mm256_sub_ps(m1, m2), _mm256_loadu_ps(at + 3 * distance));
        }
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            const __m256 above = _mm256_add_ps(_mm256_add_ps(rows[0][j], rows[1][j]), rows[2][j]);
            const __m256 below = _mm256_sub_ps(_mm256_sub_ps(rows[1][j], rows[2][j]), rows[3][j]);
            _mm256_storeu_ps(y + j * width + n, _mm256_add_ps(above, b));
            _mm256_storeu_ps(y + (2 + j) * width + n, _mm256_add_ps(below, b));
        }
    }
}

void zoe_kernels_fill_conv_avx2(zoe_kernels *k)
{
    k->conv = conv_avx2;
    k->winograd_weights = winograd_weights_avx2;
    k->winograd_input = winograd_input_avx2;
    k->winograd_output = winograd_output_avx2;
}
