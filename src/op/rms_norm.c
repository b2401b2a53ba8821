/* The contracts of norms by the root of a mean square. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned any_float = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
static const unsigned float_or_none =
    ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16) | ZOE_TYPES_OR_NONE;
static const unsigned f32 = ZOE_TYPE(ZOE_F32), f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;

/* Are there results at all? Asked after the checks of shapes. */
static bool nothing(zoe_tensor x)
{
    return zoe_tensor_count(x) == 0;
}

/* x [..., D] of rank 1 to 5 with D > 0, if there are rows. */
static zoe_status check_x(zoe_context *ctx, const char *op, const char *name, zoe_tensor x)
{
    static const size_t any[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY};
    if (x.rank < 1 || x.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s has rank %d, wanted 1 to %d", op, name, x.rank,
                        ZOE_MAX_RANK);
    TRY(zoe_check_tensor(ctx, op, name, x, any_float, x.rank, any));
    size_t rows = 1;
    for (int i = 0; i + 1 < x.rank; i++)
        rows = rows && x.shape[i];
    if (rows && x.shape[x.rank - 1] == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: rows of %s have no elements", op, name);
    return ZOE_OK;
}

/* A tensor shaped like x. */
static zoe_status check_like(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                             unsigned types, zoe_tensor x)
{
    return zoe_check_tensor(ctx, op, name, t, types, x.rank, x.shape);
}

/* One value a row: the axes of x before the last `axes`, in f32. Here the last of those that are left
 * need not be dense. */
static zoe_status check_statistic(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                  unsigned types, zoe_tensor x, int axes)
{
    zoe_tensor wide = t; /* with an axis of 1 behind, all of its own axes may have strides */
    if (t.dtype != ZOE_NONE && t.rank == x.rank - axes && t.rank >= 0) {
        size_t shape[ZOE_MAX_RANK];
        for (int i = 0; i < t.rank; i++)
            shape[i] = x.shape[i];
        wide.rank = t.rank + 1;
        wide.shape[t.rank] = shape[t.rank] = 1;
        wide.stride[t.rank] = 1;
        return zoe_check_tensor(ctx, op, name, wide, types, wide.rank, shape);
    }
    return zoe_check_tensor(ctx, op, name, t, types, x.rank - axes, x.shape);
}

/* A vector for the last axis. */
static zoe_status check_columns(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                unsigned types, size_t D)
{
    return ZOE_CHECK(ctx, op, name, t, types, 1, D);
}

/* An output must be apart from each of these, of which it may be the very same view as some. */
typedef struct other {
    const char *name;
    zoe_tensor t;
    bool same;
} other;

static zoe_status check_apart(zoe_context *ctx, const char *op, const char *name, zoe_tensor y,
                              const other *others, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(zoe_check_apart(ctx, op, name, y, others[i].name, others[i].t, others[i].same));
    return ZOE_OK;
}
#define APART(name, y, ...)                                                                        \
    check_apart(ctx, op, name, y, (const other[]){__VA_ARGS__},                                    \
                sizeof((const other[]){__VA_ARGS__}) / sizeof(other))

static zoe_status check_order(zoe_context *ctx, const char *op, zoe_rms_order order,
                              zoe_rms_order last)
{
    if ((unsigned)order <= (unsigned)last)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: the order %d is none that this operator has", op,
                    (int)order);
}

/* The axes of gamma as one, in a tensor that has others before them. */
static zoe_status check_axes_dense(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                   int axes)
{
    size_t next = 1;
    for (int i = t.rank - 1; i >= t.rank - axes; i--) {
        if (t.shape[i] > 1 && (size_t)t.stride[i] != next)
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: %s has stride %td on axis %d, wanted %zu: the normalised axes are "
                            "dense",
                            op, name, t.stride[i], i, next);
        next *= t.shape[i];
    }
    return ZOE_OK;
}

