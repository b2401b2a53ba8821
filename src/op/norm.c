/* The normalisations' contracts. */
#include "device/device.h"
#include "op/check.h"

static const unsigned f32 = ZOE_TYPE(ZOE_F32), f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;

/* x [M, D] with D > 0, y alike, apart or the same. */
static zoe_status check_rows(zoe_context *ctx, const char *op, zoe_tensor y, zoe_tensor x,
                             unsigned types)
{
    TRY(ZOE_CHECK(ctx, op, "x", x, types, 2, ZOE_ANY, ZOE_ANY));
    TRY(ZOE_CHECK(ctx, op, "y", y, types, 2, x.shape[0], x.shape[1]));
    if (x.shape[0] > 0 && x.shape[1] == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: rows of x have no elements", op);
    return zoe_check_apart(ctx, op, "y", y, "x", x, true);
}

/* A vector for the columns of y, f32 or absent. */
static zoe_status check_columns(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                unsigned types, zoe_tensor y)
{
    TRY(ZOE_CHECK(ctx, op, name, t, types, 1, y.shape[1]));
    return zoe_check_apart(ctx, op, "y", y, name, t, false);
}

zoe_status zoe_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args)
{
    static const char op[] = "layer_norm";
    const zoe_tensor y = args->y;
    TRY(check_rows(ctx, op, y, args->x, ZOE_TYPES_ROW));
    TRY(check_columns(ctx, op, "gamma", args->gamma, f32_or_none, y));
    TRY(check_columns(ctx, op, "beta", args->beta, f32_or_none, y));
    TRY(check_columns(ctx, op, "scale", args->scale, f32_or_none, y));
    TRY(check_columns(ctx, op, "shift", args->shift, f32_or_none, y));
    TRY(zoe_check_pair(ctx, op, "gamma", args->gamma, "beta", args->beta));
    TRY(zoe_check_pair(ctx, op, "scale", args->scale, "shift", args->shift));
    return y.shape[0] ? zoe_device_of(ctx)->layer_norm(ctx, args) : ZOE_OK;
}

zoe_status zoe_rms_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma, float eps)
{
    static const char op[] = "rms_norm";
    TRY(check_rows(ctx, op, y, x, ZOE_TYPES_ROW));
    TRY(check_columns(ctx, op, "gamma", gamma, f32_or_none, y));
    if (y.shape[0] == 0)
        return ZOE_OK;
    return zoe_device_of(ctx)->rms_norm(ctx, y, x, gamma, eps, zoe_tensor_none(),
                                        zoe_tensor_none());
}

zoe_status zoe_rms_norm_rope(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                             float eps, zoe_tensor cos, zoe_tensor sin)
{
    static const char op[] = "rms_norm_rope";
    TRY(check_rows(ctx, op, y, x, ZOE_TYPES_ROW));
    TRY(check_columns(ctx, op, "gamma", gamma, f32, y));
    TRY(ZOE_CHECK(ctx, op, "cos", cos, f32, 2, x.shape[0], ZOE_ANY));
    TRY(ZOE_CHECK(ctx, op, "sin", sin, f32, 2, x.shape[0], cos.shape[1]));
    const size_t half = cos.shape[1];
    if (half == 0 || x.shape[1] % 2 != 0 || x.shape[1] / 2 % half != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "rms_norm_rope: rows of %zu elements are not whole heads of twice the %zu "
                        "cosines",
                        x.shape[1], half);
    TRY(zoe_check_apart(ctx, op, "y", y, "cos", cos, false));
    TRY(zoe_check_apart(ctx, op, "y", y, "sin", sin, false));
    return y.shape[0] ? zoe_device_of(ctx)->rms_norm(ctx, y, x, gamma, eps, cos, sin) : ZOE_OK;
}

zoe_status zoe_l2_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma, bool silu)
{
    static const char op[] = "l2_norm";
    TRY(check_rows(ctx, op, y, x, f32));
    TRY(check_columns(ctx, op, "gamma", gamma, f32, y));
    return y.shape[0] ? zoe_device_of(ctx)->l2_norm(ctx, y, x, gamma, silu) : ZOE_OK;
}
