/* The contracts of rotary position embedding. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned any_float = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);

zoe_status zoe_check_trig(zoe_context *ctx, const char *op, zoe_tensor cos, zoe_tensor sin,
                          unsigned types)
{
    static const size_t any[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY};
    const int rank = cos.rank < 1 || cos.rank > ZOE_MAX_RANK ? 1 : cos.rank;
    TRY(zoe_check_tensor(ctx, op, "cos", cos, types, rank, any));
    TRY(zoe_check_tensor(ctx, op, "sin", sin, ZOE_TYPE(cos.dtype), rank, cos.shape));
    if (cos.shape[rank - 1] == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: cos has no entries", op);
    return ZOE_OK;
}

zoe_status zoe_check_spread(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                            const char *x_name, zoe_tensor x)
{
    bool fits = t.rank == x.rank;
    for (int i = 0; fits && i + 1 < t.rank; i++)
        fits = t.shape[i] == 1 || t.shape[i] == x.shape[i];
    if (fits)
        return ZOE_OK;
    char found[128], wanted[128];
    return zoe_fail(ctx, ZOE_INVALID,
                    "%s: %s is %s, wanted the axes of %s, which is %s, or 1 before the last", op,
                    name, zoe_tensor_describe(found, sizeof found, t), x_name,
                    zoe_tensor_describe(wanted, sizeof wanted, x));
}

zoe_status zoe_rotary_mul(zoe_context *ctx, const zoe_rotary_mul_args *args)
{
    static const char op[] = "rotary_mul";
    static const size_t any[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY};
    const zoe_tensor x = args->x, y = args->y, cos = args->cos;
    const int rank = x.rank < 1 || x.rank > ZOE_MAX_RANK ? 1 : x.rank;
    TRY(zoe_check_tensor(ctx, op, "x", x, any_float, rank, any));
    TRY(zoe_check_tensor(ctx, op, "y", y, any_float, rank, x.shape));
    TRY(zoe_check_trig(ctx, op, cos, args->sin, any_float));
    TRY(zoe_check_spread(ctx, op, "cos", cos, "x", x));
    if ((unsigned)args->pairing > ZOE_ROTARY_QUARTER)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the pairing %d is none", op, (int)args->pairing);
    const size_t D = x.shape[rank - 1], entries = cos.shape[rank - 1];
    const size_t unit =
        (args->pairing == ZOE_ROTARY_QUARTER ? 4u : 2u) / (args->half_tables ? 2 : 1);
    if (entries > D || entries % unit != 0 || (args->half_tables && entries > D / 2))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: cos has %zu entries, wanted a multiple of %zu up to %zu", op, entries,
                        unit, args->half_tables ? D / 2 : D);
    TRY(zoe_check_apart(ctx, op, "y", y, "x", x, true));
    TRY(zoe_check_apart(ctx, op, "y", y, "cos", cos, false));
    TRY(zoe_check_apart(ctx, op, "y", y, "sin", args->sin, false));
    return zoe_tensor_count(x) ? ZOE_RUN(ROTARY, rotary_mul(ctx, args)) : ZOE_OK;
}

zoe_status zoe_rotary_table(zoe_context *ctx, const zoe_rotary_table_args *args)
{
    static const char op[] = "rotary_table";
    const size_t grid[] = {args->frames, args->rows, args->columns};
    size_t tokens;
    if (!zoe_size_product(&tokens, grid, 3))
        return zoe_fail(ctx, ZOE_INVALID, "%s: a grid of %zu x %zu x %zu cannot be addressed", op,
                        grid[0], grid[1], grid[2]);
    TRY(ZOE_CHECK(ctx, op, "cos", args->cos, ZOE_TYPE(ZOE_F32), 2, ZOE_ANY, ZOE_ANY));
    TRY(ZOE_CHECK(ctx, op, "sin", args->sin, ZOE_TYPE(ZOE_F32), 2, args->cos.shape[0],
                  args->cos.shape[1]));
    if (args->first > tokens || args->cos.shape[0] > tokens - args->first)
        return zoe_fail(
            ctx, ZOE_INVALID,
            "%s: cos has %zu tokens from number %zu on, the grid of %zu x %zu x %zu has "
            "%zu",
            op, args->cos.shape[0], args->first, grid[0], grid[1], grid[2], tokens);
    TRY(zoe_check_apart(ctx, op, "cos", args->cos, "sin", args->sin, false));
    if (!(args->base > 0.0) || isinf(args->base))
        return zoe_fail(ctx, ZOE_INVALID, "%s: base is %g, wanted a positive number", op,
                        args->base);
    return zoe_tensor_count(args->cos) ? ZOE_RUN(ROTARY, rotary_table(ctx, args)) : ZOE_OK;
}
