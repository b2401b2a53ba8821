/* Convolutions that are zoe_conv3d with some of its arguments fixed. */
#include "device/device.h"
#include "op/check.h"

/* The zero frames that make an output never see what comes after it: what the kernel covers before
 * an output, less the frames that are there. */
static size_t front_of(const zoe_causal_conv3d_args *args)
{
    const size_t step = args->dilation_t ? args->dilation_t : 1;
    const size_t past = args->past.dtype == ZOE_NONE ? 0 : args->past.shape[0];
    size_t before;
    if (!args->weights || !zoe_size_mul(&before, args->weights->kt - 1, step))
        return SIZE_MAX; /* has no place, and is refused */
    return before > past ? before - past : 0;
}

static zoe_conv3d_args of_causal(const zoe_causal_conv3d_args *args)
{
    return (zoe_conv3d_args){
        .y = args->y,
        .x = args->x,
        .past = args->past,
        .residual = args->residual,
        .weights = args->weights,
        .pad_front = front_of(args),
        .pad_top = args->pad_top,
        .pad_bottom = args->pad_bottom,
        .pad_left = args->pad_left,
        .pad_right = args->pad_right,
        .stride_t = args->stride_t,
        .stride_h = args->stride_h,
        .stride_w = args->stride_w,
        .dilation_t = args->dilation_t,
        .dilation_h = args->dilation_h,
        .dilation_w = args->dilation_w,
        .upsample = args->upsample,
        .method = args->method,
    };
}

size_t zoe_causal_conv3d_workspace(const zoe_context *ctx, const zoe_causal_conv3d_args *args)
{
    const zoe_conv3d_args full = of_causal(args);
    return zoe_conv3d_workspace(ctx, &full);
}

zoe_status zoe_causal_conv3d(zoe_context *ctx, const zoe_causal_conv3d_args *args,
                             zoe_workspace work)
{
    const zoe_conv3d_args full = of_causal(args);
    return zoe_conv3d_as(ctx, "causal_conv3d", &full, work);
}

static zoe_conv3d_args of_pictures(const zoe_conv2d_args *args)
{
    return (zoe_conv3d_args){
        .y = args->y,
        .x = args->x,
        .residual = args->residual,
        .weights = args->weights,
        .pad_top = args->pad_top,
        .pad_bottom = args->pad_bottom,
        .pad_left = args->pad_left,
        .pad_right = args->pad_right,
        .stride_t = 1,
        .stride_h = args->stride_h,
        .stride_w = args->stride_w,
        .dilation_h = args->dilation_h,
        .dilation_w = args->dilation_w,
        .upsample = args->upsample,
        .method = args->method,
    };
}

size_t zoe_conv2d_workspace(const zoe_context *ctx, const zoe_conv2d_args *args)
{
    const zoe_conv3d_args full = of_pictures(args);
    return zoe_conv3d_workspace(ctx, &full);
}

zoe_status zoe_conv2d(zoe_context *ctx, const zoe_conv2d_args *args, zoe_workspace work)
{
    if (args->weights && args->weights->kt != 1)
        return zoe_fail(ctx, ZOE_INVALID, "conv2d: the weights have %zu taps in time, wanted 1",
                        args->weights->kt);
    const zoe_conv3d_args full = of_pictures(args);
    return zoe_conv3d_as(ctx, "conv2d", &full, work);
}
