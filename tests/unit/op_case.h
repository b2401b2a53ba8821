/* What the operator tests share: random tensors with gaps between rows that must stay untouched,
 * comparison, refusals. */
#ifndef OP_CASE_H
#define OP_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/base.h"
#include "zoetrope/op.h"

#define GAP_BYTE 0x5a

static uint64_t case_state = 1;

static inline size_t pick(size_t n)
{
    case_state = case_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(case_state >> 33) % n;
}

static inline float noise(void)
{
    return (float)pick(1u << 24) / (float)(1u << 23) - 1.0f;
}

/* [rows, columns] of random values between -1 and 1; rows lie `gap` elements apart. Free with
 * tensor_free. */
static inline zoe_tensor tensor_new(zoe_dtype dtype, size_t rows, size_t columns, size_t gap)
{
    zoe_tensor t = zoe_tensor_2d(NULL, dtype, rows, columns);
    const size_t bytes = zoe_dtype_bytes(dtype);
    t.stride[0] = (ptrdiff_t)(columns + gap);
    t.data = malloc((columns + gap) * rows * bytes + 1);
    assert_non_null(t.data);
    memset(t.data, GAP_BYTE, (columns + gap) * rows * bytes);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            const size_t at = i * (columns + gap) + j;
            if (bytes == 1)
                ((uint8_t *)t.data)[at] = (uint8_t)(pick(0x3c) | pick(2) << 7);
            else
                zoe_store_f32(t.data, dtype, at, noise());
        }
    return t;
}

static inline zoe_tensor vector_new(size_t n)
{
    zoe_tensor t = tensor_new(ZOE_F32, 1, n, 0);
    return zoe_tensor_1d(t.data, ZOE_F32, n);
}

static inline void tensor_free(zoe_tensor t)
{
    free(t.data);
}

static inline float value_at(zoe_tensor t, size_t i, size_t j)
{
    if (t.rank == 1)
        return zoe_load_f32(t.data, t.dtype, j);
    return zoe_load_f32(t.data, t.dtype, i * (size_t)t.stride[0] + j);
}

static inline void put(zoe_tensor t, size_t i, size_t j, float v)
{
    zoe_store_f32(t.data, t.dtype, i * (size_t)t.stride[0] + j, v);
}

static inline void fill(zoe_tensor t, float v)
{
    for (size_t i = 0; i < t.shape[0]; i++)
        for (size_t j = 0; j < t.shape[1]; j++)
            put(t, i, j, v);
}

/* The same values in another layout. */
static inline zoe_tensor tensor_copy(zoe_tensor from, size_t gap)
{
    zoe_tensor t = tensor_new(from.dtype, from.shape[0], from.shape[1], gap);
    const size_t bytes = zoe_dtype_bytes(from.dtype);
    for (size_t i = 0; i < t.shape[0]; i++)
        memcpy((char *)t.data + i * (size_t)t.stride[0] * bytes,
               (char *)from.data + i * (size_t)from.stride[0] * bytes, t.shape[1] * bytes);
    return t;
}

static inline void assert_same_bytes(zoe_tensor a, zoe_tensor b)
{
    const size_t bytes = zoe_dtype_bytes(a.dtype);
    for (size_t i = 0; i < a.shape[0]; i++)
        assert_memory_equal((char *)a.data + i * (size_t)a.stride[0] * bytes,
                            (char *)b.data + i * (size_t)b.stride[0] * bytes, a.shape[1] * bytes);
}

static inline void assert_gaps_untouched(zoe_tensor t)
{
    const size_t bytes = zoe_dtype_bytes(t.dtype);
    for (size_t i = 0; i < t.shape[0]; i++)
        for (size_t j = t.shape[1] * bytes; j < (size_t)t.stride[0] * bytes; j++)
            assert_int_equal(((unsigned char *)t.data)[i * (size_t)t.stride[0] * bytes + j],
                             GAP_BYTE);
}

/* got is want up to `tolerance` times the larger of |want| and scale; in bf16, up to one more unit
 * of its last place. */
static inline void assert_near(zoe_dtype dtype, double got, double want, double scale,
                               double tolerance)
{
    if (isnan(want) && isnan(got))
        return;
    const double size = fmax(fabs(want), scale);
    const double most = size * (tolerance + (dtype == ZOE_BF16 ? 0x1.02p-8 : 0.0));
    if (!(fabs(got - want) <= most) && got != want)
        fail_msg("got %.9g, wanted %.9g (scale %g)", got, want, scale);
}

static inline double bf16_if(bool round, double v)
{
    return round ? (double)zoe_bf16_round((float)v) : v;
}

static inline zoe_workspace workspace_new(size_t bytes)
{
    zoe_workspace w = {.bytes = bytes};
    w.data = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(w.data);
    memset(w.data, 0xff, (bytes + 127) / 64 * 64); /* NaN, should old content be used */
    return w;
}

static inline void assert_workspace_kept(zoe_workspace w)
{
    for (size_t i = w.bytes; i < (w.bytes + 127) / 64 * 64; i++)
        assert_int_equal(((unsigned char *)w.data)[i], 0xff);
}

static const zoe_dtype float_types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};

static inline void succeeded(zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s: %s", zoe_status_name(status), zoe_context_message(ctx));
}

/* v as this type has it; as it is, of none. */
static inline float rounded_to(zoe_dtype type, float v)
{
    uint32_t room;
    if (type == ZOE_NONE)
        return v;
    zoe_store_f32(&room, type, 0, v);
    return zoe_load_f32(&room, type, 0);
}

static inline zoe_tensor typed_vector(zoe_dtype type, size_t n)
{
    zoe_tensor t = tensor_new(type, 1, n, 0);
    return zoe_tensor_1d(t.data, type, n);
}

static inline void same_bits(float got, float want, const char *what, size_t D, size_t d)
{
    if (zoe_bits_of_f32(got) != zoe_bits_of_f32(want) && !(isnan(got) && isnan(want)))
        fail_msg("%s, D = %zu, element %zu: got %.9g, wanted %.9g", what, D, d, (double)got,
                 (double)want);
}

static inline double mean_square(zoe_tensor x, size_t m)
{
    double sum = 0.0;
    for (size_t d = 0; d < x.shape[1]; d++)
        sum += (double)value_at(x, m, d) * (double)value_at(x, m, d);
    return sum / (double)x.shape[1];
}

static inline void assert_refused(zoe_context *ctx, zoe_status got, zoe_status want,
                                  const char *word)
{
    if (got != want || !strstr(zoe_context_message(ctx), word))
        fail_msg("status %s with \"%s\", wanted %s with \"%s\"", zoe_status_name(got),
                 zoe_context_message(ctx), zoe_status_name(want), word);
    zoe_context_clear(ctx);
}

#endif
