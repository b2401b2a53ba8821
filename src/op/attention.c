/* Attention's contract. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

#define TYPES (ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16))

static zoe_status check(zoe_context *ctx, const zoe_attention_args *a)
{
    static const char op[] = "attention";
    TRY(ZOE_CHECK(ctx, op, "q", a->q, TYPES, 3, ZOE_ANY, ZOE_ANY, ZOE_ANY));
    const size_t Lq = a->q.shape[0], N = a->q.shape[1], D = a->q.shape[2];
    TRY(ZOE_CHECK(ctx, op, "k", a->k, ZOE_TYPE(a->q.dtype), 3, ZOE_ANY, N, D));
    const size_t Lk = a->k.shape[0];
    TRY(ZOE_CHECK(ctx, op, "v", a->v, ZOE_TYPE(a->q.dtype), 3, Lk, N, D));
    TRY(ZOE_CHECK(ctx, op, "o", a->o, TYPES, 3, Lq, N, D));
    if (Lk == 0)
        return zoe_fail(ctx, ZOE_INVALID, "attention: there are no keys");
    size_t distances = 0;
    if (Lq > 0 && !zoe_size_add(&distances, Lq - 1, Lk))
        return zoe_fail(ctx, ZOE_INVALID, "attention: %zu queries and %zu keys are too many", Lq,
                        Lk);
    if (Lq > 0)
        TRY(ZOE_CHECK(ctx, op, "bias", a->bias, ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE, 2, N,
                      distances));
    TRY(ZOE_CHECK(ctx, op, "lse", a->lse, ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE, 3, Lq, N, 1));
    if (a->lse.dtype != ZOE_NONE && a->round_scores)
        return zoe_fail(ctx, ZOE_INVALID, "attention: lse is not there with rounded scores");
    if (a->last_count == 0)
        return zoe_fail(ctx, ZOE_INVALID, "attention: last_count is 0, wanted at least 1");
    TRY(zoe_check_apart(ctx, op, "o", a->o, "q", a->q, false));
    TRY(zoe_check_apart(ctx, op, "o", a->o, "k", a->k, false));
    TRY(zoe_check_apart(ctx, op, "o", a->o, "v", a->v, false));
    TRY(zoe_check_apart(ctx, op, "o", a->o, "bias", a->bias, false));
    TRY(zoe_check_apart(ctx, op, "lse", a->lse, "o", a->o, false));
    TRY(zoe_check_apart(ctx, op, "lse", a->lse, "q", a->q, false));
    TRY(zoe_check_apart(ctx, op, "lse", a->lse, "k", a->k, false));
    TRY(zoe_check_apart(ctx, op, "lse", a->lse, "v", a->v, false));
    return zoe_check_apart(ctx, op, "lse", a->lse, "bias", a->bias, false);
}

static bool has_result(const zoe_attention_args *args)
{
    return zoe_tensor_count(args->q) > 0;
}

/* [L, N, D] as [1, N, L, D] */
static zoe_tensor view_of(zoe_tensor t)
{
    zoe_tensor v = {.data = t.data, .dtype = t.dtype, .rank = 4};
    v.shape[0] = 1;
    v.shape[1] = t.shape[1];
    v.stride[1] = t.stride[1];
    v.shape[2] = t.shape[0];
    v.stride[2] = t.stride[0];
    v.shape[3] = t.shape[2];
    v.stride[3] = 1;
    return v;
}

/* [L, N, 1] as [1, N, L] */
static zoe_tensor lse_of(zoe_tensor t)
{
    if (t.dtype == ZOE_NONE)
        return t;
    zoe_tensor v = view_of(t);
    v.rank = 3;
    return v;
}

static zoe_attention_form form_of(const zoe_attention_args *a)
{
    return (zoe_attention_form){.o = view_of(a->o),
                                .lse = lse_of(a->lse),
                                .q = view_of(a->q),
                                .k = view_of(a->k),
                                .v = view_of(a->v),
                                .bias = a->bias,
                                .mask = zoe_tensor_none(),
                                .sequences = 1,
                                .before = ZOE_ATTENTION_FAR,
                                .after = ZOE_ATTENTION_FAR,
                                .scale = a->scale,
                                .invalid = -INFINITY,
                                .last_count = a->last_count,
                                .round_scores = a->round_scores};
}

size_t zoe_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args)
{
    const zoe_attention_form form = form_of(args);
    return has_result(args) ? zoe_device_of(ctx)->attention_workspace(ctx, &form) : 0;
}

zoe_status zoe_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work)
{
    TRY(check(ctx, args));
    if (!has_result(args))
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, "attention", work, zoe_attention_workspace(ctx, args)));
    const zoe_attention_form form = form_of(args);
    return ZOE_RUN(ATTENTION, attention(ctx, &form, work));
}
