/* The contract of GroupNorm. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned floats = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
static const char op[] = "group_norm_silu";

/* Places of a plane follow each other at one distance, which without channels_last is 1. */
static zoe_status check_plane(zoe_context *ctx, const char *name, zoe_tensor t, bool last)
{
    const int first = last ? 1 : 2, end = last ? t.rank - 1 : t.rank;
    ptrdiff_t wanted = last ? 0 : 1; /* from one index of the axis to the next; 0: any */
    for (int i = end - 1; i >= first; i--) {
        if (t.shape[i] == 1)
            continue; /* its stride is never taken */
        if (wanted && t.stride[i] != wanted)
            return zoe_fail(
                ctx, ZOE_INVALID,
                "%s: %s has stride %td on axis %d, wanted %td: planes are evenly spaced", op, name,
                t.stride[i], i, wanted);
        wanted = t.stride[i] * (ptrdiff_t)t.shape[i];
    }
    return ZOE_OK;
}

/* Shapes and types. */
static zoe_status check_forms(zoe_context *ctx, const zoe_group_norm_args *a)
{
    const zoe_tensor x = a->x;
    if (x.dtype == ZOE_NONE || x.rank < 2 || x.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: x has rank %d, wanted 2 to %d", op, x.rank,
                        ZOE_MAX_RANK);
    const size_t C = a->channels_last ? x.shape[x.rank - 1] : x.shape[1];
    TRY(zoe_check_tensor(ctx, op, "x", x, floats, x.rank, x.shape));
    TRY(zoe_check_tensor(ctx, op, "y", a->y, floats, x.rank, x.shape));
    if (a->groups == 0 || C % a->groups != 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu channels in %zu groups", op, C, a->groups);
    if (!(a->eps > 0.0f))
        return zoe_fail(ctx, ZOE_INVALID, "%s: eps is %g, wanted more than 0", op, (double)a->eps);
    const unsigned maybe = floats | ZOE_TYPES_OR_NONE;
    TRY(ZOE_CHECK(ctx, op, "mean", a->mean, maybe, 2, x.shape[0], a->groups));
    TRY(ZOE_CHECK(ctx, op, "rstd", a->rstd, maybe, 2, x.shape[0], a->groups));
    TRY(ZOE_CHECK(ctx, op, "weight", a->weight, maybe, 1, C));
    return ZOE_CHECK(ctx, op, "bias", a->bias, maybe, 1, C);
}

size_t zoe_group_norm_silu_workspace(const zoe_context *ctx, const zoe_group_norm_args *a)
{
    const bool last = a->channels_last;
    if (a->x.rank < 2 || a->x.rank > ZOE_MAX_RANK || a->groups == 0 ||
        zoe_tensor_count(a->x) == 0 || a->x.shape[last ? a->x.rank - 1 : 1] % a->groups != 0)
        return 0; /* nothing to do, or refused by the run */
    return zoe_device_of(ctx)->group_norm_workspace(ctx, a);
}

zoe_status zoe_group_norm_silu(zoe_context *ctx, const zoe_group_norm_args *a, zoe_workspace work)
{
    TRY(check_forms(ctx, a));
    if (zoe_tensor_count(a->x) == 0)
        return ZOE_OK;
    TRY(check_plane(ctx, "x", a->x, a->channels_last));
    TRY(check_plane(ctx, "y", a->y, a->channels_last));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "x", a->x, true));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "weight", a->weight, false));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "bias", a->bias, false));
    const zoe_tensor others[] = {a->x, a->y, a->weight, a->bias};
    const char *const names[] = {"x", "y", "weight", "bias"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        TRY(zoe_check_apart(ctx, op, "mean", a->mean, names[i], others[i], false));
        TRY(zoe_check_apart(ctx, op, "rstd", a->rstd, names[i], others[i], false));
    }
    TRY(zoe_check_apart(ctx, op, "mean", a->mean, "rstd", a->rstd, false));
    TRY(zoe_check_workspace(ctx, op, work, zoe_group_norm_silu_workspace(ctx, a)));
    return ZOE_RUN(NORM, group_norm(ctx, a, work));
}
