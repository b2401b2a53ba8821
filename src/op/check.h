/* Room 7, op: what an operator allows and means. Each function here checks its arguments and hands
 * them to the device; this header has the checks that they share. */
#ifndef ZOE_CHECK_H
#define ZOE_CHECK_H

#include "base/base.h"
#include "zoetrope/op.h"

/* A set of element types. */
#define ZOE_TYPE(dtype) (1u << (dtype))
#define ZOE_TYPES_ROW (ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_BF16))
#define ZOE_TYPES_BLOCK                                                                            \
    (ZOE_TYPE(ZOE_Q4_0) | ZOE_TYPE(ZOE_Q4_1) | ZOE_TYPE(ZOE_Q5_0) | ZOE_TYPE(ZOE_Q5_1) |           \
     ZOE_TYPE(ZOE_Q8_0) | ZOE_TYPE(ZOE_Q2_K) | ZOE_TYPE(ZOE_Q3_K) | ZOE_TYPE(ZOE_Q4_K) |           \
     ZOE_TYPE(ZOE_Q5_K) | ZOE_TYPE(ZOE_Q6_K))
#define ZOE_TYPES_WEIGHT                                                                           \
    (ZOE_TYPES_ROW | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_F8_E4M3) | ZOE_TYPE(ZOE_F8_E5M2) |           \
     ZOE_TYPES_BLOCK | ZOE_TYPES_SCALED)
/* Added to a set: the tensor may have factors beside it. */
#define ZOE_TYPES_SCALED (1u << 31)
_Static_assert(ZOE_DTYPES < 31, "a set of types has a bit for each");
/* Added to a set: the tensor may be absent. */
#define ZOE_TYPES_OR_NONE ZOE_TYPE(ZOE_NONE)

/* An extent that may be anything. */
#define ZOE_ANY SIZE_MAX

/* Is t of one of these types and of this shape, with a dense last axis, positive strides, rows of
 * whole blocks, and memory behind it? op and name are for the sentence. */
zoe_status zoe_check_tensor(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                            unsigned types, int rank, const size_t *shape);
/* The same, with the extents as arguments. */
#define ZOE_CHECK(ctx, op, name, t, types, rank, ...)                                              \
    zoe_check_tensor(ctx, op, name, t, types, rank, (const size_t[]){__VA_ARGS__})

/* Output y and input x must not share memory, unless `same` allows that they are the very same
 * view. */
zoe_status zoe_check_apart(zoe_context *ctx, const char *op, const char *y_name, zoe_tensor y,
                           const char *x_name, zoe_tensor x, bool same);

/* Both or neither are given. */
zoe_status zoe_check_pair(zoe_context *ctx, const char *op, const char *a_name, zoe_tensor a,
                          const char *b_name, zoe_tensor b);

/* cos and sin of one shape and one of these types, rank 1 to 5, with entries. */
zoe_status zoe_check_trig(zoe_context *ctx, const char *op, zoe_tensor cos, zoe_tensor sin,
                          unsigned types);
/* Are the axes of t before its last one those of x, or 1? */
zoe_status zoe_check_spread(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                            const char *x_name, zoe_tensor x);

/* All of zoe_rms_norm, or of zoe_layer_norm_modulate, but that y lies apart from its inputs. */
zoe_status zoe_check_rms_norm(zoe_context *ctx, const char *op, const zoe_rms_norm_args *args);
zoe_status zoe_check_layer_norm_modulate(zoe_context *ctx, const char *op,
                                         const zoe_layer_norm_modulate_args *args);

/* zoe_conv3d under the name of the operator that was called. */
zoe_status zoe_conv3d_as(zoe_context *ctx, const char *op, const zoe_conv3d_args *args,
                         zoe_workspace work);

/* Is what is added to a mean square or variance a number, and not below 0? */
zoe_status zoe_check_eps(zoe_context *ctx, const char *op, float eps);

zoe_status zoe_check_workspace(zoe_context *ctx, const char *op, zoe_workspace work, size_t wanted);

#endif
