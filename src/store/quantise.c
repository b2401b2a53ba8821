/* See quantise.h. What the blocks mean is told in base/block.h. */
#include "store/quantise.h"

#include "base/block.h"

typedef unsigned char byte;

/* ---- numbers ---- */

/* To the nearest integer of low .. high; halves to even. */
static float rounded(float v, float low, float high)
{
    v = (v + 0x1.8p23f) - 0x1.8p23f;
    return v < low ? low : v > high ? high : v;
}

/* x / s, rounded likewise; 0 for a scale of 0. |x / s| may not exceed 2^22: larger is clamped
 * before. */
static float quotient(float x, float s, float low, float high)
{
    if (s == 0.0f)
        return 0.0f;
    const float v = x / s;
    return v <= low ? low : v >= high ? high : rounded(v, low, high);
}

/* Stores v as f16 and gives the value that it is then. */
static float put_half(byte *p, float v)
{
    const uint16_t h = zoe_f16_of_f32(v);
    p[0] = (byte)h;
    p[1] = (byte)(h >> 8);
    return zoe_f32_of_f16(h);
}

static uint8_t e4m3_of_f32(float v)
{
    const float magnitude = fabsf(v);
    const unsigned sign = zoe_bits_of_f32(v) >> 31 << 7;
    if (magnitude >= 448.0f)
        return (uint8_t)(sign | 0x7e);
    if (magnitude < 0x1p-6f) /* multiples of 2^-9 */
        return (uint8_t)(sign | (unsigned)rounded(magnitude * 0x1p9f, 0.0f, 8.0f));
    const uint32_t u = zoe_bits_of_f32(magnitude) - (120u << 23);
    return (uint8_t)(sign | (u + 0x7ffffu + (u >> 20 & 1u)) >> 20);
}

/* ---- scales ---- */

/* The value of largest magnitude, with its sign. */
static float peak_of(const float *x, size_t n)
{
    float peak = 0.0f;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(peak))
            peak = x[i];
    return peak;
}

/* Candidates around the scale that the range of the values gives. */
enum { TRIALS = 9 };
static float trial(float steps, int k)
{
    return steps + 0.25f * (float)(k - TRIALS / 2);
}

/* A scale s for x ~ s q with low <= q <= high, |low| > high. */
static float fit_scale(const float *x, size_t n, float low, float high)
{
    const float peak = peak_of(x, n);
    float best = peak / low, least = INFINITY;
    if (peak == 0.0f)
        return 0.0f;
    for (int k = 0; k < TRIALS; k++) {
        float s = peak / -trial(-low, k), xq = 0.0f, qq = 0.0f, error = 0.0f;
        for (size_t i = 0; i < n; i++) {
            const float q = quotient(x[i], s, low, high);
            xq += x[i] * q;
            qq += q * q;
        }
        if (qq > 0.0f)
            s = xq / qq;
        for (size_t i = 0; i < n; i++) {
            const float e = x[i] - s * quotient(x[i], s, low, high);
            error += e * e;
        }
        if (error < least) {
            least = error;
            best = s;
        }
    }
    return best;
}

typedef struct line {
    float scale, offset;
} line;

static float line_error(const float *x, size_t n, float top, line l)
{
    float error = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float q = quotient(x[i] - l.offset, l.scale, 0.0f, top);
        const float e = x[i] - (l.scale * q + l.offset);
        error += e * e;
    }
    return error;
}

/* The line of least squares for the elements that l rounds to; l itself if they are all one. */
static line refit(const float *x, size_t n, float top, line l, bool not_above_zero)
{
    float sx = 0.0f, sq = 0.0f, sqq = 0.0f, sxq = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float q = quotient(x[i] - l.offset, l.scale, 0.0f, top);
        sx += x[i];
        sq += q;
        sqq += q * q;
        sxq += x[i] * q;
    }
    const float count = (float)n, det = count * sqq - sq * sq;
    if (!(det > 0.0f))
        return l;
    line r = {(count * sxq - sq * sx) / det, (sqq * sx - sq * sxq) / det};
    if (not_above_zero && r.offset > 0.0f)
        r = (line){sxq / sqq, 0.0f};
    return r.scale > 0.0f ? r : l;
}