static zoe_status check_gamma(zoe_context *ctx, const char *op, const zoe_rms_norm_args *a)
{
    const int axes = a->gamma.rank, first = a->x.rank - axes;
    if (axes < 1 || first < 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: gamma has rank %d, wanted 1 to %d", op, axes,
                        a->x.rank);
    TRY(zoe_check_tensor(ctx, op, "gamma", a->gamma, any_float, axes, a->x.shape + first));
    if (nothing(a->x))
        return ZOE_OK;
    TRY(check_axes_dense(ctx, op, "gamma", a->gamma, axes));
    TRY(check_axes_dense(ctx, op, "x", a->x, axes));
    return check_axes_dense(ctx, op, "y", a->y, axes);
}

zoe_status zoe_check_rms_norm(zoe_context *ctx, const char *op, const zoe_rms_norm_args *args)
{
    const zoe_tensor x = args->x, y = args->y;
    const bool plain = args->gamma.dtype == ZOE_NONE;
    TRY(check_x(ctx, op, "x", x));
    TRY(check_like(ctx, op, "y", y, any_float, x));
    if (!plain)
        TRY(check_gamma(ctx, op, args));
    TRY(check_statistic(ctx, op, "rstd", args->rstd, f32_or_none, x, plain ? 1 : args->gamma.rank));
    TRY(zoe_check_eps(ctx, op, args->eps));
    TRY(check_order(ctx, op, args->order, ZOE_RMS_PIXELNORM));
    if (args->order == ZOE_RMS_PIXELNORM && (!plain || args->rstd.dtype != ZOE_NONE))
        return zoe_fail(ctx, ZOE_INVALID, "%s: the order of PixelNorm has neither gamma nor rstd",
                        op);
    return APART("rstd", args->rstd, {"x", x, false}, {"gamma", args->gamma, false});
}

zoe_status zoe_rms_norm(zoe_context *ctx, const zoe_rms_norm_args *args)
{
    static const char op[] = "rms_norm";
    const zoe_tensor x = args->x;
    TRY(zoe_check_rms_norm(ctx, op, args));
    TRY(APART("y", args->y, {"x", x, true}, {"gamma", args->gamma, false},
              {"rstd", args->rstd, false}));
    return nothing(x) ? ZOE_OK : ZOE_RUN(NORM, rms_norm(ctx, args));
}

zoe_status zoe_add_rms_norm(zoe_context *ctx, const zoe_add_rms_norm_args *args)
{
    static const char op[] = "add_rms_norm";
    const zoe_tensor x = args->x, y = args->y, r = args->residual;
    TRY(check_x(ctx, op, "x", x));
    TRY(check_like(ctx, op, "y", y, any_float, x));
    TRY(check_like(ctx, op, "residual", r, ZOE_TYPE(x.dtype), x));
    TRY(check_like(ctx, op, "sum", args->sum, ZOE_TYPE(x.dtype), x));
    TRY(check_columns(ctx, op, "gamma", args->gamma, float_or_none, x.shape[x.rank - 1]));
    TRY(check_statistic(ctx, op, "rstd", args->rstd, f32_or_none, x, 1));
    TRY(zoe_check_eps(ctx, op, args->eps));
    TRY(check_order(ctx, op, args->order, ZOE_RMS_T5));
    TRY(APART("y", y, {"x", x, true}, {"residual", r, true}, {"sum", args->sum, false},
              {"gamma", args->gamma, false}, {"rstd", args->rstd, false}));
    TRY(APART("sum", args->sum, {"x", x, true}, {"residual", r, true},
              {"gamma", args->gamma, false}, {"rstd", args->rstd, false}));
    TRY(APART("rstd", args->rstd, {"x", x, false}, {"residual", r, false},
              {"gamma", args->gamma, false}));
    return nothing(x) ? ZOE_OK : ZOE_RUN(NORM, add_rms_norm(ctx, args));
}

/* What both quantising operators have. */
typedef struct quant_rows {
    zoe_tensor y, sum, x, residual, gamma, beta;
} quant_rows;

