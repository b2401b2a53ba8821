/* Softmax over rows of scores: guests for NEON. */
#include "kernel/arm/vector_neon.h"

#define EACH _Pragma("GCC unroll 4") for (size_t j = 0; j < 4; j++)

/* 2^t for t <= 0 within 1.5 ulp, for four vectors side by side, since each is one long chain; 0 below
 * 2^-126. NaN stays NaN. */
INLINE void exp2_four(float32x4_t t[4])
{
    /* Adding 1.5 * 2^23 leaves the nearest integer n in the low bits of the sum, and 127 more the
     * exponent's field of 2^n. */
    const float32x4_t magic = vdupq_n_f32(0x1.8p23f + 127.0f);
    float32x4_t shifted[4], p[4];
    EACH t[j] = vmaxq_f32(t[j], vdupq_n_f32(-127.0f));
    EACH shifted[j] = vaddq_f32(t[j], magic);
    EACH t[j] = vsubq_f32(t[j], vsubq_f32(shifted[j], magic));
    /* minimax to 9.2e-8 for |t| <= 1/2 */
    EACH p[j] = vfmaq_n_f32(vdupq_n_f32(0x1.3cea88p-7f), t[j], 0x1.5bba14p-10f);
    EACH p[j] = next_term(p[j], t[j], 0x1.c6b752p-5f);
    EACH p[j] = next_term(p[j], t[j], 0x1.ebf9bcp-3f);
    EACH p[j] = next_term(p[j], t[j], 0x1.62e42ap-1f);
    EACH p[j] = next_term(p[j], t[j], 1.0f);
    EACH t[j] =
        vmulq_f32(p[j], vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(shifted[j]), 23)));
}

/* The first n < 16 scores, and -inf behind them. */
INLINE void part16(float room[16], const float *s, size_t n)
{
    for (size_t i = n; i < 16; i++)
        room[i] = -INFINITY;
    memcpy(room, s, n * sizeof *s);
}

/* s[i] = 2^(s[i] - origin) for 16 of them; adds them to sum. */
INLINE void powers16(float *s, float32x4_t origin, float32x4_t sum[2])
{
    float32x4_t t[4];
    EACH t[j] = vsubq_f32(vld1q_f32(s + 4 * j), origin);
    exp2_four(t);
    EACH vst1q_f32(s + 4 * j, t[j]);
    sum[0] = vaddq_f32(sum[0], vaddq_f32(t[0], t[1]));
    sum[1] = vaddq_f32(sum[1], vaddq_f32(t[2], t[3]));
}

/* s[i] = 2^(s[i] - origin); returns the sum. */
INLINE float powers(float *s, size_t n, float origin)
{
    const float32x4_t o = vdupq_n_f32(origin);
    float32x4_t sum[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        powers16(s + i, o, sum);
    if (i < n) {
        float room[16];
        part16(room, s + i, n - i);
        powers16(room, o, sum);
        memcpy(s + i, room, (n - i) * sizeof *s);
    }
    return vaddvq_f32(vaddq_f32(sum[0], sum[1]));
}

/* The largest of s and top, passing over NaN. */
INLINE float top_of(const float *s, size_t n, float top)
{
    float32x4_t high[4];
    size_t i = 0;
    EACH high[j] = vdupq_n_f32(top);
    for (; i + 16 <= n; i += 16)
        EACH high[j] = larger(vld1q_f32(s + i + 4 * j), high[j]);
    for (; i < n; i += 4)
        high[0] = larger(load_part_or(s + i, n - i, -INFINITY), high[0]);
    return vmaxvq_f32(larger(larger(high[0], high[1]), larger(high[2], high[3])));
}

/* Up to 16 rows, so that the factors, one a row, are computed in vectors. */
enum { ROWS = 16 };
INLINE void softmax_rows(float *s, size_t stride, size_t rows, size_t n, float *max, float *sum,
                         float *factor)
{
    float origin[ROWS], powers_of[ROWS] = {0};
    float32x4_t t[4];
    for (size_t r = 0; r < rows; r++) {
        const float top = top_of(s + r * stride, n, max[r]);
        /* With nothing above -inf yet, weights must be 2^-inf = 0 and not 2^(-inf + inf). */
        origin[r] = top == -INFINITY ? 0.0f : top;
        powers_of[r] = max[r] - origin[r];
        max[r] = top;
    }
    EACH t[j] = vld1q_f32(powers_of + 4 * j);
    exp2_four(t);
    EACH vst1q_f32(powers_of + 4 * j, t[j]);
    for (size_t r = 0; r < rows; r++) {
        factor[r] = powers_of[r];
        sum[r] = sum[r] * factor[r] + powers(s + r * stride, n, origin[r]);
    }
}

static void softmax_step_neon(float *s, size_t stride, size_t rows, size_t n, float *max,
                              float *sum, float *factor)
{
    for (size_t r = 0; r < rows; r += ROWS)
        softmax_rows(s + r * stride, stride, rows - r < ROWS ? rows - r : ROWS, n, max + r, sum + r,
                     factor + r);
}

/* s[i] = e^(s[i] - origin); returns the sum. */
INLINE float exponentials(float *s, size_t n, float origin)
{
    const float32x4_t o = vdupq_n_f32(origin);
    float32x4_t sum = vdupq_n_f32(0.0f);
    for (size_t i = 0; i < n; i += 4) {
        const float32x4_t v = load_part_or(s + i, n - i, -INFINITY);
        const float32x4_t e = exp_not_positive(vsubq_f32(v, o));
        store_part(s + i, e, n - i);
        sum = vaddq_f32(sum, e);
    }
    return vaddvq_f32(sum);
}

static void softmax_bf16_neon(float *s, size_t n, float scale, const float *bias, float extra)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i += 4) {
        float32x4_t t = round_to_bf16(vmulq_n_f32(load_part(s + i, n - i), scale));
        if (bias)
            t = round_to_bf16(vaddq_f32(t, load_part(bias + i, n - i)));
        store_part(s + i, t, n - i);
    }
    s[n - 1] += extra;
    const float32x4_t sum = vdupq_n_f32(exponentials(s, n, top_of(s, n, -INFINITY)));
    for (size_t i = 0; i < n; i += 4)
        store_part(s + i, round_to_bf16(vdivq_f32(load_part(s + i, n - i), sum)), n - i);
}

static void scale_neon(float *y, float factor, size_t n)
{
#define FOUR(i, part) store_part(y + (i), vmulq_n_f32(load_part(y + (i), part), factor), part)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

void zoe_kernels_fill_softmax_neon(zoe_kernels *k)
{
    k->softmax_step = softmax_step_neon;
    k->softmax_bf16 = softmax_bf16_neon;
    k->scale = scale_neon;
}
