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
    case ZOE_NONE: return 0;
    }
    return 0;
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
    }
    return "unknown";
}

bool zoe_dtype_is_float(zoe_dtype dtype)
{
    return dtype == ZOE_F32 || dtype == ZOE_F16 || dtype == ZOE_BF16 || dtype == ZOE_F64 ||
           dtype == ZOE_F8_E4M3 || dtype == ZOE_F8_E5M2;
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

size_t zoe_tensor_count(zoe_tensor t)
{
    if (t.dtype == ZOE_NONE)
        return 0;
    size_t n = 1;
    for (int i = 0; i < t.rank; i++)
        n *= t.shape[i];
    return n;
}

bool zoe_tensor_dense(zoe_tensor t)
{
    size_t stride = 1;
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
