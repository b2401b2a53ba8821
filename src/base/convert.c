/* Element types: widening to f32 and rounding from it, the plain definitions. */
#include "base/base.h"

float zoe_f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    if (exponent == 31)
        return zoe_f32_from_bits(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return zoe_f32_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t zoe_f16_of_f32(float f)
{
    const uint32_t u = zoe_bits_of_f32(f);
    const uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24; the sum rounds to even */
        const float rounded = zoe_f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (zoe_bits_of_f32(rounded) - 0x3f000000u));
    }
    const uint32_t rebased = magnitude - (112u << 23);
    return (uint16_t)(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

static float f32_of_e4m3(uint8_t b)
{
    const int exponent = (b >> 3) & 15, mantissa = b & 7;
    float magnitude;
    if ((b & 0x7f) == 0x7f)
        magnitude = NAN;
    else if (exponent == 0)
        magnitude = (float)mantissa * 0x1p-9f;
    else
        magnitude = ldexpf(1.0f + (float)mantissa / 8.0f, exponent - 7);
    return b & 0x80 ? -magnitude : magnitude;
}

float zoe_load_f32(const void *data, zoe_dtype dtype, size_t i)
{
    switch (dtype) {
    case ZOE_F32: return ((const float *)data)[i];
    case ZOE_BF16: return zoe_f32_of_bf16(((const uint16_t *)data)[i]);
    case ZOE_F16: return zoe_f32_of_f16(((const uint16_t *)data)[i]);
    case ZOE_F64: return (float)((const double *)data)[i];
    case ZOE_F8_E4M3: return f32_of_e4m3(((const uint8_t *)data)[i]);
    case ZOE_F8_E5M2: return zoe_f32_of_f16((uint16_t)(((const uint8_t *)data)[i] << 8));
    default: return NAN;
    }
}

void zoe_store_f32(void *data, zoe_dtype dtype, size_t i, float value)
{
    switch (dtype) {
    case ZOE_F32: ((float *)data)[i] = value; break;
    case ZOE_BF16: ((uint16_t *)data)[i] = zoe_bf16_of_f32(value); break;
    case ZOE_F16: ((uint16_t *)data)[i] = zoe_f16_of_f32(value); break;
    case ZOE_F64: ((double *)data)[i] = (double)value; break;
    default: break;
    }
}

void zoe_widen(float *dst, const void *src, zoe_dtype dtype, size_t n)
{
    if (dtype == ZOE_F32)
        memcpy(dst, src, n * sizeof *dst);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = zoe_load_f32(src, dtype, i);
}

void zoe_narrow(void *dst, zoe_dtype dtype, const float *src, size_t n)
{
    if (dtype == ZOE_F32)
        memcpy(dst, src, n * sizeof *src);
    else
        for (size_t i = 0; i < n; i++)
            zoe_store_f32(dst, dtype, i, src[i]);
}
