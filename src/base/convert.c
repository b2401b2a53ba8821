/* Element types: widening to f32 and rounding from it, the plain definitions. */
#include "base/block.h"

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

static float load_from_block(const unsigned char *data, zoe_dtype dtype, size_t i)
{
    float values[ZOE_BLOCK_MOST];
    const size_t elements = zoe_block_elements(dtype);
    zoe_block_widen(values, data + i / elements * zoe_block_bytes(dtype), dtype, 1);
    return values[i % elements];
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
    case ZOE_Q4_0:
    case ZOE_Q4_1:
    case ZOE_Q5_0:
    case ZOE_Q5_1:
    case ZOE_Q8_0:
    case ZOE_Q2_K:
    case ZOE_Q3_K:
    case ZOE_Q4_K:
    case ZOE_Q5_K:
    case ZOE_Q6_K: return load_from_block(data, dtype, i);
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

static void widen_blocks(float *dst, const unsigned char *src, zoe_dtype dtype, size_t n)
{
    const size_t elements = zoe_block_elements(dtype), rest = n % elements;
    zoe_block_widen(dst, src, dtype, n / elements);
    if (rest == 0)
        return;
    float values[ZOE_BLOCK_MOST];
    zoe_block_widen(values, src + zoe_run_bytes(dtype, n), dtype, 1);
    memcpy(dst + (n - rest), values, rest * sizeof *dst);
}

void zoe_widen(float *dst, const void *src, zoe_dtype dtype, size_t n)
{
    if (dtype == ZOE_F32)
        memcpy(dst, src, n * sizeof *dst);
    else if (zoe_block_elements(dtype) > 1)
        widen_blocks(dst, src, dtype, n);
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

/* Multiplies values, which are the elements first .. first + n - 1 of t, by their factors. */
static void apply_scaling(float *values, zoe_tensor t, size_t first, size_t n)
{
    const zoe_scaling *s = t.scaling;
    size_t width = 1;
    for (int i = 1; i < t.rank; i++)
        width *= t.shape[i];
    for (size_t i = 0; i < n; i++) {
        const size_t row = (first + i) / width, column = (first + i) % width;
        values[i] *= s->values[row / s->row_step * s->columns + column / s->column_step];
    }
}

void zoe_tensor_widen(float *dst, zoe_tensor t, size_t first, size_t n)
{
    const size_t elements = zoe_block_elements(t.dtype), skip = first % elements;
    const unsigned char *src = (const unsigned char *)t.data + zoe_run_bytes(t.dtype, first);
    size_t done = 0;
    if (skip && n) {
        float values[ZOE_BLOCK_MOST];
        done = elements - skip < n ? elements - skip : n;
        zoe_block_widen(values, src, t.dtype, 1);
        memcpy(dst, values + skip, done * sizeof *dst);
        src += zoe_block_bytes(t.dtype);
    }
    zoe_widen(dst + done, src, t.dtype, n - done);
    if (t.scaling)
        apply_scaling(dst, t, first, n);
}
