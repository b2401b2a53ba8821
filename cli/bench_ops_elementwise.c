/* Element by element, and the softmax. Shapes are M x D. */
#include "bench_ops.h"

static zoe_status run_activate(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_activate(ctx, o->args.tensors[0], o->args.tensors[1], (zoe_activation)o->c->variant);
}
static zoe_status run_softmax(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_softmax(ctx, o->args.tensors[0], o->args.tensors[1]);
}
static zoe_status run_cast(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_cast(ctx, o->args.tensors[0], o->args.tensors[1]);
}
static zoe_status run_add(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_add(ctx, o->args.tensors[0], o->args.tensors[1], o->args.tensors[2]);
}
static zoe_status run_glu(zoe_context *ctx, void *op)
{
    const bench_op *o = op;
    return zoe_glu(ctx, &o->args.glu);
}

static void one_input(bench_op *o)
{
    zoe_tensor *t = o->args.tensors;
    t[0] = bench_take(o, o->c->y, o->c->shape[0], o->c->shape[1]);
    t[1] = bench_take(o, o->c->x, o->c->shape[0], o->c->shape[1]);
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(t[0], t[1]);
}
static void activate(bench_op *o)
{
    one_input(o);
    o->run = run_activate;
}
static void softmax(bench_op *o)
{
    one_input(o);
    o->run = run_softmax;
}
static void cast(bench_op *o)
{
    one_input(o);
    o->run = run_cast;
}
static void add(bench_op *o)
{
    one_input(o);
    o->args.tensors[2] = bench_take(o, o->c->x, o->c->shape[0], o->c->shape[1]);
    o->work += bench_bytes(o->args.tensors[2]);
    o->run = run_add;
}
static void glu(bench_op *o)
{
    const bench_case *c = o->c;
    const size_t M = c->shape[0], D = c->shape[1];
    o->args.glu = (zoe_glu_args){.y = bench_take(o, c->y, M, D),
                                 .gate = bench_take(o, c->x, M, D),
                                 .up = bench_take(o, c->x, M, D),
                                 .activation = (zoe_activation)c->variant};
    o->unit = BENCH_BYTES;
    o->work = bench_bytes(o->args.glu.y, o->args.glu.gate, o->args.glu.up);
    o->run = run_glu;
}

#define F32 ZOE_F32, ZOE_NONE, ZOE_F32
#define BF16 ZOE_BF16, ZOE_NONE, ZOE_BF16

static const bench_case cases[] = {
    {"silu", activate, F32, BENCH_SHAPE_OF(1560, 8960), .variant = ZOE_ACT_SILU},
    {"gelu_tanh", activate, F32, BENCH_SHAPE_OF(1560, 8960), .variant = ZOE_ACT_GELU_TANH},
    {"gelu_tanh", activate, BF16, BENCH_SHAPE_OF(1560, 8960), .variant = ZOE_ACT_GELU_TANH},
    {"gelu_erf", activate, F32, BENCH_SHAPE_OF(1560, 8960), .variant = ZOE_ACT_GELU_ERF},
    {"geglu", glu, F32, BENCH_SHAPE_OF(512, 10240), .variant = ZOE_ACT_GELU_TANH},
    {"swiglu", glu, F32, BENCH_SHAPE_OF(512, 10240), .variant = ZOE_ACT_SILU},
    {"softmax", softmax, F32, BENCH_SHAPE_OF(18720, 1560)},
    {"add", add, F32, BENCH_SHAPE_OF(4680, 1536)},
    {"cast", cast, ZOE_BF16, ZOE_NONE, ZOE_F32, BENCH_SHAPE_OF(4096, 4096)},
    {"cast", cast, ZOE_F32, ZOE_NONE, ZOE_BF16, BENCH_SHAPE_OF(4096, 4096)},
    {"silu_tiny", activate, F32, BENCH_SHAPE_OF(8, 64), .variant = ZOE_ACT_SILU, .hidden = true},
};
const bench_family zoe_bench_elementwise = {cases, sizeof cases / sizeof cases[0]};
