/* Access to rows of tensors as runs of f32, for the files of this folder. */
#ifndef ZOE_ROWS_H
#define ZOE_ROWS_H

#include "kernel/kernel.h"

/* The address of row i (and element j in it) of a tensor whose last axis is dense; of a block type,
 * of the block that begins there. */
static inline void *zoe_row(zoe_tensor t, size_t i, size_t j)
{
    return (unsigned char *)t.data + zoe_run_bytes(t.dtype, i * (size_t)t.stride[0] + j);
}

/* The address of element j of row m of a tensor whose last axis is dense, rows numbered over all axes
 * before it in row-major order. */
static inline void *zoe_row_at(zoe_tensor t, size_t m, size_t j)
{
    size_t at = j;
    for (int i = t.rank - 2; i > 0; i--) {
        at += m % t.shape[i] * (size_t)t.stride[i];
        m /= t.shape[i];
    }
    if (t.rank > 1)
        at += m * (size_t)t.stride[0];
    return (unsigned char *)t.data + zoe_run_bytes(t.dtype, at);
}

/* 1 / sqrt(mean + eps) of a mean square in f64, not yet rounded. What f32 cannot hold of a mean is what f32
 * makes of it: infinity, or 0. */
static inline double zoe_rms_rstd(double mean, float eps)
{
    const float held = (float)mean;
    return 1.0 / sqrt((held == 0.0f || isinf(held) ? (double)held : mean) + (double)eps);
}

/* y = the n elements at x, widened. */
static inline void zoe_row_widen(const zoe_kernels *k, float *y, const void *x, zoe_dtype dtype,
                                 size_t n)
{
    switch (dtype) {
    case ZOE_F16: k->widen_f16(y, x, n); break;
    case ZOE_BF16: k->widen_bf16(y, x, n); break;
    case ZOE_F8_E4M3: k->widen_f8_e4m3(y, x, n); break;
    case ZOE_F8_E5M2: k->widen_f8_e5m2(y, x, n); break;
    case ZOE_Q4_0: k->widen_q4_0(y, x, n); break;
    case ZOE_Q4_1: k->widen_q4_1(y, x, n); break;
    case ZOE_Q5_0: k->widen_q5_0(y, x, n); break;
    case ZOE_Q5_1: k->widen_q5_1(y, x, n); break;
    case ZOE_Q8_0: k->widen_q8_0(y, x, n); break;
    case ZOE_Q2_K: k->widen_q2_k(y, x, n); break;
    case ZOE_Q3_K: k->widen_q3_k(y, x, n); break;
    case ZOE_Q4_K: k->widen_q4_k(y, x, n); break;
    case ZOE_Q5_K: k->widen_q5_k(y, x, n); break;
    case ZOE_Q6_K: k->widen_q6_k(y, x, n); break;
    default: zoe_widen(y, x, dtype, n); break;
    }
}

/* The n elements at x as f32: in place if they are, else widened into buffer. */
static inline const float *zoe_row_read(const zoe_kernels *k, const void *x, zoe_dtype dtype,
                                        size_t n, float *buffer)
{
    if (dtype == ZOE_F32)
        return x;
    zoe_row_widen(k, buffer, x, dtype, n);
    return buffer;
}

/* Where to put n f32 values that are meant for y: y itself if it is f32, else the buffer. */
static inline float *zoe_row_target(void *y, zoe_dtype dtype, float *buffer)
{
    return dtype == ZOE_F32 ? y : buffer;
}

/* Completes what zoe_row_target began: rounds the values into y if they are not there yet. */
static inline void zoe_row_write(const zoe_kernels *k, void *y, zoe_dtype dtype,
                                 const float *values, size_t n)
{
    switch (dtype) {
    case ZOE_F32:
        if (y != values)
            memcpy(y, values, n * sizeof *values);
        break;
    case ZOE_BF16: k->narrow_bf16(y, values, n); break;
    case ZOE_F16: k->narrow_f16(y, values, n); break;
    default: zoe_narrow(y, dtype, values, n); break;
    }
}

/* Hints that `bytes` at p are read soon. */
static inline void zoe_fetch(const void *p, size_t bytes)
{
    const char *line = p;
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(line + i, 0, 2);
}

static inline size_t zoe_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t zoe_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* The size of even blocks of n, each at most `most` and, save the last, a multiple of `unit`. */
static inline size_t zoe_even_block(size_t n, size_t most, size_t unit)
{
    const size_t block = zoe_ceil_div(n, zoe_ceil_div(n, most));
    return zoe_ceil_div(block, unit) * unit;
}

/* The most that zoe_even_block gives for n or fewer: workspaces are sized by it, so that one for n
 * elements serves fewer as well. */
static inline size_t zoe_block_room(size_t n, size_t most, size_t unit)
{
    return zoe_ceil_div(zoe_min(n, most), unit) * unit;
}

#endif
