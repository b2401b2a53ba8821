/* Products. Shapes are M x N x K: rows, outputs, inputs. */
#include "bench_ops.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static zoe_status run_linear(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_linear(ctx, &o->args.linear, o->work_space);
}

/* variant: the activation. */
static void linear(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], K = c->shape[2];
    o->args.linear = (zoe_linear_args){
        .y = bench_take(o, c->y, M, N),
        .x = bench_take(o, c->x, M, K),
        .w = bench_take(o, c->w, N, K),
        .bias = bench_take(o, ZOE_F32, N),
        .activation = (zoe_activation)c->variant,
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_linear_workspace(o->ctx, &o->args.linear));
    o->run = run_linear;
    o->unit = BENCH_FLOP;
    o->work = 2.0 * (double)M * (double)N * (double)K;
}

/* The second product of a block's feed-forward part: y = y + gate * (x w^T + bias). */
static void linear_gated(bench_op *o)
{
    linear(o);
    o->args.linear.residual = o->args.linear.y;
    o->args.linear.gate = bench_take(o, ZOE_F32, o->c->shape[1]);
}

static zoe_status run_linear_parts(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_linear_parts(ctx, o->args.linear_parts, 3, o->work_space);
}

/* Queries, keys and values: three products of one x, each of N outputs. */
static void linear_qkv(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], K = c->shape[2];
    const zoe_tensor x = bench_take(o, c->x, M, K);
    for (size_t i = 0; i < 3; i++)
        o->args.linear_parts[i] = (zoe_linear_args){.y = bench_take(o, c->y, M, N),
                                                    .x = x,
                                                    .w = bench_take(o, c->w, N, K),
                                                    .bias = bench_take(o, ZOE_F32, N)};
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_linear_parts_workspace(o->ctx, o->args.linear_parts, 3));
    o->run = run_linear_parts;
    o->unit = BENCH_FLOP;
    o->work = 3 * 2.0 * (double)M * (double)N * (double)K;
}

static zoe_status run_linear_int8(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_linear_int8(ctx, &o->args.linear_int8, o->work_space);
}

static void close_int8(bench_op *o)
{
    zoe_int8_weights_free(o->packed);
}

/* variant: the group of the weights, 0 for none. x is i8, or of a float type and quantised within. */
static void linear_int8(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], K = c->shape[2];
    zoe_int8_weights *weights = NULL;
    const zoe_tensor w = bench_take(o, c->w, N, K);
    if (o->status == ZOE_OK)
        o->status = zoe_int8_weights_new(o->ctx, &weights, w, (size_t)c->variant);
    o->packed = weights;
    o->close = close_int8;
    o->args.linear_int8 = (zoe_linear_int8_args){
        .y = bench_take(o, c->y, M, N),
        .x = bench_take(o, c->x, M, K),
        .x_scale = c->x == ZOE_I8 ? bench_take(o, ZOE_F32, M) : zoe_tensor_none(),
        .weights = weights,
        .scale = c->x == ZOE_I8 ? bench_take(o, ZOE_F32, N) : zoe_tensor_none(),
        .bias = bench_take(o, ZOE_F32, N),
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_linear_int8_workspace(o->ctx, &o->args.linear_int8));
    o->run = run_linear_int8;
    o->unit = BENCH_INT8;
    o->work = 2.0 * (double)M * (double)N * (double)K;
}

static zoe_status run_dynamic_quant(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_dynamic_quant(ctx, &o->args.dynamic_quant, o->work_space);
}

static void dynamic_quant(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], K = c->shape[1];
    o->args.dynamic_quant = (zoe_dynamic_quant_args){
        .q = bench_take(o, ZOE_I8, M, K),
        .scale = bench_take(o, ZOE_F32, M),
        .x = bench_take(o, c->x, M, K),
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_dynamic_quant_workspace(o->ctx, &o->args.dynamic_quant));
    o->run = run_dynamic_quant;
    o->unit = BENCH_BYTES;
    o->work =
        bench_bytes(o->args.dynamic_quant.q, o->args.dynamic_quant.x, o->args.dynamic_quant.scale);
}

#define F32_ALL ZOE_F32, ZOE_F32, ZOE_F32
#define F32_BY(w) ZOE_F32, w, ZOE_F32
#define BF16_ALL ZOE_BF16, ZOE_BF16, ZOE_BF16
#define MNK(...) BENCH_SHAPE_OF(__VA_ARGS__)

