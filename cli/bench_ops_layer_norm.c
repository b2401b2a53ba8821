/* Layer norms, modulation and gated residuals. Shapes are M x D, of group_norm_silu
 * C x positions x groups. */
#include "bench_ops.h"

static const float eps = 1e-6f;

static zoe_status run_layer_norm(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_layer_norm(ctx, &o->args.layer_norm);
}
static zoe_status run_layer_norm_modulate(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_layer_norm_modulate(ctx, &o->args.layer_norm_modulate);
}
static zoe_status run_gated_residual(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_gated_residual(ctx, &o->args.gated_residual);
}
static zoe_status run_gated_residual_norm_modulate(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_gated_residual_norm_modulate(ctx, &o->args.gated_residual_norm_modulate);
}
static zoe_status run_group_norm_silu(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_group_norm_silu(ctx, &o->args.group_norm, o->work_space);
}

static zoe_tensor matrix(bench_op *o, zoe_dtype dtype)
{
    return bench_take(o, dtype, o->c->shape[0], o->c->shape[1]);
}
static zoe_tensor vector(bench_op *o)
{
    return bench_take(o, ZOE_F32, o->c->shape[1]);
}

static void layer_norm(bench_op *o)
{
    zoe_layer_norm_args *a = &o->args.layer_norm;
    *a = (zoe_layer_norm_args){.y = matrix(o, o->c->y),
                               .x = matrix(o, o->c->x),
                               .gamma = vector(o),
                               .beta = vector(o),
                               .eps = eps};
    o->run = run_layer_norm;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

static void layer_norm_modulate(bench_op *o)
{
    zoe_layer_norm_modulate_args *a = &o->args.layer_norm_modulate;
    *a = (zoe_layer_norm_modulate_args){.y = matrix(o, o->c->y),
                                        .x = matrix(o, o->c->x),
                                        .scale = vector(o),
                                        .shift = vector(o),
                                        .eps = eps};
    o->run = run_layer_norm_modulate;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

/* In place, as the residual stream is. */
static void gated_residual(bench_op *o)
{
    const zoe_tensor x = matrix(o, o->c->x);
    zoe_gated_residual_args *a = &o->args.gated_residual;
    *a = (zoe_gated_residual_args){.y = x, .x = x, .h = matrix(o, o->c->y), .gate = vector(o)};
    o->run = run_gated_residual;
    o->unit = BENCH_BYTES;
    o->work = 2 * bench_bytes(x) + bench_bytes(a->h);
}

static void gated_residual_norm_modulate(bench_op *o)
{
    const zoe_tensor x = matrix(o, o->c->x);
    zoe_gated_residual_norm_modulate_args *a = &o->args.gated_residual_norm_modulate;
    *a = (zoe_gated_residual_norm_modulate_args){
        .residual = {.y = x, .x = x, .h = matrix(o, o->c->y), .gate = vector(o)},
        .norm = {.y = matrix(o, o->c->y), .scale = vector(o), .shift = vector(o), .eps = eps},
    };
    o->run = run_gated_residual_norm_modulate;
    o->unit = BENCH_BYTES;
    o->work = 2 * bench_bytes(x) + bench_bytes(a->residual.h, a->norm.y);
}

static void group_norm_silu(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t C = c->shape[0], positions = c->shape[1];
    zoe_group_norm_args *a = &o->args.group_norm;
    *a = (zoe_group_norm_args){.y = bench_take(o, c->y, 1, C, positions),
                               .x = bench_take(o, c->x, 1, C, positions),
                               .weight = bench_take(o, ZOE_F32, C),
                               .bias = bench_take(o, ZOE_F32, C),
                               .groups = c->shape[2],
                               .eps = eps,
                               .silu = true};
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_group_norm_silu_workspace(o->ctx, a));
    o->run = run_group_norm_silu;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

/* x is the residual stream, y and what is added to it are of the type of the products. */
#define F32 ZOE_F32, ZOE_NONE, ZOE_F32
#define F16 ZOE_F16, ZOE_NONE, ZOE_F16
#define BF16 ZOE_BF16, ZOE_NONE, ZOE_BF16
#define MIXED ZOE_F32, ZOE_NONE, ZOE_BF16
#define LARGE BENCH_SHAPE_OF(8192, 5120)
#define SMALL BENCH_SHAPE_OF(4680, 1536)

static const bench_case cases[] = {
    {"layer_norm", layer_norm, F32, LARGE},
    {"layer_norm", layer_norm, BF16, LARGE},
    {"layer_norm_modulate", layer_norm_modulate, F32, LARGE, .target = 90},
    {"layer_norm_modulate", layer_norm_modulate, F16, LARGE, .target = 90},
    {"layer_norm_modulate", layer_norm_modulate, BF16, LARGE, .target = 90},
    {"layer_norm_modulate", layer_norm_modulate, F32, SMALL, .target = 90},
    {"layer_norm_modulate", layer_norm_modulate, BF16, SMALL, .target = 90},
    {"gated_residual", gated_residual, F32, LARGE, .target = 90},
    {"gated_residual", gated_residual, BF16, LARGE, .target = 90},
    {"gated_residual", gated_residual, F32, SMALL, .target = 90},
    {"gated_residual_mixed", gated_residual, MIXED, SMALL},
    {"gated_residual_norm_modulate", gated_residual_norm_modulate, F32, LARGE, .target = 90},
    {"gated_residual_norm_modulate", gated_residual_norm_modulate, BF16, LARGE, .target = 90},
    {"gated_residual_norm_modulate", gated_residual_norm_modulate, F32, SMALL, .target = 90},
    {"group_norm_silu", group_norm_silu, F32, BENCH_SHAPE_OF(128, 99840, 32)},
};
const bench_family zoe_bench_layer_norm = {cases, sizeof cases / sizeof cases[0]};
