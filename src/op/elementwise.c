/* The contracts of operators on single elements. */
#include "device/device.h"
#include "op/check.h"

/* y and x: dense, one shape, apart or the same. */
static zoe_status check_dense(zoe_context *ctx, const char *op, zoe_tensor y, unsigned y_types,
                              zoe_tensor x, unsigned x_types)
{
    TRY(zoe_check_tensor(ctx, op, "x", x, x_types, x.rank, x.shape));
    TRY(zoe_check_tensor(ctx, op, "y", y, y_types, x.rank, x.shape));
    if (!zoe_tensor_dense(x) || !zoe_tensor_dense(y))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s is not dense", op,
                        zoe_tensor_dense(x) ? "y" : "x");
    return zoe_check_apart(ctx, op, "y", y, "x", x, true);
}

zoe_status zoe_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation)
{
    TRY(check_dense(ctx, "activate", y, ZOE_TYPES_ROW, x, ZOE_TYPES_ROW));
    if ((unsigned)activation > ZOE_ACT_GELU_ERF)
        return zoe_fail(ctx, ZOE_INVALID, "activate: activation %d is not known", (int)activation);
    if (zoe_tensor_count(x) == 0)
        return ZOE_OK;
    return zoe_device_of(ctx)->activate(ctx, y, x, activation);
}

zoe_status zoe_geglu(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up)
{
    static const char op[] = "geglu";
    TRY(ZOE_CHECK(ctx, op, "gate", gate, ZOE_TYPES_ROW, 2, ZOE_ANY, ZOE_ANY));
    TRY(zoe_check_tensor(ctx, op, "up", up, ZOE_TYPE(gate.dtype), 2, gate.shape));
    TRY(zoe_check_tensor(ctx, op, "y", y, ZOE_TYPE(gate.dtype), 2, gate.shape));
    TRY(zoe_check_apart(ctx, op, "y", y, "gate", gate, true));
    TRY(zoe_check_apart(ctx, op, "y", y, "up", up, true));
    return zoe_tensor_count(y) ? zoe_device_of(ctx)->geglu(ctx, y, gate, up) : ZOE_OK;
}

zoe_status zoe_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b)
{
    TRY(check_dense(ctx, "add", y, ZOE_TYPE(a.dtype), a, ZOE_TYPES_ROW));
    TRY(check_dense(ctx, "add", y, ZOE_TYPE(a.dtype), b, ZOE_TYPE(a.dtype)));
    return zoe_tensor_count(y) ? zoe_device_of(ctx)->add(ctx, y, a, b) : ZOE_OK;
}

/* A dense tensor as a vector; others as they are. */
static zoe_tensor flat(zoe_tensor t)
{
    size_t n;
    if (t.rank < 0 || t.rank > ZOE_MAX_RANK || !zoe_size_product(&n, t.shape, (size_t)t.rank) ||
        !zoe_tensor_dense(t))
        return t;
    return zoe_tensor_1d(t.data, t.dtype, n);
}

zoe_status zoe_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    x = flat(x);
    y = flat(y);
    TRY(check_dense(ctx, "cast", y, ZOE_TYPES_ROW | ZOE_TYPE(ZOE_F16), x, ZOE_TYPES_WEIGHT));
    return zoe_tensor_count(y) ? zoe_device_of(ctx)->cast(ctx, y, x) : ZOE_OK;
}
