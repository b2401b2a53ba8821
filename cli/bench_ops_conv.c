/* Convolutions of the Wan VAEs. Shapes are T x H x W x Cin x Cout x kt x kh x kw, T, H and W those of
 * the input. */
#include "bench_ops.h"

/* What stands around the input. */
typedef enum way {
    STREAM,     /* frames before it are known */
    FIRST,      /* none are: zeros, of which the operator may know */
    STREAM_ADD, /* and a residual is added */
    UPSAMPLE,   /* twice the side */
    DOWNSAMPLE  /* half of it */
} way;

static zoe_status run_conv3d(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_conv3d(ctx, &o->args.conv3d, o->work_space);
}

static void close_conv(bench_op *o)
{
    zoe_conv_weights_free(o->packed);
}

static void conv3d(bench_op *o)
{
    const bench_case *c = o->c;
    const way w = (way)c->variant;
    const size_t T = c->shape[0], H = c->shape[1], W = c->shape[2], Cin = c->shape[3],
                 Cout = c->shape[4], kt = c->shape[5], kh = c->shape[6], kw = c->shape[7];
    const size_t before = kt - 1, step = w == DOWNSAMPLE ? 2 : 1, scale = w == UPSAMPLE ? 2 : 1;
    const size_t Ho = H * scale / step, Wo = W * scale / step;
    zoe_conv_weights *packed = NULL;
    const zoe_tensor weight = bench_take(o, c->w, Cout, Cin, kt, kh, kw);
    const zoe_tensor bias = bench_take(o, ZOE_F32, Cout);
    if (o->status == ZOE_OK)
        o->status = zoe_conv_weights_new(o->ctx, &packed, weight, bias);
    o->packed = packed;
    o->close = close_conv;
    const bool past = before > 0 && w != FIRST;
    o->args.conv3d = (zoe_conv3d_args){
        .y = bench_take(o, c->y, T, Ho, Wo, Cout),
        .x = bench_take(o, c->x, T, H, W, Cin),
        .past = past ? bench_take(o, c->x, before, H, W, Cin) : zoe_tensor_none(),
        .weights = packed,
        .pad_front = past ? 0 : before,
        .pad_top = step == 1 ? kh / 2 : 0,
        .pad_left = step == 1 ? kw / 2 : 0,
        .pad_bottom = kh / 2,
        .pad_right = kw / 2,
        .stride_t = 1,
        .stride_h = step,
        .stride_w = step,
        .upsample = w == UPSAMPLE,
    };
    if (w == STREAM_ADD)
        o->args.conv3d.residual = o->args.conv3d.y;
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_conv3d_workspace(o->ctx, &o->args.conv3d));
    o->run = run_conv3d;
    o->unit = BENCH_FLOP;
    /* Taps that see frames before the first one are no work. */
    double taps = (double)(T * kt);
    for (size_t t = 0; w == FIRST && t < before && t < T; t++)
        taps -= (double)(before - t);
    o->work = 2.0 * taps * (double)(Ho * Wo * Cout * Cin * kh * kw);
}

static zoe_status run_conv2d(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_conv2d(ctx, &o->args.conv2d, o->work_space);
}

/* Shape B x H x W x Cin x Cout x kh x kw. */
static void conv2d(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t B = c->shape[0], H = c->shape[1], W = c->shape[2], Cin = c->shape[3],
                 Cout = c->shape[4], kh = c->shape[5], kw = c->shape[6];
    zoe_conv_weights *packed = NULL;
    const zoe_tensor weight = bench_take(o, c->w, Cout, Cin, kh, kw);
    const zoe_tensor bias = bench_take(o, ZOE_F32, Cout);
    if (o->status == ZOE_OK)
        o->status = zoe_conv_weights_new(o->ctx, &packed, weight, bias);
    o->packed = packed;
    o->close = close_conv;
    o->args.conv2d = (zoe_conv2d_args){
        .y = bench_take(o, c->y, B, H, W, Cout),
        .x = bench_take(o, c->x, B, H, W, Cin),
        .weights = packed,
        .pad_top = kh / 2,
        .pad_bottom = kh / 2,
        .pad_left = kw / 2,
        .pad_right = kw / 2,
        .stride_h = 1,
        .stride_w = 1,
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_conv2d_workspace(o->ctx, &o->args.conv2d));
    o->run = run_conv2d;
    o->unit = BENCH_FLOP;
    o->work = 2.0 * (double)(B * H * W) * (double)(Cout * Cin * kh * kw);
}

#define F32 ZOE_F32, ZOE_F32, ZOE_F32

static const bench_case cases[] = {
    {"conv3d_add", conv3d, F32, BENCH_SHAPE_OF(4, 60, 104, 384, 384, 3, 3, 3),
     .variant = STREAM_ADD},
    {"conv3d_add", conv3d, F32, BENCH_SHAPE_OF(4, 120, 208, 192, 192, 3, 3, 3),
     .variant = STREAM_ADD},
    {"conv3d_add", conv3d, F32, BENCH_SHAPE_OF(4, 240, 416, 96, 96, 3, 3, 3),
     .variant = STREAM_ADD},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(1, 60, 104, 1024, 1024, 3, 3, 3)},
    {"conv3d_first", conv3d, F32, BENCH_SHAPE_OF(1, 60, 104, 384, 384, 3, 3, 3), .variant = FIRST},
    {"conv3d_first", conv3d, F32, BENCH_SHAPE_OF(1, 480, 832, 96, 96, 3, 3, 3), .variant = FIRST},
    {"conv3d_upsample", conv3d, F32, BENCH_SHAPE_OF(4, 120, 208, 192, 96, 1, 3, 3),
     .variant = UPSAMPLE},
    {"conv3d_downsample", conv3d, F32, BENCH_SHAPE_OF(4, 240, 416, 96, 96, 1, 3, 3),
     .variant = DOWNSAMPLE},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(2, 60, 104, 384, 768, 3, 1, 1)},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(4, 120, 208, 192, 384, 1, 1, 1)},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(4, 240, 416, 3, 96, 3, 3, 3)},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(4, 240, 416, 96, 3, 3, 3, 3)},
    {"conv3d", conv3d, F32, BENCH_SHAPE_OF(4, 16, 16, 32, 32, 3, 3, 3)},
    {"conv2d", conv2d, F32, BENCH_SHAPE_OF(1, 120, 208, 192, 192, 3, 3)},
    {"conv2d", conv2d, ZOE_BF16, ZOE_BF16, ZOE_BF16, BENCH_SHAPE_OF(1, 120, 208, 192, 192, 3, 3)},
};
const bench_family zoe_bench_conv = {cases, sizeof cases / sizeof cases[0]};