static zoe_status check_quant(zoe_context *ctx, const char *op, const quant_rows *q)
{
    const zoe_tensor x = q->x;
    TRY(check_x(ctx, op, "x", x));
    const unsigned alike = ZOE_TYPE(x.dtype) | ZOE_TYPES_OR_NONE;
    const size_t D = x.shape[x.rank - 1];
    TRY(check_like(ctx, op, "y", q->y, ZOE_TYPE(ZOE_I8), x));
    TRY(check_like(ctx, op, "residual", q->residual, alike, x));
    TRY(check_like(ctx, op, "sum", q->sum, alike, x));
    if (q->sum.dtype != ZOE_NONE && q->residual.dtype == ZOE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: sum is given without residual", op);
    TRY(check_columns(ctx, op, "gamma", q->gamma, float_or_none, D));
    TRY(check_columns(ctx, op, "beta", q->beta, float_or_none, D));
    TRY(APART("y", q->y, {"x", x, false}, {"residual", q->residual, false}, {"sum", q->sum, false},
              {"gamma", q->gamma, false}, {"beta", q->beta, false}));
    return APART("sum", q->sum, {"x", x, true}, {"residual", q->residual, true},
                 {"gamma", q->gamma, false}, {"beta", q->beta, false});
}

zoe_status zoe_rms_norm_quant(zoe_context *ctx, const zoe_rms_norm_quant_args *args)
{
    static const char op[] = "rms_norm_quant";
    const zoe_tensor x = args->x, scale = args->scale, offset = args->offset;
    const quant_rows rows = {args->y, args->sum, x, args->residual, args->gamma, args->beta};
    TRY(zoe_check_eps(ctx, op, args->eps));
    TRY(check_quant(ctx, op, &rows));
    TRY(check_statistic(ctx, op, "rstd", args->rstd, f32_or_none, x, 1));
    const bool one = scale.rank == 1 && scale.shape[0] == 1;
    const size_t length = one ? 1 : x.shape[x.rank - 1];
    TRY(check_columns(ctx, op, "scale", scale, any_float, length));
    TRY(check_columns(ctx, op, "offset", offset,
                      float_or_none | ZOE_TYPE(ZOE_I8) | ZOE_TYPE(ZOE_I32), length));
    const other inputs[] = {{"x", x, false},
                            {"residual", args->residual, false},
                            {"gamma", args->gamma, false},
                            {"beta", args->beta, false},
                            {"scale", scale, false},
                            {"offset", offset, false}};
    const size_t n = sizeof inputs / sizeof *inputs;
    TRY(check_apart(ctx, op, "rstd", args->rstd, inputs, n));
    TRY(check_apart(ctx, op, "y", args->y, inputs + 4, n - 4));
    TRY(check_apart(ctx, op, "sum", args->sum, inputs + 4, n - 4));
    TRY(APART("rstd", args->rstd, {"y", args->y, false}, {"sum", args->sum, false}));
    return nothing(x) ? ZOE_OK : ZOE_RUN(NORM, rms_norm_quant(ctx, args));
}

zoe_status zoe_rms_norm_dynamic_quant(zoe_context *ctx, const zoe_rms_norm_dynamic_quant_args *args)
{
    static const char op[] = "rms_norm_dynamic_quant";
    const zoe_tensor x = args->x;
    const quant_rows rows = {args->y, args->sum, x, args->residual, args->gamma, args->beta};
    TRY(zoe_check_eps(ctx, op, args->eps));
    TRY(check_quant(ctx, op, &rows));
    TRY(check_statistic(ctx, op, "scale", args->scale, f32, x, 1));
    TRY(check_columns(ctx, op, "smooth", args->smooth, float_or_none, x.shape[x.rank - 1]));
    TRY(APART("scale", args->scale, {"x", x, false}, {"residual", args->residual, false},
              {"gamma", args->gamma, false}, {"beta", args->beta, false},
              {"smooth", args->smooth, false}, {"y", args->y, false}, {"sum", args->sum, false}));
    TRY(APART("y", args->y, {"smooth", args->smooth, false}));
    TRY(APART("sum", args->sum, {"smooth", args->smooth, false}));
    return nothing(x) ? ZOE_OK : ZOE_RUN(NORM, rms_norm_dynamic_quant(ctx, args));
}

/* One side of zoe_qk_norm_rope, whose names begin with q or k. */
static zoe_status check_side(zoe_context *ctx, const char *const names[3],
                             const zoe_norm_rope_rows *r, const zoe_qk_norm_rope_args *a)
{
    static const char op[] = "qk_norm_rope";
    TRY(check_x(ctx, op, names[1], r->x));
    TRY(check_like(ctx, op, names[0], r->y, any_float, r->x));
    const size_t D = r->x.shape[r->x.rank - 1];
    TRY(check_columns(ctx, op, names[2], r->gamma, float_or_none, D));
    const size_t pairs = a->cos.shape[a->cos.rank - 1];
    if (D % 2 != 0 || D / 2 % pairs != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: rows of %s with %zu elements are not whole heads of twice the %zu "
                        "cosines",
                        op, names[1], D, pairs);
    TRY(zoe_check_spread(ctx, op, "cos", a->cos, names[1], r->x));
    return APART(names[0], r->y, {names[1], r->x, true}, {names[2], r->gamma, false},
                 {"cos", a->cos, false}, {"sin", a->sin, false});
}

zoe_status zoe_qk_norm_rope(zoe_context *ctx, const zoe_qk_norm_rope_args *args)
{
    static const char op[] = "qk_norm_rope";
    static const char *const q_names[] = {"q.y", "q.x", "q.gamma"}, *const k_names[] = {
                                                                        "k.y", "k.x", "k.gamma"};
    TRY(zoe_check_trig(ctx, op, args->cos, args->sin, f32));
    if (args->cos.shape[args->cos.rank - 1] > 2048)
        return zoe_fail(ctx, ZOE_INVALID, "%s: cos has %zu entries a head, wanted up to 2048", op,
                        args->cos.shape[args->cos.rank - 1]);
    TRY(zoe_check_eps(ctx, op, args->eps));
    TRY(check_order(ctx, op, args->order, ZOE_RMS_CAST_THEN_MUL));
    if (args->pairing != ZOE_ROTARY_HALF && args->pairing != ZOE_ROTARY_INTERLEAVE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: heads are paired by halves or interleaved", op);
    TRY(check_side(ctx, q_names, &args->q, args));
    if (args->k.x.dtype != ZOE_NONE) {
        TRY(check_side(ctx, k_names, &args->k, args));
        TRY(APART("q.y", args->q.y, {"k.x", args->k.x, false}, {"k.y", args->k.y, false},
                  {"k.gamma", args->k.gamma, false}));
        TRY(APART("k.y", args->k.y, {"q.x", args->q.x, false}, {"q.gamma", args->q.gamma, false}));
    }
    return ZOE_RUN(NORM, qk_norm_rope(ctx, args));
}

zoe_status zoe_l2_norm(zoe_context *ctx, const zoe_l2_norm_args *args)
{
    static const char op[] = "l2_norm";
    const zoe_tensor x = args->x, y = args->y;
    TRY(check_x(ctx, op, "x", x));
    TRY(check_like(ctx, op, "y", y, any_float, x));
    TRY(check_columns(ctx, op, "gamma", args->gamma, float_or_none, x.shape[x.rank - 1]));
    TRY(check_columns(ctx, op, "bias", args->bias, float_or_none, x.shape[x.rank - 1]));
    if (!(args->clamp >= 0.0f))
        return zoe_fail(ctx, ZOE_INVALID, "%s: clamp is %g, wanted 0 or more", op,
                        (double)args->clamp);
    TRY(APART("y", y, {"x", x, true}, {"gamma", args->gamma, false}, {"bias", args->bias, false}));
    return nothing(x) ? ZOE_OK : ZOE_RUN(NORM, l2_norm(ctx, args));
}
