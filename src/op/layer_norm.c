/* The contracts of the LayerNorm family. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned halves_or_f32 = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
static const unsigned maybe = ZOE_TYPES_OR_NONE;

/* A tensor like x: all its extents. */
static zoe_status check_like(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                             unsigned types, zoe_tensor x)
{
    return zoe_check_tensor(ctx, op, name, t, types, x.rank, x.shape);
}

/* One value for each row of x. */
static zoe_status check_rows(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                             unsigned types, zoe_tensor x, int axes)
{
    const int rank = x.rank - axes;
    if (t.dtype == ZOE_NONE && types & maybe)
        return ZOE_OK;
    TRY(zoe_check_tensor(ctx, op, name, t, types & ~maybe, rank, x.shape));
    return ZOE_OK;
}

/* x itself: 1 to 5 axes, the last `axes` of them dense and not empty. */
static zoe_status check_x(zoe_context *ctx, const char *op, const char *name, zoe_tensor x,
                          int axes)
{
    if (x.dtype == ZOE_NONE || x.rank < 1 || x.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s has rank %d, wanted 1 to %d", op, name, x.rank,
                        ZOE_MAX_RANK);
    if (axes < 1 || axes > x.rank)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the last %d axes of %d are to be normalised", op,
                        axes, x.rank);
    TRY(check_like(ctx, op, name, x, halves_or_f32, x));
    bool rows = true, empty = false;
    for (int i = 0; i < x.rank; i++) {
        if (i < x.rank - axes)
            rows = rows && x.shape[i] > 0;
        else
            empty = empty || x.shape[i] == 0;
    }
    if (rows && empty)
        return zoe_fail(ctx, ZOE_INVALID, "%s: rows of %s have no elements", op, name);
    return ZOE_OK;
}

/* Are the last `axes` axes dense among each other? */
static zoe_status check_dense(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                              int axes)
{
    ptrdiff_t step = 1;
    for (int i = t.rank - 1; i >= t.rank - axes; i--) {
        if (t.shape[i] > 1 && t.stride[i] != step)
            return zoe_fail(
                ctx, ZOE_INVALID,
                "%s: %s has stride %td on axis %d, wanted %td: normalised axes are dense", op, name,
                t.stride[i], i, step);
        step *= (ptrdiff_t)t.shape[i];
    }
    return ZOE_OK;
}

/* A vector of D elements for each row, sample or all of x: see layer_norm.h. */
static zoe_status check_vectors(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                                zoe_tensor x, zoe_tensor group)
{
    const size_t D = x.shape[x.rank - 1];
    if (t.dtype == ZOE_NONE)
        return ZOE_OK;
    if (group.dtype != ZOE_NONE)
        return ZOE_CHECK(ctx, op, name, t, halves_or_f32, 2, ZOE_ANY, D);
    if (t.rank < 1 || t.rank > x.rank) {
        char found[128];
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s is %s, wanted rank 1 to %d", op, name,
                        zoe_tensor_describe(found, sizeof found, t), x.rank);
    }
    size_t shape[ZOE_MAX_RANK];
    for (int i = 0; i < t.rank; i++)
        shape[i] = i == t.rank - 1 ? D : t.shape[i] == 1 ? 1 : x.shape[i];
    return zoe_check_tensor(ctx, op, name, t, halves_or_f32, t.rank, shape);
}

static int32_t group_at(zoe_tensor group, const size_t *index)
{
    size_t at = 0;
    int32_t value;
    for (int i = 0; i < group.rank; i++)
        at += index[i] * (size_t)group.stride[i];
    memcpy(&value, (const unsigned char *)group.data + at * sizeof value, sizeof value);
    return value;
}

/* The group of each row, and that all vectors have a row for it. */
static zoe_status check_groups(zoe_context *ctx, const char *op, zoe_tensor group, zoe_tensor x,
                               const zoe_tensor *vectors, size_t count)
{
    size_t groups = SIZE_MAX, index[ZOE_MAX_RANK] = {0};
    if (group.dtype == ZOE_NONE)
        return ZOE_OK;
    TRY(check_rows(ctx, op, "group", group, ZOE_TYPE(ZOE_I32), x, 1));
    for (size_t i = 0; i < count; i++)
        if (vectors[i].dtype != ZOE_NONE && vectors[i].shape[0] < groups)
            groups = vectors[i].shape[0];
    if (zoe_tensor_count(group) == 0 || groups == SIZE_MAX)
        return ZOE_OK;
    for (int axis = 0; axis >= 0;) {
        const int32_t value = group_at(group, index);
        if (value < 0 || (size_t)value >= groups)
            return zoe_fail(ctx, ZOE_INVALID, "%s: a row is of group %d, and there are %zu", op,
                            (int)value, groups);
        for (axis = group.rank - 1; axis >= 0 && ++index[axis] == group.shape[axis]; axis--)
            index[axis] = 0;
    }
    return ZOE_OK;
}

