/* Convolution tiles with NEON. */
#include "kernel/arm/vector_neon.h"

/* Sums of six pixels in 4 * `parts` channels: 24 of the registers with a panel of 16, 12 with one of 8,
 * which hides the latency of the fused operation as well. */
INLINE void tile(float *sums, const float *const *x, const float *w, size_t taps, size_t C,
                 const size_t parts)
{
    float32x4_t s[ZOE_CONV_ROWS][4];
#pragma GCC unroll 6
    for (size_t r = 0; r < ZOE_CONV_ROWS; r++)
#pragma GCC unroll 4
        for (size_t j = 0; j < parts; j++)
            s[r][j] = vdupq_n_f32(0.0f);
    for (size_t tap = 0; tap < taps; tap++, x += ZOE_CONV_ROWS) {
        const float *const row[ZOE_CONV_ROWS] = {x[0], x[1], x[2], x[3], x[4], x[5]};
        for (size_t c = 0; c < C; c++, w += 4 * parts) {
            float32x4_t p[4];
#pragma GCC unroll 4
            for (size_t j = 0; j < parts; j++)
                p[j] = vld1q_f32(w + 4 * j);
#pragma GCC unroll 6
            for (size_t r = 0; r < ZOE_CONV_ROWS; r++)
#pragma GCC unroll 4
                for (size_t j = 0; j < parts; j++)
                    s[r][j] = vfmaq_n_f32(s[r][j], p[j], row[r][c]);
        }
    }
#pragma GCC unroll 6
    for (size_t r = 0; r < ZOE_CONV_ROWS; r++)
#pragma GCC unroll 4
        for (size_t j = 0; j < parts; j++) {
            float *out = sums + 4 * (r * parts + j);
            vst1q_f32(out, vaddq_f32(vld1q_f32(out), s[r][j]));
        }
}

static void conv_neon(float *sums, const float *const *x, const float *w, size_t taps, size_t C,
                      size_t width)
{
    if (width == 16)
        tile(sums, x, w, taps, C, 4);
    else
        tile(sums, x, w, taps, C, 2);
}

INLINE void turn_three(float32x4_t out[4], float32x4_t w0, float32x4_t w1, float32x4_t w2)
{
    const float32x4_t outer = vaddq_f32(w0, w2);
    out[0] = w0;
    out[1] = vmulq_n_f32(vaddq_f32(outer, w1), 0.5f);
    out[2] = vmulq_n_f32(vsubq_f32(outer, w1), 0.5f);
    out[3] = w2;
}

static void winograd_weights_neon(float *u, size_t distance, const float *w, size_t w_distance,
                                  size_t n)
{
    for (size_t c = 0; c < n; c += 4) {
        float32x4_t columns[3][4], out[4];
#pragma GCC unroll 3
        for (size_t j = 0; j < 3; j++)
            turn_three(columns[j], vld1q_f32(w + j * w_distance + c),
                       vld1q_f32(w + (3 + j) * w_distance + c),
                       vld1q_f32(w + (6 + j) * w_distance + c));
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            turn_three(out, columns[0][i], columns[1][i], columns[2][i]);
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++)
                vst1q_f32(u + (4 * i + j) * distance + c, out[j]);
        }
    }
}

INLINE void turn_four(float32x4_t out[4], float32x4_t d0, float32x4_t d1, float32x4_t d2,
                      float32x4_t d3)
{
    out[0] = vsubq_f32(d0, d2);
    out[1] = vaddq_f32(d1, d2);
    out[2] = vsubq_f32(d2, d1);
    out[3] = vsubq_f32(d1, d3);
}

static void winograd_input_neon(float *v, size_t distance, const float *const *x, size_t C)
{
    for (size_t c = 0; c < C; c += 4) {
        float32x4_t rows[4][4], out[4];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++)
            turn_four(rows[i], vld1q_f32(x[4 * i] + c), vld1q_f32(x[4 * i + 1] + c),
                      vld1q_f32(x[4 * i + 2] + c), vld1q_f32(x[4 * i + 3] + c));
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            turn_four(out, rows[0][j], rows[1][j], rows[2][j], rows[3][j]);
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++)
                vst1q_f32(v + (4 * i + j) * distance + c, out[i]);
        }
    }
}

static void winograd_output_neon(float *y, const float *m, size_t distance, const float *bias,
                                 size_t width)
{
    for (size_t n = 0; n < width; n += 4) {
        const float32x4_t b = vld1q_f32(bias + n);
        float32x4_t rows[4][2];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            const float *at = m + 4 * i * distance + n;
            const float32x4_t m1 = vld1q_f32(at + distance), m2 = vld1q_f32(at + 2 * distance);
            rows[i][0] = vaddq_f32(vaddq_f32(vld1q_f32(at), m1), m2);
            rows[i][1] = vsubq_f32(vsubq_f32(m1, m2), vld1q_f32(at + 3 * distance));
        }
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            const float32x4_t above = vaddq_f32(vaddq_f32(rows[0][j], rows[1][j]), rows[2][j]);
            const float32x4_t below = vsubq_f32(vsubq_f32(rows[1][j], rows[2][j]), rows[3][j]);
            vst1q_f32(y + j * width + n, vaddq_f32(above, b));
            vst1q_f32(y + (2 + j) * width + n, vaddq_f32(below, b));
        }
    }
}

void zoe_kernels_fill_conv_neon(zoe_kernels *k)
{
    k->conv = conv_neon;
    k->winograd_weights = winograd_weights_neon;
    k->winograd_input = winograd_input_neon;
    k->winograd_output = winograd_output_neon;
}
