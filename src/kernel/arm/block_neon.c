/* Block-quantised types: guests for NEON. The quantised elements of a block become bytes, 16 at a time;
 * one function a formula turns those into floats with the same products and sums as the definition. */
#include "base/block.h"
#include "kernel/arm/vector_neon.h"

typedef unsigned char byte;

INLINE float half(const byte *p)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(zoe_block_half(p)))), 0);
}

/* Sixteen signed bytes as floats. */
INLINE void floats(float32x4_t v[4], int8x16_t q)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(q)), high = vmovl_high_s8(q);
    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    v[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    v[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

/* y = d q, for 16 elements */
INLINE void put(float *y, int8x16_t q, float d)
{
    float32x4_t v[4];
    floats(v, q);
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, vmulq_n_f32(v[i], d));
}

/* y = d q + m */
INLINE void put_plus(float *y, int8x16_t q, float d, float m)
{
    float32x4_t v[4];
    floats(v, q);
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, vaddq_f32(vmulq_n_f32(v[i], d), vdupq_n_f32(m)));
}

/* y = d q - m */
INLINE void put_less(float *y, int8x16_t q, float d, float m)
{
    float32x4_t v[4];
    floats(v, q);
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, vsubq_f32(vmulq_n_f32(v[i], d), vdupq_n_f32(m)));
}

/* `bits` bits of every byte of q, from bit `shift` on. */
INLINE uint8x16_t field(uint8x16_t q, int shift, int bits)
{
    return vandq_u8(vshlq_u8(q, vdupq_n_s8((int8_t)-shift)),
                    vdupq_n_u8((uint8_t)((1 << bits) - 1)));
}

/* The same, moved to the left: q holds the upper bits of an element. */
INLINE uint8x16_t upper(uint8x16_t q, int shift, int bits, int to)
{
    return vshlq_u8(field(q, shift, bits), vdupq_n_s8((int8_t)to));
}

INLINE int8x16_t plain(uint8x16_t q)
{
    return vreinterpretq_s8_u8(q);
}

INLINE int8x16_t minus(uint8x16_t q, int n)
{
    return vsubq_s8(plain(q), vdupq_n_s8((int8_t)n));
}

/* Bit i of 16 bits as 16 in byte i. */
INLINE uint8x16_t fifth_bits(const byte *p)
{
    const uint8x8_t places = vcreate_u8(0x8040201008040201u);
    const uint8x16_t set =
        vcombine_u8(vtst_u8(vdup_n_u8(p[0]), places), vtst_u8(vdup_n_u8(p[1]), places));
    return vandq_u8(set, vdupq_n_u8(16));
}

INLINE void block_q4_0(float *y, const byte *b)
{
    const uint8x16_t q = vld1q_u8(b + 2);
    put(y, minus(field(q, 0, 4), 8), half(b));
    put(y + 16, minus(field(q, 4, 4), 8), half(b));
}

INLINE void block_q4_1(float *y, const byte *b)
{
    const uint8x16_t q = vld1q_u8(b + 4);
    put_plus(y, plain(field(q, 0, 4)), half(b), half(b + 2));
    put_plus(y + 16, plain(field(q, 4, 4)), half(b), half(b + 2));
}

INLINE void block_q5_0(float *y, const byte *b)
{
    const uint8x16_t q = vld1q_u8(b + 6);
    put(y, minus(vorrq_u8(field(q, 0, 4), fifth_bits(b + 2)), 16), half(b));
    put(y + 16, minus(vorrq_u8(field(q, 4, 4), fifth_bits(b + 4)), 16), half(b));
}

INLINE void block_q5_1(float *y, const byte *b)
{
    const uint8x16_t q = vld1q_u8(b + 8);
    put_plus(y, plain(vorrq_u8(field(q, 0, 4), fifth_bits(b + 4))), half(b), half(b + 2));
    put_plus(y + 16, plain(vorrq_u8(field(q, 4, 4), fifth_bits(b + 6))), half(b), half(b + 2));
}

INLINE void block_q8_0(float *y, const byte *b)
{
    put(y, plain(vld1q_u8(b + 2)), half(b));
    put(y + 16, plain(vld1q_u8(b + 18)), half(b));
}

INLINE void block_q4_k(float *y, const byte *b)
{
    const float d = half(b), dmin = half(b + 2);
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (int i = 0; i < 32; i += 16) {
            const uint8x16_t q = vld1q_u8(b + 16 + j / 2 * 32 + i);
            put_less(y + 32 * j + i, plain(field(q, j % 2 * 4, 4)), s, m);
        }
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
            const uint8x16_t low = field(vld1q_u8(b + 48 + j / 2 * 32 + i), j % 2 * 4, 4);
            const uint8x16_t high = upper(vld1q_u8(b + 16 + i), j, 1, 4);
            put_less(y + 32 * j + i, plain(vorrq_u8(low, high)), s, m);
        }
    }
}

INLINE void block_q2_k(float *y, const byte *b)
{
    const float d = half(b + 80), dmin = half(b + 82);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const uint8x16_t q = vld1q_u8(b + 16 + k / 8 * 32 + k % 2 * 16);
        put_less(y + 16 * k, plain(field(q, k % 8 / 2 * 2, 2)), d * (float)(b[k] & 15),
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
        const uint8x16_t low = field(vld1q_u8(b + 32 + k / 8 * 32 + k % 2 * 16), k % 8 / 2 * 2, 2);
        const uint8x16_t high = upper(vld1q_u8(b + k % 2 * 16), k / 2, 1, 2);
        put(y + 16 * k, minus(vorrq_u8(low, high), 4), d * (float)scale[k]);
    }
}

INLINE void block_q6_k(float *y, const byte *b)
{
    const float d = half(b + 208);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const int j = k % 8 / 2, part = k % 2 * 16;
        const uint8x16_t low = field(vld1q_u8(b + k / 8 * 64 + j % 2 * 32 + part), j / 2 * 4, 4);
        const uint8x16_t high = upper(vld1q_u8(b + 128 + k / 8 * 32 + part), 2 * j, 2, 4);
        put(y + 16 * k, minus(vorrq_u8(low, high), 32), d * (float)(int8_t)b[192 + k]);
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

#define WIDEN(name, NAME)                                                                          \
    static void widen_##name##_neon(float *y, const void *x, size_t n)                             \
    {                                                                                              \
        widen(y, x, ZOE_##NAME, n, block_##name);                                                  \
    }
WIDEN(q4_0, Q4_0)
WIDEN(q4_1, Q4_1)
WIDEN(q5_0, Q5_0)
WIDEN(q5_1, Q5_1)
WIDEN(q8_0, Q8_0)
WIDEN(q2_k, Q2_K)
WIDEN(q3_k, Q3_K)
WIDEN(q4_k, Q4_K)
WIDEN(q5_k, Q5_K)
WIDEN(q6_k, Q6_K)

void zoe_kernels_fill_block_neon(zoe_kernels *k)
{
    k->widen_q4_0 = widen_q4_0_neon;
    k->widen_q4_1 = widen_q4_1_neon;
    k->widen_q5_0 = widen_q5_0_neon;
    k->widen_q5_1 = widen_q5_1_neon;
    k->widen_q8_0 = widen_q8_0_neon;
    k->widen_q2_k = widen_q2_k_neon;
    k->widen_q3_k = widen_q3_k_neon;
    k->widen_q4_k = widen_q4_k_neon;
    k->widen_q5_k = widen_q5_k_neon;
    k->widen_q6_k = widen_q6_k_neon;
}