/* None, f32, f16 or bf16. */
static zoe_status check_rounding(zoe_context *ctx, const char *op, const char *name,
                                 zoe_dtype dtype)
{
    if ((unsigned)dtype < ZOE_DTYPES && (halves_or_f32 | maybe) & ZOE_TYPE(dtype))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: %s is %s, wanted none, f32, f16 or bf16", op, name,
                    zoe_dtype_name(dtype));
}

typedef struct named {
    const char *name;
    zoe_tensor t;
} named;

static zoe_status check_all_apart(zoe_context *ctx, const char *op, const char *y_name,
                                  zoe_tensor y, const named *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        TRY(zoe_check_apart(ctx, op, y_name, y, inputs[i].name, inputs[i].t, false));
    return ZOE_OK;
}
#define APART(ctx, op, y_name, y, ...)                                                             \
    check_all_apart(ctx, op, y_name, y, (const named[]){__VA_ARGS__},                              \
                    sizeof((const named[]){__VA_ARGS__}) / sizeof(named))

/* ---- layer_norm ---- */

zoe_status zoe_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args)
{
    static const char op[] = "layer_norm";
    zoe_layer_norm_args a = *args;
    const unsigned f32_or_none = ZOE_TYPE(ZOE_F32) | maybe;
    a.axes = a.axes ? a.axes : 1;
    TRY(check_x(ctx, op, "x", a.x, a.axes));
    TRY(check_like(ctx, op, "y", a.y, halves_or_f32, a.x));
    TRY(zoe_check_eps(ctx, op, a.eps));
    TRY(check_rows(ctx, op, "mean", a.mean, f32_or_none, a.x, a.axes));
    TRY(check_rows(ctx, op, "rstd", a.rstd, f32_or_none, a.x, a.axes));
    const size_t *shape = a.x.shape + a.x.rank - a.axes;
    TRY(zoe_check_tensor(ctx, op, "gamma", a.gamma, halves_or_f32 | maybe, a.axes, shape));
    TRY(zoe_check_tensor(ctx, op, "beta", a.beta, halves_or_f32 | maybe, a.axes, shape));
    if (zoe_tensor_count(a.y) == 0)
        return ZOE_OK;
    TRY(check_dense(ctx, op, "x", a.x, a.axes));
    TRY(check_dense(ctx, op, "y", a.y, a.axes));
    if (a.gamma.dtype != ZOE_NONE)
        TRY(check_dense(ctx, op, "gamma", a.gamma, a.axes));
    if (a.beta.dtype != ZOE_NONE)
        TRY(check_dense(ctx, op, "beta", a.beta, a.axes));
    TRY(zoe_check_apart(ctx, op, "y", a.y, "x", a.x, true));
    TRY(APART(ctx, op, "y", a.y, {"gamma", a.gamma}, {"beta", a.beta}));
    TRY(APART(ctx, op, "mean", a.mean, {"x", a.x}, {"y", a.y}, {"gamma", a.gamma}, {"beta", a.beta},
              {"rstd", a.rstd}));
    TRY(APART(ctx, op, "rstd", a.rstd, {"x", a.x}, {"y", a.y}, {"gamma", a.gamma},
              {"beta", a.beta}));
    return ZOE_RUN(NORM, layer_norm(ctx, &a));
}

/* ---- modulation ---- */

