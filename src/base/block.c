/* Block-quantised types: the definitions. Plain and right; the kernels are compared with them. */
#include "base/block.h"

typedef unsigned char byte;

static float half(const byte *p)
{
    return zoe_f32_of_f16(zoe_block_half(p));
}

static uint32_t word(const byte *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- 32 elements with one scale ---- */

static void widen_q4_0(float *y, const byte *b)
{
    const float d = half(b);
    for (size_t i = 0; i < 16; i++) {
        y[i] = d * (float)((b[2 + i] & 15) - 8);
        y[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

static void widen_q4_1(float *y, const byte *b)
{
    const float d = half(b), m = half(b + 2);
    for (size_t i = 0; i < 16; i++) {
        y[i] = d * (float)(b[4 + i] & 15) + m;
        y[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* The five bits of elements i and i + 16 of q5_0 and q5_1, q being the 16 bytes. */
static void five_bits(int v[2], const byte *q, uint32_t fifth, size_t i)
{
    v[0] = (q[i] & 15) | (int)(fifth >> i & 1) << 4;
    v[1] = q[i] >> 4 | (int)(fifth >> (i + 16) & 1) << 4;
}

static void widen_q5_0(float *y, const byte *b)
{
    const float d = half(b);
    for (size_t i = 0; i < 16; i++) {
        int v[2];
        five_bits(v, b + 6, word(b + 2), i);
        y[i] = d * (float)(v[0] - 16);
        y[i + 16] = d * (float)(v[1] - 16);
    }
}

static void widen_q5_1(float *y, const byte *b)
{
    const float d = half(b), m = half(b + 2);
    for (size_t i = 0; i < 16; i++) {
        int v[2];
        five_bits(v, b + 8, word(b + 4), i);
        y[i] = d * (float)v[0] + m;
        y[i + 16] = d * (float)v[1] + m;
    }
}

static void widen_q8_0(float *y, const byte *b)
{
    const float d = half(b);
    for (size_t i = 0; i < 32; i++)
        y[i] = d * (float)(int8_t)b[2 + i];
}

/* ---- 256 elements: 8 groups of 32 ---- */

static void widen_q4_k(float *y, const byte *b)
{
    const float d = half(b), dmin = half(b + 2);
    const byte *q = b + 16;
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
    for (size_t j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (size_t i = 0; i < 32; i++)
            y[32 * j + i] = s * (float)(q[j / 2 * 32 + i] >> j % 2 * 4 & 15) - m;
    }
}

static void widen_q5_k(float *y, const byte *b)
{
    const float d = half(b), dmin = half(b + 2);
    const byte *fifth = b + 16, *q = b + 48;
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
    for (size_t j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (size_t i = 0; i < 32; i++) {
            const int v = (q[j / 2 * 32 + i] >> j % 2 * 4 & 15) | (fifth[i] >> j & 1) << 4;
            y[32 * j + i] = s * (float)v - m;
        }
    }
}

/* ---- 256 elements: 16 groups of 16. Each half of 128 has four runs of 32, of which run j lies in
 * bits 2j, 2j + 1 of the same 32 bytes. ---- */

static void widen_q2_k(float *y, const byte *b)
{
    const float d = half(b + 80), dmin = half(b + 82);
    for (size_t i = 0; i < 256; i++) {
        const size_t n = i / 128, j = i % 128 / 32, l = i % 32, k = i / 16;
        const int v = b[16 + 32 * n + l] >> 2 * j & 3;
        y[i] = d * (float)(b[k] & 15) * (float)v - dmin * (float)(b[k] >> 4);
    }
}

static void widen_q3_k(float *y, const byte *b)
{
    const float d = half(b + 108);
    const byte *third = b, *q = b + 32;
    int8_t scale[16];
    zoe_block_scales(scale, b + 96);
    for (size_t i = 0; i < 256; i++) {
        const size_t n = i / 128, j = i % 128 / 32, l = i % 32;
        const int v = (q[32 * n + l] >> 2 * j & 3) | (third[l] >> (4 * n + j) & 1) << 2;
        y[i] = d * (float)scale[i / 16] * (float)(v - 4);
    }
}

static void widen_q6_k(float *y, const byte *b)
{
    const float d = half(b + 208);
    const byte *low = b, *high = b + 128, *scale = b + 192;
    for (size_t i = 0; i < 256; i++) {
        const size_t n = i / 128, j = i % 128 / 32, l = i % 32;
        const int v = (low[64 * n + 32 * (j % 2) + l] >> j / 2 * 4 & 15) |
                      (high[32 * n + l] >> 2 * j & 3) << 4;
        y[i] = d * (float)(int8_t)scale[i / 16] * (float)(v - 32);
    }
}

void zoe_block_widen(float *dst, const void *src, zoe_dtype dtype, size_t blocks)
{
    const size_t elements = zoe_block_elements(dtype), bytes = zoe_block_bytes(dtype);
    const byte *b = src;
    for (size_t i = 0; i < blocks; i++, dst += elements, b += bytes)
        switch (dtype) {
        case ZOE_Q4_0: widen_q4_0(dst, b); break;
        case ZOE_Q4_1: widen_q4_1(dst, b); break;
        case ZOE_Q5_0: widen_q5_0(dst, b); break;
        case ZOE_Q5_1: widen_q5_1(dst, b); break;
        case ZOE_Q8_0: widen_q8_0(dst, b); break;
        case ZOE_Q2_K: widen_q2_k(dst, b); break;
        case ZOE_Q3_K: widen_q3_k(dst, b); break;
        case ZOE_Q4_K: widen_q4_k(dst, b); break;
        case ZOE_Q5_K: widen_q5_k(dst, b); break;
        case ZOE_Q6_K: widen_q6_k(dst, b); break;
        default: break;
        }
}