static const bench_case cases[] = {
    {"linear", linear, F32_ALL, MNK(1560, 1536, 1536), .target = 90},
    {"linear", linear, F32_ALL, MNK(1560, 8960, 1536), .target = 90},
    {"linear", linear, F32_ALL, MNK(1560, 1536, 8960), .target = 90},
    {"linear", linear, F32_ALL, MNK(4680, 1536, 1536), .target = 90},
    {"linear", linear, F32_ALL, MNK(4680, 8960, 1536), .target = 90},
    {"linear", linear, F32_ALL, MNK(4680, 1536, 8960), .target = 90},
    {"linear", linear, F32_ALL, MNK(1560, 5120, 5120), .target = 90},
    {"linear", linear, F32_ALL, MNK(1560, 13824, 5120), .target = 90},
    {"linear", linear, F32_ALL, MNK(1560, 5120, 13824), .target = 90},
    {"linear", linear, F32_ALL, MNK(1760, 14336, 3072)},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1560, 1536, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1560, 8960, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1560, 1536, 8960), .target = 88},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(4680, 8960, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1560, 5120, 5120), .target = 88},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1560, 13824, 5120), .target = 88},
    {"linear", linear, F32_BY(ZOE_F16), MNK(1560, 1536, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_F16), MNK(1560, 8960, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_F16), MNK(1560, 1536, 8960), .target = 88},
    {"linear", linear, F32_BY(ZOE_F16), MNK(1560, 5120, 5120), .target = 88},
    {"linear", linear, F32_BY(ZOE_Q8_0), MNK(1560, 1536, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_Q8_0), MNK(1560, 8960, 1536), .target = 88},
    {"linear", linear, F32_BY(ZOE_Q8_0), MNK(1560, 1536, 8960), .target = 88},
    {"linear", linear, F32_BY(ZOE_Q8_0), MNK(1560, 5120, 5120), .target = 88},
    {"linear", linear, F32_BY(ZOE_F8_E4M3), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q4_0), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q5_1), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q2_K), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q3_K), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q4_K), MNK(1560, 1536, 1536)},
    {"linear", linear, F32_BY(ZOE_Q6_K), MNK(1560, 1536, 1536)},
    {"linear", linear, BF16_ALL, MNK(1560, 1536, 1536)},
    {"linear", linear, BF16_ALL, MNK(1560, 8960, 1536)},
    {"linear", linear, ZOE_F16, ZOE_F16, ZOE_F16, MNK(1560, 1536, 1536)},
    {"linear_gelu", linear, F32_BY(ZOE_BF16), MNK(1560, 8960, 1536), .variant = ZOE_ACT_GELU_TANH},
    {"linear_qkv", linear_qkv, F32_BY(ZOE_BF16), MNK(1560, 1536, 1536)},
    {"linear_qkv", linear_qkv, BF16_ALL, MNK(1560, 1536, 1536)},
    {"linear_gated", linear_gated, F32_BY(ZOE_BF16), MNK(1560, 1536, 8960)},
    {"linear", linear, F32_ALL, MNK(1, 5120, 5120)},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(1, 5120, 5120)},
    {"linear", linear, F32_BY(ZOE_Q8_0), MNK(1, 5120, 5120)},
    {"linear", linear, F32_BY(ZOE_Q4_K), MNK(1, 5120, 5120)},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(8, 5120, 5120)},
    {"linear", linear, F32_BY(ZOE_BF16), MNK(64, 5120, 5120)},
    {"linear_int8", linear_int8, ZOE_I8, ZOE_I8, ZOE_F32, MNK(1560, 1536, 1536), .target = 90},
    {"linear_int8", linear_int8, ZOE_I8, ZOE_I8, ZOE_F32, MNK(1560, 8960, 1536), .target = 90},
    {"linear_int8", linear_int8, ZOE_I8, ZOE_I8, ZOE_F32, MNK(1560, 5120, 5120), .target = 90},
    {"linear_int8", linear_int8, ZOE_F32, ZOE_BF16, ZOE_F32, MNK(1560, 1536, 1536)},
    {"linear_int8", linear_int8, ZOE_F32, ZOE_BF16, ZOE_F32, MNK(1560, 8960, 1536), .variant = 256},
    {"dynamic_quant", dynamic_quant, ZOE_F32, ZOE_NONE, ZOE_I8, BENCH_SHAPE_OF(8192, 5120)},
    {"linear_tiny", linear, F32_ALL, MNK(8, 64, 64), .hidden = true},
};
const bench_family zoe_bench_linear = {cases, COUNT(cases)};