/* What stands beside x and y; x is checked. */
static zoe_status check_modulation(zoe_context *ctx, const char *op,
                                   const zoe_layer_norm_modulate_args *a, zoe_tensor x,
                                   zoe_tensor group)
{
    const size_t D = x.shape[x.rank - 1];
    const bool int8 = a->y.dtype == ZOE_I8;
    TRY(check_like(ctx, op, "y", a->y, halves_or_f32 | ZOE_TYPE(ZOE_I8), x));
    if (int8)
        TRY(check_rows(ctx, op, "y_scale", a->y_scale, ZOE_TYPE(ZOE_F32), x, 1));
    else if (a->y_scale.dtype != ZOE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: y_scale is given, but y is no i8", op);
    TRY(ZOE_CHECK(ctx, op, "gamma", a->gamma, halves_or_f32 | maybe, 1, D));
    TRY(ZOE_CHECK(ctx, op, "beta", a->beta, halves_or_f32 | maybe, 1, D));
    TRY(check_vectors(ctx, op, "scale", a->scale, x, group));
    TRY(check_vectors(ctx, op, "shift", a->shift, x, group));
    TRY(zoe_check_eps(ctx, op, a->eps));
    TRY(check_rounding(ctx, op, "round_norm", a->round_norm));
    TRY(check_rounding(ctx, op, "maths", a->maths));
    if ((unsigned)a->kind > ZOE_NORM_RMS)
        return zoe_fail(ctx, ZOE_INVALID, "%s: norm kind %d is not known", op, (int)a->kind);
    return ZOE_OK;
}

/* The outputs lie apart from what stands beside x. */
static zoe_status check_modulation_apart(zoe_context *ctx, const char *op,
                                         const zoe_layer_norm_modulate_args *a, zoe_tensor x,
                                         zoe_tensor group)
{
    TRY(APART(ctx, op, "y", a->y, {"gamma", a->gamma}, {"beta", a->beta}, {"scale", a->scale},
              {"shift", a->shift}, {"group", group}));
    return APART(ctx, op, "y_scale", a->y_scale, {"x", x}, {"y", a->y}, {"gamma", a->gamma},
                 {"beta", a->beta}, {"scale", a->scale}, {"shift", a->shift}, {"group", group});
}

zoe_status zoe_check_layer_norm_modulate(zoe_context *ctx, const char *op,
                                         const zoe_layer_norm_modulate_args *a)
{
    TRY(check_x(ctx, op, "x", a->x, 1));
    TRY(check_modulation(ctx, op, a, a->x, a->group));
    return check_groups(ctx, op, a->group, a->x, (const zoe_tensor[]){a->scale, a->shift}, 2);
}

zoe_status zoe_layer_norm_modulate(zoe_context *ctx, const zoe_layer_norm_modulate_args *a)
{
    static const char op[] = "layer_norm_modulate";
    TRY(zoe_check_layer_norm_modulate(ctx, op, a));
    if (zoe_tensor_count(a->y) == 0)
        return ZOE_OK;
    TRY(zoe_check_apart(ctx, op, "y", a->y, "x", a->x, true));
    TRY(check_modulation_apart(ctx, op, a, a->x, a->group));
    return ZOE_RUN(NORM, layer_norm_modulate(ctx, a));
}

/* ---- gated residual ---- */

static zoe_status check_residual(zoe_context *ctx, const char *op, const zoe_gated_residual_args *a)
{
    TRY(check_x(ctx, op, "x", a->x, 1));
    TRY(check_like(ctx, op, "y", a->y, ZOE_TYPE(a->x.dtype), a->x));
    TRY(check_like(ctx, op, "h", a->h, halves_or_f32, a->x));
    TRY(check_vectors(ctx, op, "gate", a->gate, a->x, a->group));
    TRY(check_rounding(ctx, op, "maths", a->maths));
    if (a->maths != ZOE_NONE && a->x.dtype != ZOE_F32 && a->maths != ZOE_F32 &&
        a->maths != a->x.dtype)
        return zoe_fail(ctx, ZOE_INVALID, "%s: maths in %s for x in %s", op,
                        zoe_dtype_name(a->maths), zoe_dtype_name(a->x.dtype));
    return ZOE_OK;
}

static zoe_status check_residual_apart(zoe_context *ctx, const char *op,
                                       const zoe_gated_residual_args *a)
{
    TRY(zoe_check_apart(ctx, op, "y", a->y, "x", a->x, true));
    TRY(zoe_check_apart(ctx, op, "y", a->y, "h", a->h, true));
    return APART(ctx, op, "y", a->y, {"gate", a->gate}, {"group", a->group});
}

zoe_status zoe_gated_residual(zoe_context *ctx, const zoe_gated_residual_args *a)
{
    static const char op[] = "gated_residual";
    TRY(check_residual(ctx, op, a));
    if (zoe_tensor_count(a->y) == 0)
        return ZOE_OK;
    TRY(check_groups(ctx, op, a->group, a->x, &a->gate, 1));
    TRY(check_residual_apart(ctx, op, a));
    return ZOE_RUN(NORM, gated_residual(ctx, a));
}

zoe_status zoe_gated_residual_norm_modulate(zoe_context *ctx,
                                            const zoe_gated_residual_norm_modulate_args *args)
{
    static const char op[] = "gated_residual_norm_modulate";
    const zoe_gated_residual_args *r = &args->residual;
    const zoe_layer_norm_modulate_args *n = &args->norm;
    if (n->x.dtype != ZOE_NONE || n->group.dtype != ZOE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: norm.x and norm.group are not none", op);
    TRY(check_residual(ctx, op, r));
    TRY(check_modulation(ctx, op, n, r->x, r->group));
    if (zoe_tensor_count(r->y) == 0)
        return ZOE_OK;
    TRY(check_groups(ctx, op, r->group, r->x, (const zoe_tensor[]){r->gate, n->scale, n->shift},
                     3));
    TRY(check_residual_apart(ctx, op, r));
    TRY(check_modulation_apart(ctx, op, n, r->x, r->group));
    TRY(APART(ctx, op, "norm.y", n->y, {"residual.y", r->y}, {"x", r->x}, {"h", r->h},
              {"gate", r->gate}));
    TRY(APART(ctx, op, "norm.y_scale", n->y_scale, {"residual.y", r->y}, {"h", r->h},
              {"gate", r->gate}));
    TRY(APART(ctx, op, "residual.y", r->y, {"gamma", n->gamma}, {"beta", n->beta},
              {"scale", n->scale}, {"shift", n->shift}));
    return ZOE_RUN(NORM, gated_residual_norm_modulate(ctx, args));
}
