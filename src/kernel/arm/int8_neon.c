/* Products of int8: guests for NEON. Bytes are multiplied to 16 bits, which holds any product of two,
 * and neighbouring products are added to sums of 32 bits. */
#include "kernel/arm/vector_neon.h"

/* Rows of one inner loop: each has two sums a column, those of even and of odd pairs of elements, which
 * are 8 registers for a panel. */
enum { ROWS = 2, PARTS = ZOE_PANEL / 2 };

/* Four elements of a row, four times; behind the last element they are 0. */
INLINE int8x16_t four_times(const int8_t *a, size_t n)
{
    int32_t v = 0;
    if (n >= 4)
        memcpy(&v, a, 4);
    else
        memcpy(&v, a, n);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

/* Adds fours of elements of `rows` rows to their sums: `rows` <= ROWS is a constant at each call, so that
 * the sums are registers. s[m][p] has those of columns 2 p and 2 p + 1. */
INLINE void add_products(int32x4_t s[ROWS][PARTS], const int8_t *a, size_t a_stride,
                         const int8_t *w, const size_t rows, size_t n)
{
#pragma GCC unroll 2
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (size_t p = 0; p < PARTS; p++)
            s[m][p] = vdupq_n_s32(0);
    for (size_t i = 0; i < n; i += 4, w += 4 * ZOE_PANEL) {
        int8x16_t x[ROWS];
#pragma GCC unroll 2
        for (size_t m = 0; m < rows; m++)
            x[m] = four_times(a + m * a_stride + i, n - i);
#pragma GCC unroll 4
        for (size_t q = 0; q < PARTS / 2; q++) {
            const int8x16_t columns = vld1q_s8(w + 16 * q);
#pragma GCC unroll 2
            for (size_t m = 0; m < rows; m++) {
                const int16x8_t low = vmull_s8(vget_low_s8(columns), vget_low_s8(x[m]));
                s[m][2 * q] = vpadalq_s16(s[m][2 * q], low);
                s[m][2 * q + 1] = vpadalq_s16(s[m][2 * q + 1], vmull_high_s8(columns, x[m]));
            }
        }
    }
}

/* `rows` rows and one panel: elements from .. from + n - 1 of each. */
typedef struct part {
    size_t row, panel, from, n, group;
    bool add, scaled;
} part;

INLINE void multiply_rows(void *c, size_t c_stride, const zoe_int8_product *p, part b,
                          const size_t rows)
{
    int32x4_t s[ROWS][PARTS];
    add_products(s, p->a + b.row * p->a_stride + b.from, p->a_stride,
                 p->w + b.panel * p->w_distance + b.from * ZOE_PANEL, rows, b.n);
    const float *w_scale =
        b.scaled ? p->w_scale + b.panel * p->w_scale_distance + b.group * ZOE_PANEL : NULL;
#pragma GCC unroll 2
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (size_t j = 0; j < PARTS / 2; j++) {
            const int32x4_t sum = vpaddq_s32(s[m][2 * j], s[m][2 * j + 1]);
            const size_t at = (b.row + m) * c_stride + b.panel * ZOE_PANEL + 4 * j;
            if (b.scaled) {
                float *out = (float *)c + at;
                const float a_scale = p->a_scale[(b.row + m) * p->a_scale_stride + b.group];
                const float32x4_t v = vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(w_scale + 4 * j));
                const float32x4_t before = b.add ? vld1q_f32(out) : vdupq_n_f32(0.0f);
                vst1q_f32(out, vaddq_f32(before, vmulq_n_f32(v, a_scale)));
            } else {
                int32_t *out = (int32_t *)c + at;
                vst1q_s32(out, b.add ? vaddq_s32(vld1q_s32(out), sum) : sum);
            }
        }
}

/* One panel after the other, in groups of `depth` elements: a group of a panel stays in the first cache
 * while all rows meet it. */
INLINE void multiply(void *c, size_t c_stride, const zoe_int8_product *p, bool add, size_t depth,
                     bool scaled)
{
    part b = {.scaled = scaled};
    for (b.panel = 0; b.panel < p->panels; b.panel++)
        for (b.from = b.group = 0; b.from < p->k; b.from += depth, b.group++) {
            b.n = p->k - b.from < depth ? p->k - b.from : depth;
            b.add = add || b.group > 0;
            for (b.row = 0; b.row + ROWS <= p->rows; b.row += ROWS)
                multiply_rows(c, c_stride, p, b, ROWS);
            if (b.row < p->rows)
                multiply_rows(c, c_stride, p, b, 1);
        }
}

static void gemm_neon(int32_t *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, ZOE_INT8_DEPTH / 2, false);
}

static void gemm_scaled_neon(float *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, p->group, true);
}

/* vmaxq gives NaN if either operand is. */
static float peak_neon(const float *x, size_t n)
{
    float32x4_t peak = vdupq_n_f32(0.0f), other = peak;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(x + i, ZOE_F32);
        peak = vmaxq_f32(peak, vabsq_f32(v.a));
        other = vmaxq_f32(other, vabsq_f32(v.b));
    }
    for (; i < n; i += 4)
        peak = vmaxq_f32(peak, vabsq_f32(load_part(x + i, n - i)));
    return vmaxvq_f32(vmaxq_f32(peak, other));
}

/* Four products rounded to nearest even, within 16 bits; the conversion makes NaN 0. */
INLINE int16x4_t rounded(float32x4_t v, float factor)
{
    return vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v, factor)));
}

static void round_neon(int8_t *q, const float *x, float factor, size_t n)
{
    const int8x8_t least = vdup_n_s8(-127);
    float room[8];
    for (size_t i = 0; i < n; i += 8) {
        const size_t left = n - i;
        const v8 v = load8(left < 8 ? part8(room, x + i, ZOE_F32, left) : x + i, ZOE_F32);
        const int8x8_t bytes =
            vmax_s8(vqmovn_s16(vcombine_s16(rounded(v.a, factor), rounded(v.b, factor))), least);
        if (left >= 8) {
            vst1_s8(q + i, bytes);
        } else {
            int8_t last[8];
            vst1_s8(last, bytes);
            memcpy(q + i, last, left);
        }
    }
}

INLINE void scale4(float *y, const int32_t *c, const float *scale, float factor, size_t count)
{
    int32_t sums[4] = {0};
    memcpy(sums, c, count * sizeof *sums);
    const float32x4_t v = vmulq_f32(vcvtq_f32_s32(vld1q_s32(sums)), load_part(scale, count));
    store_part(y, vmulq_n_f32(v, factor), count);
}

static void scale_neon(float *y, const int32_t *c, const float *scale, float factor, size_t n)
{
#define FOUR(i, count) scale4(y + (i), c + (i), scale + (i), factor, count)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

void zoe_kernels_fill_int8_neon(zoe_kernels *k)
{
    k->int8_peak = peak_neon;
    k->int8_round = round_neon;
    k->int8_gemm = gemm_neon;
    k->int8_gemm_scaled = gemm_scaled_neon;
    k->int8_scale = scale_neon;
}
