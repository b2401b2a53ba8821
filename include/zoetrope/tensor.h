/* Tensor views. A view never owns what it points to and is passed by value. */
#ifndef ZOETROPE_TENSOR_H
#define ZOETROPE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ZOE_MAX_RANK 5

typedef enum zoe_dtype {
    ZOE_NONE = 0, /* an empty tensor: "not given" */
    ZOE_F32,
    ZOE_F16,
    ZOE_BF16,
    ZOE_F64,
    ZOE_F8_E4M3, /* the "fn" kind: no infinity */
    ZOE_F8_E5M2,
    ZOE_I64,
    ZOE_I32,
    ZOE_I16,
    ZOE_I8,
    ZOE_U8,
    ZOE_BOOL,
    /* Block-quantised types, as GGUF files have them: so many elements share a scale and lie together.
     * Tensors of these types are dense, their last axis mostly is a whole number of blocks, and only
     * the linear layer computes with them. */
    ZOE_Q4_0,
    ZOE_Q4_1,
    ZOE_Q5_0,
    ZOE_Q5_1,
    ZOE_Q8_0,
    ZOE_Q2_K,
    ZOE_Q3_K,
    ZOE_Q4_K,
    ZOE_Q5_K,
    ZOE_Q6_K
} zoe_dtype;

/* One more than the last type. */
#define ZOE_DTYPES (ZOE_Q6_K + 1)

/* Factors beside a weight: the value of an element is what is stored times its factor. With r the
 * index of the first axis and c the index in what one step of that axis covers, the factor is
 * values[r / row_step * columns + c / column_step]. Steps of SIZE_MAX mean: one for all. */
typedef struct zoe_scaling {
    const float *values;
    size_t row_step, column_step, columns;
} zoe_scaling;

/* Element i, j, ... lies at data + (i*stride[0] + j*stride[1] + ...) elements. */
typedef struct zoe_tensor {
    void *data;
    zoe_dtype dtype;
    int rank; /* 0 (one element) to ZOE_MAX_RANK */
    size_t shape[ZOE_MAX_RANK];
    ptrdiff_t stride[ZOE_MAX_RANK]; /* in elements */
    const zoe_scaling *scaling;     /* NULL for most; such a tensor is viewed whole */
} zoe_tensor;

/* Bytes of one element; 0 for ZOE_NONE and for block types, whose elements have no bytes of their
 * own. */
size_t zoe_dtype_bytes(zoe_dtype dtype);

/* Elements of a block and its bytes; of other types, 1 and the bytes of an element. */
size_t zoe_block_elements(zoe_dtype dtype);
size_t zoe_block_bytes(zoe_dtype dtype);

/* Bytes of a dense run of n elements, a whole number of blocks. */
size_t zoe_run_bytes(zoe_dtype dtype, size_t n);

/* "f32", "bf16", ... */
const char *zoe_dtype_name(zoe_dtype dtype);

/* A dense row-major view. The product of the extents must fit size_t (callers check sizes from
 * outside first). */
zoe_tensor zoe_tensor_of(void *data, zoe_dtype dtype, int rank, const size_t *shape);
zoe_tensor zoe_tensor_1d(void *data, zoe_dtype dtype, size_t n0);
zoe_tensor zoe_tensor_2d(void *data, zoe_dtype dtype, size_t n0, size_t n1);
zoe_tensor zoe_tensor_3d(void *data, zoe_dtype dtype, size_t n0, size_t n1, size_t n2);
zoe_tensor zoe_tensor_4d(void *data, zoe_dtype dtype, size_t n0, size_t n1, size_t n2, size_t n3);

/* "Not given". */
zoe_tensor zoe_tensor_none(void);

/* Number of elements; 0 for an empty tensor, and for a rank that no tensor has. */
size_t zoe_tensor_count(zoe_tensor t);

/* Bytes of its elements; of a dense tensor, of the memory that it views. */
size_t zoe_tensor_bytes(zoe_tensor t);

/* Are the elements dense in row-major order? */
bool zoe_tensor_dense(zoe_tensor t);

/* "f32 [3, 64, 64]" into buf, cut to size; returns buf. */
char *zoe_tensor_describe(char *buf, size_t size, zoe_tensor t);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
