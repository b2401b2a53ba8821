/* Root-mean-square norms and rotary embedding. Shapes are M x D, of qk_norm_rope and rotary_mul
 * M x N x D: rows, heads, head width. */
#include "bench_ops.h"

static const float eps = 1e-6f;

static zoe_status run_rms_norm(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_rms_norm(ctx, &o->args.rms_norm);
}
static zoe_status run_add_rms_norm(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_add_rms_norm(ctx, &o->args.add_rms_norm);
}
static zoe_status run_rms_norm_quant(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_rms_norm_quant(ctx, &o->args.rms_norm_quant);
}
static zoe_status run_rms_norm_dynamic_quant(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_rms_norm_dynamic_quant(ctx, &o->args.rms_norm_dynamic_quant);
}
static zoe_status run_qk_norm_rope(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_qk_norm_rope(ctx, &o->args.qk_norm_rope);
}
static zoe_status run_l2_norm(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_l2_norm(ctx, &o->args.l2_norm);
}
static zoe_status run_rotary_mul(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_rotary_mul(ctx, &o->args.rotary_mul);
}

/* [M, D] of a type, and [D] of the type of gamma. */
static zoe_tensor matrix(bench_op *o, zoe_dtype dtype)
{
    return bench_take(o, dtype, o->c->shape[0], o->c->shape[1]);
}
static zoe_tensor vector(bench_op *o)
{
    return bench_take(o, o->c->w, o->c->shape[1]);
}

/* variant: the order. */
static void rms_norm(bench_op *o)
{
    const bench_case *c = o->c;
    zoe_rms_norm_args *a = &o->args.rms_norm;
    *a = (zoe_rms_norm_args){.y = matrix(o, c->y),
                             .x = matrix(o, c->x),
                             .gamma = vector(o),
                             .eps = eps,
                             .order = (zoe_rms_order)c->variant};
    o->run = run_rms_norm;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

static void rms_norm_without_gamma(bench_op *o)
{
    rms_norm(o);
    o->args.rms_norm.gamma = zoe_tensor_none();
}

static void add_rms_norm(bench_op *o)
{
    const bench_case *c = o->c;
    zoe_add_rms_norm_args *a = &o->args.add_rms_norm;
    *a = (zoe_add_rms_norm_args){.y = matrix(o, c->y),
                                 .sum = matrix(o, c->x),
                                 .x = matrix(o, c->x),
                                 .residual = matrix(o, c->x),
                                 .gamma = vector(o),
                                 .eps = eps};
    o->run = run_add_rms_norm;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->residual, a->y, a->sum);
}

static void rms_norm_quant(bench_op *o)
{
    const bench_case *c = o->c;
    zoe_rms_norm_quant_args *a = &o->args.rms_norm_quant;
    *a = (zoe_rms_norm_quant_args){.y = matrix(o, ZOE_I8),
                                   .x = matrix(o, c->x),
                                   .gamma = vector(o),
                                   .scale = vector(o),
                                   .eps = eps};
    o->run = run_rms_norm_quant;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

static void rms_norm_dynamic_quant(bench_op *o)
{
    const bench_case *c = o->c;
    zoe_rms_norm_dynamic_quant_args *a = &o->args.rms_norm_dynamic_quant;
    *a = (zoe_rms_norm_dynamic_quant_args){.y = matrix(o, ZOE_I8),
                                           .scale = bench_take(o, ZOE_F32, c->shape[0]),
                                           .x = matrix(o, c->x),
                                           .gamma = vector(o),
                                           .eps = eps};
    o->run = run_rms_norm_dynamic_quant;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y, a->scale);
}

static void l2_norm_silu(bench_op *o)
{
    const bench_case *c = o->c;
    zoe_l2_norm_args *a = &o->args.l2_norm;
    *a = (zoe_l2_norm_args){
        .y = matrix(o, c->y), .x = matrix(o, c->x), .gamma = vector(o), .silu = true};
    o->run = run_l2_norm;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y);
}

/* variant: the order. In place, as a transformer block does it; the tables are read once for both. */
static void qk_norm_rope(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], D = c->shape[2];
    const zoe_tensor q = bench_take(o, c->x, M, N * D), k = bench_take(o, c->x, M, N * D);
    zoe_qk_norm_rope_args *a = &o->args.qk_norm_rope;
    *a = (zoe_qk_norm_rope_args){
        .q = {q, q, bench_take(o, c->w, N * D)},
        .k = {k, k, bench_take(o, c->w, N * D)},
        .cos = bench_take(o, ZOE_F32, M, D / 2),
        .sin = bench_take(o, ZOE_F32, M, D / 2),
        .eps = eps,
        .order = (zoe_rms_order)c->variant,
        .pairing = ZOE_ROTARY_INTERLEAVE,
    };
    o->run = run_qk_norm_rope;
    o->unit = BENCH_BYTES;
    o->work = 2 * bench_bytes(q, k) + bench_bytes(a->cos, a->sin);
}

