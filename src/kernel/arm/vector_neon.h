/* Four and eight floats at a time with NEON: element types, partial runs and elementary functions.
 * Functions here take types as arguments and are inlined where these are known, so that no loop asks for
 * a type. Coefficients are our own minimax fits, the same as those of the other rungs. Baseline
 * Armv8.0-A: f16 is converted, not computed with, and there are no dot products. */
#ifndef ZOE_VECTOR_NEON_H
#define ZOE_VECTOR_NEON_H

#include <arm_neon.h>

#include "kernel/kernel.h"

#define INLINE static inline __attribute__((always_inline))

typedef struct v8 {
    float32x4_t a, b; /* elements 0..3 and 4..7 */
} v8;

/* ---- partial runs ---- */

/* min(n, 4) floats; lanes beyond are `rest` and their memory is not touched. */
INLINE float32x4_t load_part_or(const float *x, size_t n, float rest)
{
    if (n >= 4)
        return vld1q_f32(x);
    float room[4] = {rest, rest, rest, rest};
    memcpy(room, x, n * sizeof *x);
    return vld1q_f32(room);
}

INLINE float32x4_t load_part(const float *x, size_t n)
{
    return load_part_or(x, n, 0.0f);
}

INLINE void store_part(float *y, float32x4_t v, size_t n)
{
    if (n >= 4) {
        vst1q_f32(y, v);
        return;
    }
    float room[4];
    vst1q_f32(room, v);
    memcpy(y, room, n * sizeof *y);
}

/* DO(i, 4) for each four of n elements, then DO(i, rest): where 4 is a constant, partial loads and stores
 * are whole ones. */
#define EACH_FOUR(n, DO)                                                                           \
    do {                                                                                           \
        size_t four_i = 0;                                                                         \
        for (; four_i + 4 <= (n); four_i += 4)                                                     \
            DO(four_i, 4);                                                                         \
        if (four_i < (n))                                                                          \
            DO(four_i, (n)-four_i);                                                                \
    } while (0)

INLINE size_t bytes_of(zoe_dtype type)
{
    return type == ZOE_F32 ? 4 : type == ZOE_F16 || type == ZOE_BF16 ? 2 : 1;
}

INLINE const void *element_at(const void *p, zoe_dtype type, size_t i)
{
    return (const unsigned char *)p + i * bytes_of(type);
}

/* The first n < 8 elements at p, with zeroes behind them in `room`. */
INLINE const void *part8(float room[8], const void *p, zoe_dtype type, size_t n)
{
    memset(room, 0, 8 * sizeof *room);
    memcpy(room, p, n * bytes_of(type));
    return room;
}

/* ---- element types ---- */

/* The upper half of each word is v rounded to the nearest bf16, ties to even; NaN becomes quiet. */
INLINE uint32x4_t bf16_above(float32x4_t v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    /* u + 0x7fff + bit 16 of u */
    const uint32x4_t up = vsraq_n_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), vshlq_n_u32(u, 15), 31);
    return vbslq_u32(vceqq_f32(v, v), up, vorrq_u32(u, vdupq_n_u32(0x400000)));
}

INLINE float32x4_t round_to_bf16(float32x4_t v)
{
    return vreinterpretq_f32_u32(vandq_u32(bf16_above(v), vdupq_n_u32(0xffff0000u)));
}

INLINE float32x4_t round4(float32x4_t v, zoe_dtype type)
{
    if (type == ZOE_F16)
        return vcvt_f32_f16(vcvt_f16_f32(v));
    return type == ZOE_BF16 ? round_to_bf16(v) : v;
}

INLINE v8 round8(v8 v, zoe_dtype type)
{
    return (v8){round4(v.a, type), round4(v.b, type)};
}

INLINE v8 widen8_f16(uint16x8_t h)
{
    const float16x8_t f = vreinterpretq_f16_u16(h);
    return (v8){vcvt_f32_f16(vget_low_f16(f)), vcvt_high_f32_f16(f)};
}

