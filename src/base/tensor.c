/* Tensor views and element types. */
#include "base/base.h"

#include <stdio.h>

size_t zoe_dtype_bytes(zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_F64:
    case ZOE_I64: return 8;
    case ZOE_F32:
    case ZOE_I32: return 4;
    case ZOE_F16:
    case ZOE_BF16:
    case ZOE_I16: return 2;
    case ZOE_F8_E4M3:
    case ZOE_F8_E5M2:
    case ZOE_I8:
    case ZOE_U8:
    case ZOE_BOOL: return 1;
    default: return 0;
    }
}

size_t zoe_block_elements(zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_Q4_0:
    case ZOE_Q4_1:
    case ZOE_Q5_0:
    case ZOE_Q5_1:
    case ZOE_Q8_0: return 32;
    case ZOE_Q2_K:
    case ZOE_Q3_K:
    case ZOE_Q4_K:
    case ZOE_Q5_K:
    case ZOE_Q6_K: return 256;
    default: return 1;
    }
}

size_t zoe_block_bytes(zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_Q4_0: return 18;
    case ZOE_Q4_1: return 20;
    case ZOE_Q5_0: return 22;
    case ZOE_Q5_1: return 24;
    case ZOE_Q8_0: return 34;
    case ZOE_Q2_K: return 84;
    case ZOE_Q3_K: return 110;
    case ZOE_Q4_K: return 144;
    case ZOE_Q5_K: return 176;
    case ZOE_Q6_K: return 210;
    default: return zoe_dtype_bytes(dtype);
    }
}

size_t zoe_run_bytes(zoe_dtype dtype, size_t n)
{
    return n / zoe_block_elements(dtype) * zoe_block_bytes(dtype);
}

const char *zoe_dtype_name(zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_NONE: return "none";
    case ZOE_F32: return "f32";
    case ZOE_F16: return "f16";
    case ZOE_BF16: return "bf16";
    case ZOE_F64: return "f64";
    case ZOE_F8_E4M3: return "f8_e4m3";
    case ZOE_F8_E5M2: return "f8_e5m2";
    case ZOE_I64: return "i64";
    case ZOE_I32: return "i32";
    case ZOE_I16: return "i16";
    case ZOE_I8: return "i8";
    case ZOE_U8: return "u8";
    case ZOE_BOOL: return "bool";
    case ZOE_Q4_0: return "q4_0";
    case ZOE_Q4_1: return "q4_1";
    case ZOE_Q5_0: return "q5_0";
    case ZOE_Q5_1: return "q5_1";
    case ZOE_Q8_0: return "q8_0";
    case ZOE_Q2_K: return "q2_k";
    case ZOE_Q3_K: return "q3_k";
    case ZOE_Q4_K: return "q4_k";
    case ZOE_Q5_K: return "q5_k";
    case ZOE_Q6_K: return "q6_k";
    }
    return "unknown";
}

bool zoe_dtype_is_float(zoe_dtype dtype)
{
    return dtype == ZOE_F32 || dtype == ZOE_F16 || dtype == ZOE_BF16 || dtype == ZOE_F64 ||
           dtype == ZOE_F8_E4M3 || dtype == ZOE_F8_E5M2 || zoe_block_elements(dtype) > 1;
}

zoe_tensor zoe_tensor_of(void *data, zoe_dtype dtype, int rank, const size_t *shape)
{
    zoe_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    size_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = (ptrdiff_t)stride;
        stride *= shape[i];
    }
    return t;
}

zoe_tensor zoe_tensor_1d(void *data, zoe_dtype dtype, size_t n0)
{
    return zoe_tensor_of(data, dtype, 1, (const size_t[]){n0});
}

zoe_tensor zoe_tensor_2d(void *data, zoe_dtype dtype, size_t n0, size_t n1)
{
    return zoe_tensor_of(data, dtype, 2, (const size_t[]){n0, n1});
}

zoe_tensor zoe_tensor_3d(void *data, zoe_dtype dtype, size_t n0, size_t n1, size_t n2)
{
    return zoe_tensor_of(data, dtype, 3, (const size_t[]){n0, n1, n2});
}

zoe_tensor zoe_tensor_4d(void *data, zoe_dtype dtype, size_t n0, size_t n1, size_t n2, size_t n3)
{
    return zoe_tensor_of(data, dtype, 4, (const size_t[]){n0, n1, n2, n3});
}

zoe_tensor zoe_tensor_none(void)
{
    return (zoe_tensor){.dtype = ZOE_NONE};
}

/* Views from outside may have any rank; only these have their extents. */
static bool rank_fits(zoe_tensor t)
{
    return t.rank >= 0 && t.rank <= ZOE_MAX_RANK;
}

size_t zoe_tensor_count(zoe_tensor t)
{
    if (t.dtype == ZOE_NONE || !rank_fits(t))
        return 0;
    size_t n = 1;
    for (int i = 0; i < t.rank; i++)
        n *= t.shape[i];
    return n;
}

size_t zoe_tensor_bytes(zoe_tensor t)
{
    return zoe_run_bytes(t.dtype, zoe_tensor_count(t));
}

bool zoe_tensor_dense(zoe_tensor t)
{
    size_t stride = 1;
    if (!rank_fits(t))
        return false;
    for (int i = t.rank - 1; i >= 0; i--) {
        if (t.shape[i] != 1 && t.stride[i] != (ptrdiff_t)stride)
            return false;
        stride *= t.shape[i];
    }
    return true;
}

char *zoe_tensor_describe(char *buf, size_t size, zoe_tensor t)
{
    size_t used = 0;
    if (!rank_fits(t)) {
        snprintf(buf, size, "%s of rank %d", zoe_dtype_name(t.dtype), t.rank);
        return buf;
    }
    int n = snprintf(buf, size, "%s [", zoe_dtype_name(t.dtype));
    for (int i = 0; n > 0 && i <= t.rank; i++) {
        used += (size_t)n;
        if (used >= size)
            return buf;
        if (i < t.rank)
            n = snprintf(buf + used, size - used, "%s%zu", i ? ", " : "", t.shape[i]);
        else
            n = snprintf(buf + used, size - used, "]");
    }
    return buf;
}
