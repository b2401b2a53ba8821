/* Attention. Shapes are Lq x Lk x N x D: queries, keys, heads, head width; of fused_attention also the
 * number of heads that keys have. */
#include "bench_ops.h"

static zoe_status run_attention(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_attention(ctx, &o->args.attention, o->work_space);
}

static void attention(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t Lq = c->shape[0], Lk = c->shape[1], N = c->shape[2], D = c->shape[3];
    o->args.attention = (zoe_attention_args){
        .o = bench_take(o, c->y, Lq, N, D),
        .q = bench_take(o, c->x, Lq, N, D),
        .k = bench_take(o, c->x, Lk, N, D),
        .v = bench_take(o, c->x, Lk, N, D),
        .scale = 1.0f / sqrtf((float)D),
        .last_count = 1,
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(o, zoe_attention_workspace(o->ctx, &o->args.attention));
    o->run = run_attention;
    o->unit = BENCH_FLOP;
    o->work = 4.0 * (double)Lq * (double)Lk * (double)N * (double)D;
}

static zoe_status run_fused(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_fused_infer_attention_score(ctx, &o->args.fused_attention, o->work_space);
}

/* variant: the sparse mode. One sequence, heads before tokens. */
static void fused_attention(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t Lq = c->shape[0], Lk = c->shape[1], N = c->shape[2], D = c->shape[3],
                 Nkv = c->shape[4];
    const bool causal = c->variant == ZOE_SPARSE_CAUSAL;
    o->args.fused_attention = (zoe_fused_infer_attention_score_args){
        .o = bench_take(o, c->y, 1, N, Lq, D),
        .lse = zoe_tensor_none(),
        .q = bench_take(o, c->x, 1, N, Lq, D),
        .k = bench_take(o, c->x, 1, Nkv, Lk, D),
        .v = bench_take(o, c->x, 1, Nkv, Lk, D),
        .mask = causal ? bench_take(o, ZOE_I8, 2048, 2048) : zoe_tensor_none(),
        .layout = ZOE_LAYOUT_BNSD,
        .heads = N,
        .kv_heads = Nkv,
        .scale = 1.0f / sqrtf((float)D),
        .sparse_mode = (zoe_attention_sparse)c->variant,
        .pre_tokens = INT32_MAX,
        .next_tokens = INT32_MAX,
    };
    if (o->status == ZOE_OK)
        zoe_bench_take_workspace(
            o, zoe_fused_infer_attention_score_workspace(o->ctx, &o->args.fused_attention));
    o->run = run_fused;
    o->unit = BENCH_FLOP;
    /* A causal query sees itself and what is before it. */
    o->work =
        4.0 * (double)N * (double)D * (double)Lq * (causal ? 0.5 * (double)(Lq + 1) : (double)Lk);
}

static zoe_status run_merge(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_attention_merge(ctx, &o->args.merge.args);
}

/* Two parts, as two ranks of a ring have them. Shape M x N x D. */
static void attention_merge(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], N = c->shape[1], D = c->shape[2];
    for (size_t i = 0; i < 2; i++) {
        o->args.merge.outs[i] = bench_take(o, c->x, M, N, D);
        o->args.merge.lses[i] = bench_take(o, ZOE_F32, M, N, 1);
    }
    o->args.merge.args = (zoe_attention_merge_args){
        .o = bench_take(o, c->y, M, N, D),
        .lse = bench_take(o, ZOE_F32, M, N, 1),
        .parts = 2,
        .outs = o->args.merge.outs,
        .lses = o->args.merge.lses,
    };
    o->run = run_merge;
    o->unit = BENCH_BYTES;
    o->work = 3 * bench_bytes(o->args.merge.args.o, o->args.merge.args.lse);
}

#define F16 ZOE_F16, ZOE_NONE, ZOE_F16
#define F32 ZOE_F32, ZOE_NONE, ZOE_F32
#define BF16 ZOE_BF16, ZOE_NONE, ZOE_BF16

static const bench_case cases[] = {
    {"attention", attention, F32, BENCH_SHAPE_OF(1560, 1560, 12, 128), .target = 80},
    {"attention", attention, F32, BENCH_SHAPE_OF(4680, 4680, 12, 128), .target = 80},
    {"attention", attention, F32, BENCH_SHAPE_OF(1560, 512, 12, 128), .target = 80},
    {"attention", attention, F32, BENCH_SHAPE_OF(1760, 1760, 24, 128)},
    {"attention", attention, F32, BENCH_SHAPE_OF(1560, 1560, 40, 128)},
    {"attention", attention, BF16, BENCH_SHAPE_OF(1560, 1560, 12, 128)},
    {"attention", attention, BF16, BENCH_SHAPE_OF(4680, 4680, 12, 128)},
    {"attention", attention, F16, BENCH_SHAPE_OF(1560, 1560, 12, 128)},
    {"fused_attention", fused_attention, F32, BENCH_SHAPE_OF(1560, 1560, 12, 128, 12)},
    {"fused_attention", fused_attention, F16, BENCH_SHAPE_OF(2048, 2048, 32, 128, 8)},
    {"fused_attention_causal", fused_attention, F32, BENCH_SHAPE_OF(4096, 4096, 12, 128, 12),
     .variant = ZOE_SPARSE_CAUSAL},
    {"attention_merge", attention_merge, F32, BENCH_SHAPE_OF(4680, 12, 128)},
};
const bench_family zoe_bench_attention = {cases, sizeof cases / sizeof cases[0]};