/* Scale and offset for x ~ scale q + offset with 0 <= q <= top, scale >= 0. */
static line fit_line(const float *x, size_t n, float top, bool not_above_zero)
{
    float low = x[0], high = x[0], least = INFINITY;
    for (size_t i = 1; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    if (not_above_zero)
        low = fminf(low, 0.0f);
    line best = {0.0f, low};
    for (int k = 0; k < TRIALS && high > low; k++) {
        const line first = {(high - low) / trial(top, k), low};
        const line l = refit(x, n, top, first, not_above_zero);
        const float error = line_error(x, n, top, l);
        if (error < least) {
            least = error;
            best = l;
        }
    }
    return best;
}

/* ---- 32 elements ---- */

static void quantise_q8_0(byte *b, const float *x)
{
    const float d = put_half(b, fabsf(peak_of(x, 32)) / 127.0f);
    for (size_t i = 0; i < 32; i++)
        b[2 + i] = (byte)(int)quotient(x[i], d, -127.0f, 127.0f);
}

static void quantise_q4_0(byte *b, const float *x)
{
    const float d = put_half(b, fit_scale(x, 32, -8.0f, 7.0f));
    for (size_t i = 0; i < 16; i++) {
        const int low = (int)quotient(x[i], d, -8.0f, 7.0f) + 8;
        const int high = (int)quotient(x[i + 16], d, -8.0f, 7.0f) + 8;
        b[2 + i] = (byte)(low | high << 4);
    }
}

static void quantise_q4_1(byte *b, const float *x)
{
    const line l = fit_line(x, 32, 15.0f, false);
    const float d = put_half(b, l.scale), m = put_half(b + 2, l.offset);
    for (size_t i = 0; i < 16; i++) {
        const int low = (int)quotient(x[i] - m, d, 0.0f, 15.0f);
        const int high = (int)quotient(x[i + 16] - m, d, 0.0f, 15.0f);
        b[4 + i] = (byte)(low | high << 4);
    }
}

/* Elements of five bits, v[32], as a word of their upper bits and 16 bytes. */
static void put_five_bits(byte *b, const int v[32])
{
    uint32_t fifth = 0;
    for (size_t i = 0; i < 32; i++)
        fifth |= (uint32_t)(v[i] >> 4) << i;
    for (size_t i = 0; i < 4; i++)
        b[i] = (byte)(fifth >> 8 * i);
    for (size_t i = 0; i < 16; i++)
        b[4 + i] = (byte)((v[i] & 15) | (v[i + 16] & 15) << 4);
}

static void quantise_q5_0(byte *b, const float *x)
{
    int v[32];
    const float d = put_half(b, fit_scale(x, 32, -16.0f, 15.0f));
    for (size_t i = 0; i < 32; i++)
        v[i] = (int)quotient(x[i], d, -16.0f, 15.0f) + 16;
    put_five_bits(b + 2, v);
}

static void quantise_q5_1(byte *b, const float *x)
{
    int v[32];
    const line l = fit_line(x, 32, 31.0f, false);
    const float d = put_half(b, l.scale), m = put_half(b + 2, l.offset);
    for (size_t i = 0; i < 32; i++)
        v[i] = (int)quotient(x[i] - m, d, 0.0f, 31.0f);
    put_five_bits(b + 4, v);
}

/* ---- 256 elements ---- */

/* Groups of 256 / groups elements with scales and offsets below zero, both in multiples 0 .. most of
 * the two f16 at `halves`; v are the elements. */
static void fit_groups(byte *halves, uint8_t *scale, uint8_t *min, int *v, const float *x,
                       size_t groups, float most, float top)
{
    const size_t n = 256 / groups;
    line lines[16];
    float s = 0.0f, m = 0.0f;
    for (size_t j = 0; j < groups; j++) {
        lines[j] = fit_line(x + n * j, n, top, true);
        s = fmaxf(s, lines[j].scale);
        m = fmaxf(m, -lines[j].offset);
    }
    const float d = put_half(halves, s / most), dmin = put_half(halves + 2, m / most);
    for (size_t j = 0; j < groups; j++) {
        scale[j] = (uint8_t)quotient(lines[j].scale, d, 0.0f, most);
        min[j] = (uint8_t)quotient(-lines[j].offset, dmin, 0.0f, most);
        const float step = d * (float)scale[j], offset = dmin * (float)min[j];
        for (size_t i = n * j; i < n * (j + 1); i++)
            v[i] = (int)quotient(x[i] + offset, step, 0.0f, top);
    }
}

/* The same without offsets: signed scales of low .. -low - 1 in multiples of one f16, elements of
 * bottom .. -bottom - 1. */
static void fit_signed(byte *half, int *scale, int *v, const float *x, float low, float bottom)
{
    float s[16];
    for (size_t k = 0; k < 16; k++)
        s[k] = fit_scale(x + 16 * k, 16, bottom, -bottom - 1.0f);
    const float d = put_half(half, peak_of(s, 16) / low);
    for (size_t k = 0; k < 16; k++) {
        scale[k] = (int)quotient(s[k], d, low, -low - 1.0f);
        const float step = d * (float)scale[k];
        for (size_t i = 16 * k; i < 16 * (k + 1); i++)
            v[i] = (int)(quotient(x[i], step, bottom, -bottom - 1.0f) - bottom);
    }
}

/* The inverse of zoe_block_pairs. */
static void put_pairs(byte s[12], const uint8_t scale[8], const uint8_t min[8])
{
    for (size_t j = 0; j < 4; j++) {
        s[j] = (byte)(scale[j] | scale[j + 4] >> 4 << 6);
        s[j + 4] = (byte)(min[j] | min[j + 4] >> 4 << 6);
        s[j + 8] = (byte)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* Low nibbles of groups of 32, two groups to 32 bytes. */
static void put_nibbles(byte *q, const int v[256])
{
    for (size_t i = 0; i < 128; i++) {
        const size_t at = i / 32 * 64 + i % 32;
        q[i] = (byte)((v[at] & 15) | (v[at + 32] & 15) << 4);
    }
}

/* Two bits, from bit `shift`, of every element: each half of 128 has four runs of 32, side by side
 * in 32 bytes. */
static void put_two_bits(byte *q, const int v[256], int shift)
{
    memset(q, 0, 64);
    for (size_t i = 0; i < 256; i++)
        q[i / 128 * 32 + i % 32] |= (byte)((v[i] >> shift & 3) << i % 128 / 32 * 2);
}

/* One bit of every element: run i / 32 lies in bit i / 32 of 32 bytes. */
static void put_one_bit(byte *q, const int v[256], int shift)
{
    memset(q, 0, 32);
    for (size_t i = 0; i < 256; i++)
        q[i % 32] |= (byte)((v[i] >> shift & 1) << i / 32);
}

static void quantise_q4_k(byte *b, const float *x)
{
    uint8_t scale[8], min[8];
    int v[256];
    fit_groups(b, scale, min, v, x, 8, 63.0f, 15.0f);
    put_pairs(b + 4, scale, min);
    put_nibbles(b + 16, v);
}

static void quantise_q5_k(byte *b, const float *x)
{
    uint8_t scale[8], min[8];
    int v[256];
    fit_groups(b, scale, min, v, x, 8, 63.0f, 31.0f);
    put_pairs(b + 4, scale, min);
    put_one_bit(b + 16, v, 4);
    put_nibbles(b + 48, v);
}

static void quantise_q2_k(byte *b, const float *x)
{
    uint8_t scale[16], min[16];
    int v[256];
    fit_groups(b + 80, scale, min, v, x, 16, 15.0f, 3.0f);
    for (size_t k = 0; k < 16; k++)
        b[k] = (byte)(scale[k] | min[k] << 4);
    put_two_bits(b + 16, v, 0);
}

static void quantise_q3_k(byte *b, const float *x)
{
    int scale[16], v[256];
    byte *s = b + 96;
    fit_signed(b + 108, scale, v, x, -32.0f, -4.0f);
    put_one_bit(b, v, 2);
    put_two_bits(b + 32, v, 0);
    memset(s, 0, 12);
    for (size_t k = 0; k < 16; k++) {
        const int bits = scale[k] + 32;
        s[k % 8] |= (byte)((bits & 15) << k / 8 * 4);
        s[8 + k % 4] |= (byte)((bits >> 4) << k / 4 * 2);
    }
}

static void quantise_q6_k(byte *b, const float *x)
{
    int scale[16], v[256];
    fit_signed(b + 208, scale, v, x, -128.0f, -32.0f);
    for (size_t i = 0; i < 128; i++) { /* runs 0 and 2, and 1 and 3, of a half share bytes */
        const size_t at = i / 64 * 128 + i % 64;
        b[i] = (byte)((v[at] & 15) | (v[at + 64] & 15) << 4);
    }
    put_two_bits(b + 128, v, 4);
    for (size_t k = 0; k < 16; k++)
        b[192 + k] = (byte)scale[k];
}

static void quantise_block(byte *b, zoe_dtype dtype, const float *x)
{
    switch (dtype) {
    case ZOE_Q4_0: quantise_q4_0(b, x); break;
    case ZOE_Q4_1: quantise_q4_1(b, x); break;
    case ZOE_Q5_0: quantise_q5_0(b, x); break;
    case ZOE_Q5_1: quantise_q5_1(b, x); break;
    case ZOE_Q8_0: quantise_q8_0(b, x); break;
    case ZOE_Q2_K: quantise_q2_k(b, x); break;
    case ZOE_Q3_K: quantise_q3_k(b, x); break;
    case ZOE_Q4_K: quantise_q4_k(b, x); break;
    case ZOE_Q5_K: quantise_q5_k(b, x); break;
    case ZOE_Q6_K: quantise_q6_k(b, x); break;
    default: break;
    }
}

void zoe_quantise(void *dst, zoe_dtype dtype, const float *src, size_t n)
{
    const size_t elements = zoe_block_elements(dtype);
    byte *b = dst;
    if (elements > 1)
        for (size_t i = 0; i < n; i += elements, b += zoe_block_bytes(dtype))
            quantise_block(b, dtype, src + i);
    else if (dtype == ZOE_F8_E4M3)
        for (size_t i = 0; i < n; i++)
            b[i] = e4m3_of_f32(src[i]);
    else
        zoe_narrow(dst, dtype, src, n);
}