/* variant: the pairing. */
static void rotary_mul(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], D = c->shape[2];
    zoe_rotary_mul_args *a = &o->args.rotary_mul;
    *a = (zoe_rotary_mul_args){
        .y = bench_take(o, c->y, M, N, D),
        .x = bench_take(o, c->x, M, N, D),
        .cos = bench_take(o, ZOE_F32, M, 1, D / 2),
        .sin = bench_take(o, ZOE_F32, M, 1, D / 2),
        .pairing = (zoe_rotary_pairing)c->variant,
        .half_tables = true,
    };
    o->run = run_rotary_mul;
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(a->x, a->y, a->cos, a->sin);
}

#define F32 ZOE_F32, ZOE_F32, ZOE_F32
#define F16 ZOE_F16, ZOE_F16, ZOE_F16
#define BF16 ZOE_BF16, ZOE_BF16, ZOE_BF16
#define LARGE BENCH_SHAPE_OF(8192, 5120)
#define SMALL BENCH_SHAPE_OF(4680, 1536)

static const bench_case cases[] = {
    {"rms_norm", rms_norm, F32, LARGE, .target = 90},
    {"rms_norm", rms_norm, F16, LARGE, .target = 90},
    {"rms_norm", rms_norm, BF16, LARGE, .target = 90},
    {"rms_norm", rms_norm, F32, SMALL, .target = 90},
    {"rms_norm", rms_norm, F16, SMALL, .target = 90},
    {"rms_norm", rms_norm, BF16, SMALL, .target = 90},
    {"rms_norm", rms_norm, F16, BENCH_SHAPE_OF(512, 4096), .target = 90},
    /* The same against a peer that has no such operator and takes it apart. */
    {"rms_norm_steps", rms_norm, F16, BENCH_SHAPE_OF(512, 4096), .target = 90},
    {"rms_norm_cast", rms_norm, BF16, SMALL, .variant = ZOE_RMS_CAST_THEN_MUL},
    {"rms_norm_no_gamma", rms_norm_without_gamma, F32, SMALL},
    {"add_rms_norm", add_rms_norm, F32, LARGE},
    {"add_rms_norm", add_rms_norm, BF16, LARGE},
    {"rms_norm_quant", rms_norm_quant, ZOE_F16, ZOE_F16, ZOE_I8, LARGE},
    {"rms_norm_dynamic_quant", rms_norm_dynamic_quant, ZOE_F16, ZOE_F16, ZOE_I8, LARGE},
    {"rms_norm_dynamic_quant", rms_norm_dynamic_quant, ZOE_F32, ZOE_F32, ZOE_I8, SMALL},
    {"l2_norm_silu", l2_norm_silu, F32, BENCH_SHAPE_OF(99840, 96)},
    {"l2_norm_silu", l2_norm_silu, F32, BENCH_SHAPE_OF(24960, 384)},
    {"qk_norm_rope", qk_norm_rope, F32, BENCH_SHAPE_OF(4680, 12, 128),
     .variant = ZOE_RMS_CAST_THEN_MUL, .target = 90},
    {"qk_norm_rope", qk_norm_rope, ZOE_BF16, ZOE_F32, ZOE_BF16, BENCH_SHAPE_OF(4680, 12, 128),
     .variant = ZOE_RMS_CAST_THEN_MUL, .target = 90},
    {"qk_norm_rope", qk_norm_rope, F32, BENCH_SHAPE_OF(8192, 40, 128),
     .variant = ZOE_RMS_CAST_THEN_MUL, .target = 90},
    {"rotary_mul", rotary_mul, ZOE_F32, ZOE_NONE, ZOE_F32, BENCH_SHAPE_OF(4680, 12, 128),
     .variant = ZOE_ROTARY_INTERLEAVE},
    {"rotary_mul_half", rotary_mul, ZOE_BF16, ZOE_NONE, ZOE_BF16, BENCH_SHAPE_OF(4680, 12, 128),
     .variant = ZOE_ROTARY_HALF},
};
const bench_family zoe_bench_rms_norm = {cases, sizeof cases / sizeof cases[0]};