INLINE v8 widen8_bf16(uint16x8_t h)
{
    return (v8){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}

/* Sign, exponent and mantissa are moved to where f32 has them, which leaves the value too small by
 * 2^120; the product also makes subnormals right. */
INLINE float32x4_t widen4_e4m3(int32x4_t b)
{
    const int32x4_t u = vshlq_n_s32(b, 20);
    const int32x4_t fields = vandq_s32(u, vdupq_n_s32((int32_t)0x87f00000u));
    const float32x4_t value = vmulq_n_f32(vreinterpretq_f32_s32(fields), 0x1p120f);
    const int32x4_t top = vdupq_n_s32(0x07f00000);
    const uint32x4_t nan = vceqq_s32(vandq_s32(u, top), top);
    return vbslq_f32(nan, vdupq_n_f32(NAN), value);
}

INLINE v8 widen8_e4m3(uint8x8_t b)
{
    const int16x8_t s = vmovl_s8(vreinterpret_s8_u8(b));
    return (v8){widen4_e4m3(vmovl_s16(vget_low_s16(s))), widen4_e4m3(vmovl_high_s16(s))};
}

/* Eight consecutive elements, widened. */
INLINE v8 load8(const void *p, zoe_dtype type)
{
    if (type == ZOE_F32)
        return (v8){vld1q_f32(p), vld1q_f32((const float *)p + 4)};
    if (type == ZOE_F16)
        return widen8_f16(vld1q_u16(p));
    if (type == ZOE_BF16)
        return widen8_bf16(vld1q_u16(p));
    if (type == ZOE_F8_E4M3)
        return widen8_e4m3(vld1_u8(p));
    return widen8_f16(vshll_n_u8(vld1_u8(p), 8)); /* e5m2: the upper halves of f16 values */
}

/* Eight halves of type F16 or BF16. */
INLINE uint16x8_t narrow8(v8 v, zoe_dtype type)
{
    if (type == ZOE_F16)
        return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.a), v.b));
    return vuzp2q_u16(vreinterpretq_u16_u32(bf16_above(v.a)),
                      vreinterpretq_u16_u32(bf16_above(v.b)));
}

/* type: F32, F16 or BF16. */
INLINE void store8(void *p, v8 v, zoe_dtype type)
{
    if (type == ZOE_F32) {
        vst1q_f32(p, v.a);
        vst1q_f32((float *)p + 4, v.b);
    } else {
        vst1q_u16(p, narrow8(v, type));
    }
}

/* ---- lanes ---- */

/* v where it is larger, else high; a NaN in v is passed over, of whatever kind (vmaxnmq would let a
 * signalling one through). */
INLINE float32x4_t larger(float32x4_t v, float32x4_t high)
{
    return vbslq_f32(vcgtq_f32(v, high), v, high);
}

/* The sum of the lanes in f64, in a fixed order. */
INLINE float64x2_t widened_sum(float32x4_t v)
{
    return vaddq_f64(vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v));
}

/* ---- elementary functions ---- */

/* e^x = 2^n e^r with |r| <= ln(2)/2; gives e^r. Adding 1.5 * 2^23 leaves the nearest integer in the low
 * bits of the sum, by additions, which more pipes do than conversions. */
INLINE float32x4_t exp_parts(float32x4_t x, int32x4_t *n)
{
    const float32x4_t magic = vdupq_n_f32(0x1.8p23f);
    const float32x4_t shifted = vfmaq_n_f32(magic, x, 1.44269504088896f);
    const float32x4_t whole = vsubq_f32(shifted, magic);
    *n = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4b400000));
    /* ln 2 in two pieces, the first short enough that its multiples are exact */
    float32x4_t r = vfmsq_f32(x, whole, vdupq_n_f32(0x1.62e4p-1f));
    r = vfmsq_f32(r, whole, vdupq_n_f32(0x1.7f7d1cp-20f));
    const float32x4_t r2 = vmulq_f32(r, r);
    const float32x4_t low = vfmaq_n_f32(vdupq_n_f32(4.99999934123e-1f), r, 1.66665201074e-1f);
    float32x4_t high = vfmaq_n_f32(vdupq_n_f32(4.16683942426e-2f), r, 8.36878044597e-3f);
    high = vfmaq_n_f32(high, r2, 1.38144657224e-3f);
    const float32x4_t p = vfmaq_f32(r, vfmaq_f32(low, high, r2), r2);
    return vaddq_f32(p, vdupq_n_f32(1.0f));
}

/* 2^n, -127 < n < 128. */
INLINE float32x4_t power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* e^x within 1.1 ulp; infinities, subnormal results and NaN as they should be. */
INLINE float32x4_t exp_v(float32x4_t x)
{
    int32x4_t n;
    x = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-104.0f)), vdupq_n_f32(89.0f));
    const float32x4_t p = exp_parts(x, &n);
    /* 2^n in two factors, since n may go beyond what one can hold */
    const int32x4_t half = vshrq_n_s32(n, 1);
    return vmulq_f32(vmulq_f32(p, power_of_two(half)), power_of_two(vsubq_s32(n, half)));
}

