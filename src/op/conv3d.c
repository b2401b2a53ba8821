/* The convolution's contract: shapes, types, strides, overlap and workspace. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

enum { RANK = 4 };

static bool given(zoe_tensor t)
{
    return t.dtype != ZOE_NONE;
}

/* The five extents of a convolution weight; a weight of rank 4 has kt = 1. */
static bool weight_extents(size_t extents[5], zoe_tensor w)
{
    if (w.rank != 4 && w.rank != 5)
        return false;
    const size_t time = w.rank == 5;
    extents[0] = w.shape[0];
    extents[1] = w.shape[1];
    extents[2] = time ? w.shape[2] : 1;
    extents[3] = w.shape[2 + time];
    extents[4] = w.shape[3 + time];
    return true;
}

zoe_status zoe_conv_weights_new(zoe_context *ctx, zoe_conv_weights **packed, zoe_tensor w,
                                zoe_tensor bias)
{
    size_t extents[5];
    char found[96];
    *packed = NULL;
    zoe_tensor_describe(found, sizeof found, w);
    if (!zoe_dtype_is_float(w.dtype) || bias.scaling || !weight_extents(extents, w))
        return zoe_fail(ctx, ZOE_INVALID,
                        "convolution weight: found %s, wanted a float type "
                        "[Cout, Cin, kt, kh, kw] or [Cout, Cin, kh, kw]",
                        found);
    for (int i = 0; i < w.rank; i++)
        if (w.shape[i] == 0)
            return zoe_fail(ctx, ZOE_INVALID, "convolution weight: %s has an empty axis", found);
    if (zoe_device_of(ctx)->conv_weights_bytes(extents) == SIZE_MAX)
        return zoe_fail(ctx, ZOE_INVALID, "convolution weight: %s is more than memory can address",
                        found);
    if (!zoe_tensor_dense(w))
        return zoe_fail(ctx, ZOE_INVALID, "convolution weight: %s is not dense", found);
    if (given(bias) && (!zoe_dtype_is_float(bias.dtype) || (w.data && !bias.data) ||
                        bias.rank != 1 || bias.shape[0] != extents[0] || !zoe_tensor_dense(bias))) {
        zoe_tensor_describe(found, sizeof found, bias);
        return zoe_fail(ctx, ZOE_INVALID,
                        "convolution bias: found %s, wanted a dense float tensor [%zu]", found,
                        extents[0]);
    }
    return ZOE_RUN(PACK, conv_weights_new(ctx, packed, w, extents, bias));
}

void zoe_conv_weights_free(zoe_conv_weights *packed)
{
    if (packed)
        packed->device->conv_weights_free(packed);
}

size_t zoe_conv_weights_size(const zoe_conv_weights *w)
{
    const size_t extents[] = {w ? w->Cout : 0, w ? w->Cin : 0, w ? w->kt : 0, w ? w->kh : 0,
                              w ? w->kw : 0};
    return w ? w->device->conv_weights_bytes(extents) : 0;
}

size_t zoe_conv_weights_bytes(zoe_tensor w)
{
    size_t extents[5];
    return weight_extents(extents, w) ? zoe_device_cpu.conv_weights_bytes(extents) : 0;
}

#define TYPES (ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16))

/* zoe_check_tensor for [frames, rows, columns, channels], of which only the frames may be 0. */
static zoe_status check_frames(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                               unsigned types, const size_t shape[RANK])
{
    TRY(zoe_check_tensor(ctx, op, name, t, types, RANK, shape));
    for (int i = 1; i < RANK; i++)
        if (given(t) && t.shape[i] == 0)
            return zoe_fail(ctx, ZOE_INVALID, "%s: axis %d of %s is empty", op, i, name);
    return ZOE_OK;
}

static size_t dilation(size_t given_one)
{
    return given_one ? given_one : 1;
}

/* From the first to behind the last of `taps` that lie `step` apart. false: overflow. */
static bool span_of(size_t *span, size_t taps, size_t step)
{
    return zoe_size_mul(span, taps - 1, dilation(step)) && zoe_size_add(span, *span, 1);
}

/* Positions that a kernel of `taps`, `spread` apart, takes in steps of `stride` over before + extent +
 * behind. 0: none, or overflow. */
static size_t positions(size_t before, size_t extent, size_t behind, size_t taps, size_t spread,
                        size_t stride)
{
    size_t whole, span;
    if (!zoe_size_add(&whole, before, extent) || !zoe_size_add(&whole, whole, behind) ||
        !span_of(&span, taps, spread) || whole < span || whole > PTRDIFF_MAX)
        return 0;
    return (whole - span) / stride + 1;
}

/* The device wants no zeros for dilations. */
static zoe_conv3d_args spelt_out(const zoe_conv3d_args *args)
{
    zoe_conv3d_args full = *args;
    full.dilation_t = dilation(args->dilation_t);
    full.dilation_h = dilation(args->dilation_h);
    full.dilation_w = dilation(args->dilation_w);
    return full;
}

zoe_conv_method zoe_conv3d_method(const zoe_conv3d_args *args)
{
    const zoe_conv3d_args full = spelt_out(args);
    return args->weights ? args->weights->device->conv3d_method(&full) : ZOE_CONV_DIRECT;
}

