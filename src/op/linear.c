/* The linear layer's contract. */
#include "device/device.h"
#include "op/check.h"

static zoe_status check_term(zoe_context *ctx, const zoe_linear_args *a, const zoe_linear_term *t)
{
    static const char op[] = "linear";
    TRY(ZOE_CHECK(ctx, op, "x of a term", t->x, ZOE_TYPES_ROW, 2, a->x.shape[0], ZOE_ANY));
    TRY(ZOE_CHECK(ctx, op, "w of a term", t->w, ZOE_TYPES_WEIGHT, 2, a->w.shape[0], t->x.shape[1]));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "x of a term", t->x, false));
    return zoe_check_apart(ctx, op, "y", a->y, "w of a term", t->w, false);
}

static zoe_status check(zoe_context *ctx, const zoe_linear_args *a)
{
    static const char op[] = "linear";
    TRY(ZOE_CHECK(ctx, op, "x", a->x, ZOE_TYPES_ROW, 2, ZOE_ANY, ZOE_ANY));
    const size_t M = a->x.shape[0], K = a->x.shape[1];
    TRY(ZOE_CHECK(ctx, op, "w", a->w, ZOE_TYPES_WEIGHT, 2, ZOE_ANY, K));
    const size_t N = a->w.shape[0];
    const unsigned f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;
    TRY(ZOE_CHECK(ctx, op, "y", a->y, ZOE_TYPES_ROW, 2, M, N));
    TRY(ZOE_CHECK(ctx, op, "bias", a->bias, f32_or_none, 1, N));
    TRY(ZOE_CHECK(ctx, op, "gate", a->gate, f32_or_none, 1, N));
    TRY(ZOE_CHECK(ctx, op, "residual", a->residual, ZOE_TYPES_ROW | ZOE_TYPES_OR_NONE, 2, M, N));
    if ((unsigned)a->activation > ZOE_ACT_GELU_ERF)
        return zoe_fail(ctx, ZOE_INVALID, "linear: activation %d is not known", (int)a->activation);
    TRY(zoe_check_apart(ctx, op, "y", a->y, "x", a->x, false));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "w", a->w, false));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "bias", a->bias, false));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "gate", a->gate, false));
    for (size_t i = 0; i < a->n_terms; i++)
        TRY(check_term(ctx, a, &a->terms[i]));
    return zoe_check_apart(ctx, op, "y", a->y, "residual", a->residual, true);
}

static bool has_result(const zoe_linear_args *args)
{
    return args->x.shape[0] > 0 && args->w.shape[0] > 0;
}

size_t zoe_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args)
{
    return has_result(args) ? zoe_device_of(ctx)->linear_workspace(ctx, args) : 0;
}

zoe_status zoe_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work)
{
    TRY(check(ctx, args));
    if (!has_result(args))
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, "linear", work, zoe_linear_workspace(ctx, args)));
    return zoe_device_of(ctx)->linear(ctx, args, work);
}
