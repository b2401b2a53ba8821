/* The contracts of int8: quantisation, packed weights, products. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned f32 = ZOE_TYPE(ZOE_F32), f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;
static const unsigned floats = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
static const unsigned i8 = ZOE_TYPE(ZOE_I8), i32 = ZOE_TYPE(ZOE_I32);

static size_t groups_of(size_t K, size_t group)
{
    return group ? K / group + (K % group != 0) : 1;
}

/* ---- rows ---- */

static zoe_status check_quant(zoe_context *ctx, const zoe_dynamic_quant_args *a)
{
    static const char op[] = "dynamic_quant";
    const int rank = a->x.rank;
    if (rank < 1 || rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: x has rank %d, wanted 1 to %d", op, rank,
                        ZOE_MAX_RANK);
    size_t shape[ZOE_MAX_RANK];
    memcpy(shape, a->x.shape, sizeof shape);
    const size_t K = shape[rank - 1];
    TRY(zoe_check_tensor(ctx, op, "x", a->x, floats, rank, shape));
    TRY(zoe_check_tensor(ctx, op, "q", a->q, i8, rank, shape));
    TRY(ZOE_CHECK(ctx, op, "smooth", a->smooth, f32_or_none, 1, K));
    if (K == 0 && zoe_tensor_count(a->scale) > 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: rows of x have no elements", op);
    shape[rank - 1] = groups_of(K, a->group);
    TRY(zoe_check_tensor(ctx, op, "scale", a->scale, f32, a->group ? rank : rank - 1, shape));
    TRY(zoe_check_apart(ctx, op, "q", a->q, "x", a->x, false));
    TRY(zoe_check_apart(ctx, op, "q", a->q, "smooth", a->smooth, false));
    TRY(zoe_check_apart(ctx, op, "q", a->q, "scale", a->scale, false));
    TRY(zoe_check_apart(ctx, op, "scale", a->scale, "x", a->x, false));
    return zoe_check_apart(ctx, op, "scale", a->scale, "smooth", a->smooth, false);
}

size_t zoe_dynamic_quant_workspace(const zoe_context *ctx, const zoe_dynamic_quant_args *args)
{
    return args->x.rank > 0 && zoe_tensor_count(args->x) > 0
               ? zoe_device_of(ctx)->dynamic_quant_workspace(ctx, args)
               : 0;
}

zoe_status zoe_dynamic_quant(zoe_context *ctx, const zoe_dynamic_quant_args *args,
                             zoe_workspace work)
{
    TRY(check_quant(ctx, args));
    if (zoe_tensor_count(args->x) == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, "dynamic_quant", work, zoe_dynamic_quant_workspace(ctx, args)));
    return ZOE_RUN(ELEMENT, dynamic_quant(ctx, args, work));
}

/* ---- weights ---- */

zoe_status zoe_int8_weights_new(zoe_context *ctx, zoe_int8_weights **packed, zoe_tensor w,
                                size_t group)
{
    static const char op[] = "int8 weights";
    *packed = NULL;
    TRY(ZOE_CHECK(ctx, op, "w", w, ZOE_TYPES_WEIGHT | i8, 2, ZOE_ANY, ZOE_ANY));
    if (w.shape[0] == 0 || w.shape[1] == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: w is [%zu, %zu], which is empty", op, w.shape[0],
                        w.shape[1]);
    if (group != 0 && group != 128 && group != 256)
        return zoe_fail(ctx, ZOE_INVALID, "%s: group %zu, wanted 0, 128 or 256", op, group);
    if (group == 0 && w.shape[1] > ZOE_INT8_MOST_K)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: K is %zu; sums of more than %d products may not fit 32 bits", op,
                        w.shape[1], ZOE_INT8_MOST_K);
    if (zoe_device_of(ctx)->int8_weights_bytes(w.shape[0], w.shape[1], group) == SIZE_MAX)
        return zoe_fail(ctx, ZOE_INVALID, "%s: w is [%zu, %zu], more than memory can address", op,
                        w.shape[0], w.shape[1]);
    return ZOE_RUN(PACK, int8_weights_new(ctx, packed, w, group));
}

void zoe_int8_weights_free(zoe_int8_weights *packed)
{
    if (packed)
        packed->device->int8_weights_free(packed);
}

size_t zoe_int8_weights_bytes(zoe_tensor w, size_t group)
{
    const bool fits = w.rank == 2 && w.shape[0] > 0 && w.shape[1] > 0;
    return fits ? zoe_device_cpu.int8_weights_bytes(w.shape[0], w.shape[1], group) : 0;
}

/* ---- products ---- */

static const char op_linear[] = "linear_int8";

static bool given(zoe_tensor t)
{
    return t.dtype != ZOE_NONE;
}