/* e^x for x <= 0 within 1.1 ulp; 0 where the result would be subnormal. NaN stays NaN. */
INLINE float32x4_t exp_not_positive(float32x4_t x)
{
    int32x4_t n;
    const uint32x4_t tiny = vcltq_f32(x, vdupq_n_f32(-87.33654f));
    const float32x4_t v = vmulq_f32(exp_parts(x, &n), power_of_two(n));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), tiny));
}

/* v / (1 + e^-x) */
INLINE float32x4_t times_sigmoid(float32x4_t v, float32x4_t x)
{
    return vdivq_f32(v, vaddq_f32(vdupq_n_f32(1.0f), exp_v(vnegq_f32(x))));
}

INLINE float32x4_t silu_v(float32x4_t v)
{
    return times_sigmoid(v, v);
}

/* 0.5 (1 + tanh u) = 1 / (1 + e^-2u) with u = sqrt(2/pi) (v + 0.044715 v^3) */
INLINE float32x4_t gelu_tanh_v(float32x4_t v)
{
    const float32x4_t cubic =
        vfmaq_n_f32(vdupq_n_f32(1.59576912160573f), vmulq_f32(v, v), 0.0713548162726f);
    return times_sigmoid(v, vmulq_f32(v, cubic));
}

INLINE float32x4_t gelu_sigmoid_v(float32x4_t v)
{
    return times_sigmoid(v, vmulq_n_f32(v, 1.702f));
}

/* p x + c */
INLINE float32x4_t next_term(float32x4_t p, float32x4_t x, float c)
{
    return vfmaq_f32(vdupq_n_f32(c), p, x);
}

/* v Phi(v). With a = |v| / sqrt 2: erfc a = exp(-(a^2 + g(a))), where g grows slowly and is a
 * polynomial up to 4; beyond, what it lacks is below 1e-8. */
INLINE float32x4_t gelu_erf_v(float32x4_t v)
{
    const float32x4_t a = vmulq_n_f32(vabsq_f32(v), 0.707106781186548f);
    const float32x4_t t = vminq_f32(a, vdupq_n_f32(4.0f));
    float32x4_t g = vdupq_n_f32(-6.3297141317e-6f);
    g = next_term(g, t, 8.84152361328e-5f);
    g = next_term(g, t, -5.13950280952e-4f);
    g = next_term(g, t, 1.41205484909e-3f);
    g = next_term(g, t, 1.51364429111e-4f);
    g = next_term(g, t, -1.93723615463e-2f);
    g = next_term(g, t, 1.02862812484e-1f);
    g = next_term(g, t, -3.63396757759e-1f);
    g = next_term(g, t, 1.12838027535f);
    const float32x4_t minus = vnegq_f32(vfmaq_f32(vmulq_f32(g, t), a, a));
    const float32x4_t half_erfc = vmulq_n_f32(exp_v(minus), 0.5f);
    const float32x4_t upper = vsubq_f32(vdupq_n_f32(1.0f), half_erfc);
    return vmulq_f32(v, vbslq_f32(vcltzq_f32(v), half_erfc, upper));
}

/* tanh within 1.4 ulp: an odd polynomial near 0, else by e^2|u|. */
INLINE float32x4_t tanh_v(float32x4_t u)
{
    const float32x4_t a = vabsq_f32(u), z = vmulq_f32(u, u);
    float32x4_t p = vdupq_n_f32(-5.60391513963e-3f);
    p = next_term(p, z, 2.05517205464e-2f);
    p = next_term(p, z, -5.37141077514e-2f);
    p = next_term(p, z, 1.33311528134e-1f);
    p = next_term(p, z, -3.33332720831e-1f);
    p = vfmaq_f32(a, vmulq_f32(p, z), a);
    const float32x4_t one = vdupq_n_f32(1.0f), two = vdupq_n_f32(2.0f);
    const float32x4_t e = vaddq_f32(exp_v(vmulq_f32(two, a)), one);
    const float32x4_t far = vsubq_f32(one, vdivq_f32(two, e));
    const float32x4_t size = vbslq_f32(vcgtq_f32(a, vdupq_n_f32(0.625f)), far, p);
    return vbslq_f32(vdupq_n_u32(0x80000000u), u, size); /* the sign of u */
}

#endif
