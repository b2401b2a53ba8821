/* Attention's contract. */
#include "device/device.h"
#include "op/check.h"

static zoe_status check(zoe_context *ctx, const zoe_attention_args *a)
{
    static const char op[] = "attention";
    TRY(ZOE_CHECK(ctx, op, "q", a->q, ZOE_TYPES_ROW, 3, ZOE_ANY, ZOE_ANY, ZOE_ANY));
    const size_t Lq = a->q.shape[0], N = a->q.shape[1], D = a->q.shape[2];
    TRY(ZOE_CHECK(ctx, op, "k", a->k, ZOE_TYPE(a->q.dtype), 3, ZOE_ANY, N, D));
    const size_t Lk = a->k.shape[0];
    TRY(ZOE_CHECK(ctx, op, "v", a->v, ZOE_TYPE(a->q.dtype), 3, Lk, N, D));
    TRY(ZOE_CHECK(ctx, op, "o", a->o, ZOE_TYPES_ROW, 3, Lq, N, D));
    if (Lk == 0)
        return zoe_fail(ctx, ZOE_INVALID, "attention: there are no keys");
    size_t distances = 0;
    if (Lq > 0 && !zoe_size_add(&distances, Lq - 1, Lk))
        return zoe_fail(ctx, ZOE_INVALID, "attention: %zu queries and %zu keys are too many", Lq,
                        Lk);
    if (Lq > 0)
        TRY(ZOE_CHECK(ctx, op, "bias", a->bias, ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE, 2, N,
                      distances));
    if (a->last_count == 0)
        return zoe_fail(ctx, ZOE_INVALID, "attention: last_count is 0, wanted at least 1");
    TRY(zoe_check_apart(ctx, op, "o", a->o, "q", a->q, false));
    TRY(zoe_check_apart(ctx, op, "o", a->o, "k", a->k, false));
    TRY(zoe_check_apart(ctx, op, "o", a->o, "v", a->v, false));
    return zoe_check_apart(ctx, op, "o", a->o, "bias", a->bias, false);
}

static bool has_result(const zoe_attention_args *args)
{
    return zoe_tensor_count(args->q) > 0;
}

size_t zoe_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args)
{
    return has_result(args) ? zoe_device_of(ctx)->attention_workspace(ctx, args) : 0;
}

zoe_status zoe_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work)
{
    TRY(check(ctx, args));
    if (!has_result(args))
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, "attention", work, zoe_attention_workspace(ctx, args)));
    return zoe_device_of(ctx)->attention(ctx, args, work);
}
