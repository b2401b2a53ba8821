/* Block-quantised types: guests for NEON, made of what block_guest.h asks for. */
#include "base/block.h"
#include "kernel/arm/vector_neon.h"

typedef unsigned char byte;

INLINE float half(const byte *p)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(zoe_block_half(p)))), 0);
}

/* Sixteen signed bytes as floats. */
INLINE void floats(float32x4_t v[4], uint8x16_t bytes)
{
    const int8x16_t q = vreinterpretq_s8_u8(bytes);
    const int16x8_t low = vmovl_s8(vget_low_s8(q)), high = vmovl_high_s8(q);
    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    v[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    v[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

/* y = d q, for 16 elements */
INLINE void put(float *y, uint8x16_t q, float d)
{
    float32x4_t v[4];
    floats(v, q);
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, vmulq_n_f32(v[i], d));
}

/* y = d q + m */
INLINE void put_plus(float *y, uint8x16_t q, float d, float m)
{
    float32x4_t v[4];
    floats(v, q);
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, vaddq_f32(vmulq_n_f32(v[i], d), vdupq_n_f32(m)));
}

/* y = d q - m */
INLINE void put_less(float *y, uint8x16_t q, float d, float m)
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

INLINE uint8x16_t minus(uint8x16_t q, int n)
{
    return vsubq_u8(q, vdupq_n_u8((uint8_t)n));
}

/* Bit i of 16 bits as 16 in byte i. */
INLINE uint8x16_t fifth_bits(const byte *p)
{
    const uint8x8_t places = vcreate_u8(0x8040201008040201u);
    const uint8x16_t set =
        vcombine_u8(vtst_u8(vdup_n_u8(p[0]), places), vtst_u8(vdup_n_u8(p[1]), places));
    return vandq_u8(set, vdupq_n_u8(16));
}

INLINE uint8x16_t load16(const byte *p)
{
    return vld1q_u8(p);
}

INLINE uint8x16_t either(uint8x16_t a, uint8x16_t b)
{
    return vorrq_u8(a, b);
}

typedef uint8x16_t bytes16;
#define BLOCK_GUEST(name) widen_##name##_neon
#include "kernel/block_guest.h"

void zoe_kernels_fill_block_neon(zoe_kernels *k)
{
    fill(k);
}
