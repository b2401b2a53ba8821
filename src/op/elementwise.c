/* The contracts of operators on single elements, and of the softmax of rows. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned types = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);

/* Both of x's shape; y apart from it or the same view. */
static zoe_status check_input(zoe_context *ctx, const char *op, zoe_tensor y, const char *name,
                              zoe_tensor x, unsigned x_types)
{
    TRY(zoe_check_tensor(ctx, op, name, x, x_types, y.rank, y.shape));
    return zoe_check_apart(ctx, op, "y", y, name, x, true);
}

static zoe_status check_output(zoe_context *ctx, const char *op, zoe_tensor y, unsigned y_types)
{
    return zoe_check_tensor(ctx, op, "y", y, y_types, y.rank, y.shape);
}

static zoe_status check_activation(zoe_context *ctx, const char *op, zoe_activation activation)
{
    if ((unsigned)activation <= ZOE_ACT_LAST)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: activation %d is not known", op, (int)activation);
}

zoe_status zoe_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation)
{
    static const char op[] = "activate";
    TRY(check_output(ctx, op, y, types));
    TRY(check_input(ctx, op, y, "x", x, types));
    TRY(check_activation(ctx, op, activation));
    return zoe_tensor_count(y) ? ZOE_RUN(ELEMENT, activate(ctx, y, x, activation)) : ZOE_OK;
}

zoe_status zoe_glu(zoe_context *ctx, const zoe_glu_args *args)
{
    static const char op[] = "glu";
    const unsigned allowed = args->round_steps ? ZOE_TYPE(ZOE_BF16) : types;
    TRY(check_output(ctx, op, args->y, allowed));
    TRY(check_input(ctx, op, args->y, "gate", args->gate, allowed));
    TRY(check_input(ctx, op, args->y, "up", args->up, allowed));
    TRY(check_activation(ctx, op, args->activation));
    if (args->round_steps && args->activation != ZOE_ACT_GELU_TANH)
        return zoe_fail(ctx, ZOE_INVALID, "glu: rounded steps are defined for the tanh GELU only");
    return zoe_tensor_count(args->y) ? ZOE_RUN(ELEMENT, glu(ctx, args)) : ZOE_OK;
}

zoe_status zoe_softmax(zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    static const char op[] = "softmax";
    TRY(check_output(ctx, op, y, types));
    TRY(check_input(ctx, op, y, "x", x, types));
    if (y.rank == 0)
        return zoe_fail(ctx, ZOE_INVALID, "softmax: y has rank 0, wanted at least 1");
    return zoe_tensor_count(y) ? ZOE_RUN(ELEMENT, softmax(ctx, y, x)) : ZOE_OK;
}

zoe_status zoe_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b)
{
    static const char op[] = "add";
    TRY(check_output(ctx, op, y, types));
    TRY(check_input(ctx, op, y, "a", a, types));
    TRY(check_input(ctx, op, y, "b", b, types));
    return zoe_tensor_count(y) ? ZOE_RUN(ELEMENT, add(ctx, y, a, b)) : ZOE_OK;
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
    static const char op[] = "cast";
    if (zoe_tensor_dense(x) && zoe_tensor_dense(y)) {
        x = flat(x);
        y = flat(y);
    }
    const unsigned block = zoe_block_elements(x.dtype) > 1 ? ZOE_TYPES_BLOCK : 0;
    TRY(check_output(ctx, op, y, types));
    TRY(check_input(ctx, op, y, "x", x,
                    types | ZOE_TYPE(ZOE_F8_E4M3) | ZOE_TYPE(ZOE_F8_E5M2) | block));
    if (block && !zoe_tensor_dense(x))
        return zoe_fail(ctx, ZOE_INVALID, "cast: x has blocks and is not dense");
    return zoe_tensor_count(y) ? ZOE_RUN(ELEMENT, cast(ctx, y, x)) : ZOE_OK;
}