/* [N] or [1] of f32, or none. */
static zoe_status check_column(zoe_context *ctx, const char *name, zoe_tensor t, size_t N)
{
    const bool one = t.rank == 1 && t.shape[0] == 1;
    return ZOE_CHECK(ctx, op_linear, name, t, f32_or_none, 1, one ? 1 : N);
}

static zoe_status check_x_scale(zoe_context *ctx, const zoe_linear_int8_args *a)
{
    const size_t M = a->x.shape[0], group = a->weights->group;
    if (a->x.dtype != ZOE_I8 && given(a->x_scale))
        return zoe_fail(ctx, ZOE_INVALID, "%s: x_scale is given with x of %s, wanted i8", op_linear,
                        zoe_dtype_name(a->x.dtype));
    return ZOE_CHECK(ctx, op_linear, "x_scale", a->x_scale, f32_or_none, group ? 2 : 1, M,
                     groups_of(a->weights->K, group));
}

/* Parts that exclude each other. */
static zoe_status check_parts(zoe_context *ctx, const zoe_linear_int8_args *a)
{
    const bool whole = a->y.dtype == ZOE_I32;
    if (a->weights->group && (whole || given(a->scale) || a->bias.dtype == ZOE_I32))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: y or bias of i32, or scale, with weights in groups, which have no "
                        "single sum",
                        op_linear);
    if (whole && (a->x.dtype != ZOE_I8 || given(a->x_scale) || given(a->scale) || given(a->gate) ||
                  given(a->residual) || a->activation != ZOE_ACT_NONE ||
                  (given(a->bias) && a->bias.dtype != ZOE_I32)))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: y of i32 is the sum of x in i8 and a bias in i32, without other parts",
                        op_linear);
    if (given(a->offset) && a->y.dtype != ZOE_I8)
        return zoe_fail(ctx, ZOE_INVALID, "%s: offset is given with y of %s, wanted i8", op_linear,
                        zoe_dtype_name(a->y.dtype));
    if ((unsigned)a->activation > ZOE_ACT_LAST)
        return zoe_fail(ctx, ZOE_INVALID, "%s: activation %d is not known", op_linear,
                        (int)a->activation);
    return ZOE_OK;
}

static zoe_status check_linear(zoe_context *ctx, const zoe_linear_int8_args *a)
{
    if (!a->weights)
        return zoe_fail(ctx, ZOE_INVALID, "%s: no weights are given", op_linear);
    const size_t N = a->weights->N, K = a->weights->K;
    TRY(ZOE_CHECK(ctx, op_linear, "x", a->x, floats | i8, 2, ZOE_ANY, K));
    const size_t M = a->x.shape[0];
    TRY(ZOE_CHECK(ctx, op_linear, "y", a->y, floats | i8 | i32, 2, M, N));
    TRY(check_parts(ctx, a));
    TRY(check_x_scale(ctx, a));
    TRY(check_column(ctx, "scale", a->scale, N));
    TRY(check_column(ctx, "offset", a->offset, N));
    TRY(ZOE_CHECK(ctx, op_linear, "bias", a->bias, floats | i32 | ZOE_TYPES_OR_NONE, 1, N));
    TRY(ZOE_CHECK(ctx, op_linear, "gate", a->gate, f32_or_none, 1, N));
    TRY(ZOE_CHECK(ctx, op_linear, "residual", a->residual, floats | ZOE_TYPES_OR_NONE, 2, M, N));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "x", a->x, false));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "x_scale", a->x_scale, false));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "scale", a->scale, false));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "offset", a->offset, false));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "bias", a->bias, false));
    TRY(zoe_check_apart(ctx, op_linear, "y", a->y, "gate", a->gate, false));
    return zoe_check_apart(ctx, op_linear, "y", a->y, "residual", a->residual, true);
}

size_t zoe_linear_int8_workspace_of(const zoe_context *ctx, size_t M, size_t N, size_t K,
                                    zoe_dtype x, size_t group)
{
    return M > 0 && N > 0 ? zoe_device_of(ctx)->linear_int8_workspace(ctx, M, N, K, x, group) : 0;
}

size_t zoe_linear_int8_workspace(const zoe_context *ctx, const zoe_linear_int8_args *args)
{
    const zoe_int8_weights *w = args->weights;
    return w ? zoe_linear_int8_workspace_of(ctx, args->x.shape[0], w->N, w->K, args->x.dtype,
                                            w->group)
             : 0;
}

zoe_status zoe_linear_int8(zoe_context *ctx, const zoe_linear_int8_args *args, zoe_workspace work)
{
    TRY(check_linear(ctx, args));
    if (args->x.shape[0] == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, op_linear, work, zoe_linear_int8_workspace(ctx, args)));
    return ZOE_RUN(LINEAR, linear_int8(ctx, args, work));
}