static zoe_status check_inputs(zoe_context *ctx, const char *op, const zoe_conv3d_args *args)
{
    const zoe_conv_weights *weights = args->weights;
    const zoe_tensor x = args->x, past = args->past;
    size_t span;
    if (!weights)
        return zoe_fail(ctx, ZOE_INVALID, "%s: no weights", op);
    if (weights->empty)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the weights were made without data, for plans", op);
    TRY(check_frames(ctx, op, "x", x, TYPES, (size_t[]){ZOE_ANY, ZOE_ANY, ZOE_ANY, weights->Cin}));
    if (args->stride_t == 0 || args->stride_h == 0 || args->stride_w == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: stride %zu x %zu x %zu, wanted at least 1", op,
                        args->stride_t, args->stride_h, args->stride_w);
    TRY(ZOE_CHECK(ctx, op, "past", past, ZOE_TYPE(x.dtype) | ZOE_TYPES_OR_NONE, RANK, ZOE_ANY,
                  x.shape[1], x.shape[2], x.shape[3]));
    if (given(past) && (!span_of(&span, weights->kt, args->dilation_t) || past.shape[0] >= span))
        return zoe_fail(ctx, ZOE_INVALID, "%s: past has %zu frames, wanted at most %zu", op,
                        past.shape[0], (weights->kt - 1) * dilation(args->dilation_t));
    if ((unsigned)args->method > ZOE_CONV_WINOGRAD ||
        (args->method == ZOE_CONV_WINOGRAD && zoe_conv3d_method(args) != ZOE_CONV_WINOGRAD))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: method %d cannot do a kernel of %zu x %zu x %zu with these "
                        "channels, strides and dilations",
                        op, (int)args->method, weights->kt, weights->kh, weights->kw);
    return ZOE_OK;
}

/* The output's shape; an axis without a position is refused, but for no frames at all. */
static zoe_status output_shape(zoe_context *ctx, const char *op, size_t shape[RANK],
                               const zoe_conv3d_args *args)
{
    const zoe_conv_weights *weights = args->weights;
    const size_t scale = args->upsample ? 2 : 1;
    const size_t past = given(args->past) ? args->past.shape[0] : 0;
    const bool none = args->x.shape[0] == 0;
    size_t frames, rows, columns;
    if (!zoe_size_add(&frames, past, args->x.shape[0]) ||
        !zoe_size_mul(&rows, args->x.shape[1], scale) ||
        !zoe_size_mul(&columns, args->x.shape[2], scale))
        return zoe_fail(ctx, ZOE_INVALID, "%s: x is larger than memory can address", op);
    shape[0] =
        none ? 0
             : positions(args->pad_front, frames, 0, weights->kt, args->dilation_t, args->stride_t);
    shape[1] = positions(args->pad_top, rows, args->pad_bottom, weights->kh, args->dilation_h,
                         args->stride_h);
    shape[2] = positions(args->pad_left, columns, args->pad_right, weights->kw, args->dilation_w,
                         args->stride_w);
    shape[3] = weights->Cout;
    if ((shape[0] == 0 && !none) || shape[1] == 0 || shape[2] == 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: a kernel of %zu x %zu x %zu has no place in %zu x %zu x %zu "
                        "and its padding",
                        op, weights->kt, weights->kh, weights->kw, frames, rows, columns);
    return ZOE_OK;
}

static zoe_status check_outputs(zoe_context *ctx, const char *op, const zoe_conv3d_args *args)
{
    size_t shape[RANK];
    TRY(output_shape(ctx, op, shape, args));
    TRY(check_frames(ctx, op, "y", args->y, TYPES, shape));
    TRY(check_frames(ctx, op, "residual", args->residual, TYPES | ZOE_TYPES_OR_NONE, shape));
    if (shape[0] == 0)
        return ZOE_OK;
    TRY(zoe_check_apart(ctx, op, "y", args->y, "x", args->x, false));
    TRY(zoe_check_apart(ctx, op, "y", args->y, "past", args->past, false));
    if (!given(args->residual))
        return ZOE_OK;
    return zoe_check_apart(ctx, op, "y", args->y, "residual", args->residual, true);
}

size_t zoe_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    const zoe_conv3d_args full = spelt_out(args);
    return args->weights ? args->weights->device->conv3d_workspace(ctx, &full) : 0;
}

zoe_status zoe_conv3d_as(zoe_context *ctx, const char *op, const zoe_conv3d_args *args,
                         zoe_workspace work)
{
    TRY(check_inputs(ctx, op, args));
    TRY(check_outputs(ctx, op, args));
    if (args->y.shape[0] == 0)
        return ZOE_OK;
    const zoe_conv3d_args full = spelt_out(args);
    TRY(zoe_check_workspace(ctx, op, work, zoe_conv3d_workspace(ctx, args)));
    TRY(zoe_check_cancel(ctx));
    return zoe_clocked(ctx, ZOE_KIND_CONV, args->weights->device->conv3d(ctx, &full, work));
}

zoe_status zoe_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    return zoe_conv3d_as(ctx, "conv3d", args, work);
}
