/* Activations, gated units, softmax, quantisation of rows, linear layers. */
#include "call.h"

static void activate(zoe_call *call)
{
    const zoe_tensor x = zoe_call_tensor(call, 0);
    const zoe_activation f = (zoe_activation)zoe_call_choice(call, 1, ZOE_ACT_LAST);
    const zoe_tensor y = zoe_call_new_like(call, x.dtype, x);
    zoe_call_done(call, zoe_activate(zoe_call_context(call), y, x, f));
}

static void activate_out(zoe_call *call)
{
    const zoe_tensor x = zoe_call_tensor(call, 0), y = zoe_call_target(call, 2);
    const zoe_activation f = (zoe_activation)zoe_call_choice(call, 1, ZOE_ACT_LAST);
    zoe_call_done(call, zoe_activate(zoe_call_context(call), y, x, f));
}

static void glu(zoe_call *call)
{
    zoe_glu_args a = {.gate = zoe_call_tensor(call, 0),
                      .up = zoe_call_tensor(call, 1),
                      .activation = (zoe_activation)zoe_call_choice(call, 2, ZOE_ACT_LAST),
                      .round_steps = zoe_call_flag(call, 3)};
    a.y = zoe_call_new_like(call, a.gate.dtype, a.gate);
    zoe_call_done(call, zoe_glu(zoe_call_context(call), &a));
}

/* Halves of one tensor along an axis, the first of which is the gate. */
static void swiglu(zoe_call *call)
{
    const zoe_tensor x = zoe_call_tensor(call, 0);
    const int64_t given = zoe_call_int(call, 1), dim = given < 0 ? given + x.rank : given;
    if (dim < 0 || dim >= x.rank)
        zoe_call_fail(call, "swiglu: dim is %lld, x has %d axes", (long long)given, x.rank);
    if (x.shape[dim] % 2 != 0)
        zoe_call_fail(call, "swiglu: axis %lld of x has %zu elements, wanted an even number",
                      (long long)dim, x.shape[dim]);
    zoe_tensor gate = x, up;
    gate.shape[dim] /= 2;
    up = gate;
    if (x.data)
        up.data = (char *)x.data +
                  (ptrdiff_t)gate.shape[dim] * x.stride[dim] * (ptrdiff_t)zoe_dtype_bytes(x.dtype);
    const zoe_glu_args a = {.y = zoe_call_new_like(call, x.dtype, gate),
                            .gate = gate,
                            .up = up,
                            .activation = ZOE_ACT_SILU};
    zoe_call_done(call, zoe_glu(zoe_call_context(call), &a));
}

static void softmax(zoe_call *call)
{
    const zoe_tensor x = zoe_call_tensor(call, 0), y = zoe_call_new_like(call, x.dtype, x);
    zoe_call_done(call, zoe_softmax(zoe_call_context(call), y, x));
}

static void dynamic_quant(zoe_call *call)
{
    zoe_dynamic_quant_args a = {.x = zoe_call_tensor(call, 0),
                                .smooth = zoe_call_tensor(call, 1),
                                .group = zoe_call_count(call, 2)};
    a.q = zoe_call_new_like(call, ZOE_I8, a.x);
    if (a.group > 0 && a.x.rank > 0) {
        zoe_tensor groups = a.x;
        size_t *last = &groups.shape[a.x.rank - 1];
        *last = *last / a.group + (*last % a.group != 0);
        a.scale = zoe_call_new_like(call, ZOE_F32, groups);
    } else {
        a.scale = zoe_call_new_rows(call, ZOE_F32, a.x, 1);
    }
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_dynamic_quant_workspace(ctx, &a));
    zoe_call_done(call, zoe_dynamic_quant(ctx, &a, work));
}

static void linear(zoe_call *call)
{
    zoe_linear_args a = {.x = zoe_call_tensor(call, 0),
                         .w = zoe_call_tensor(call, 1),
                         .bias = zoe_call_tensor(call, 2),
                         .gate = zoe_call_tensor(call, 3),
                         .residual = zoe_call_tensor(call, 4),
                         .activation = (zoe_activation)zoe_call_choice(call, 5, ZOE_ACT_LAST)};
    if (a.x.rank < 1 || a.w.rank < 2)
        zoe_call_fail(call, "linear: x has rank %d and w rank %d, wanted at least 1 and 2",
                      a.x.rank, a.w.rank);
    zoe_tensor y = a.x;
    y.shape[y.rank - 1] = a.w.shape[a.w.rank - 2];
    a.y = zoe_call_new_like(call, zoe_call_dtype(call, 6, a.x.dtype), y);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_linear_workspace(ctx, &a));
    zoe_call_done(call, zoe_linear(ctx, &a, work));
}

/* The weights are packed for this call only, and given back before anything can end it. */
static void linear_int8(zoe_call *call)
{
    zoe_linear_int8_args a = {.x = zoe_call_tensor(call, 0),
                              .x_scale = zoe_call_tensor(call, 2),
                              .scale = zoe_call_tensor(call, 3),
                              .offset = zoe_call_tensor(call, 4),
                              .bias = zoe_call_tensor(call, 5),
                              .activation = (zoe_activation)zoe_call_choice(call, 6, ZOE_ACT_LAST)};
    const zoe_tensor w = zoe_call_tensor(call, 1);
    if (a.x.rank != 2 || w.rank != 2)
        zoe_call_fail(call, "linear_int8: x has rank %d and w rank %d, wanted 2", a.x.rank, w.rank);
    const size_t shape[] = {a.x.shape[0], w.shape[0]};
    a.y = zoe_call_new(call, zoe_call_any_dtype(call, 7, ZOE_F32), 2, shape);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(
        call, zoe_linear_int8_workspace_of(ctx, shape[0], shape[1], w.shape[1], a.x.dtype, 0));
    zoe_int8_weights *weights;
    zoe_status status = zoe_int8_weights_new(ctx, &weights, w, 0);
    if (status == ZOE_OK) {
        a.weights = weights;
        status = zoe_linear_int8(ctx, &a, work);
        zoe_int8_weights_free(weights);
    }
    zoe_call_done(call, status);
}

#define OPS(OP)                                                                                    \
    OP(activate, "activate(Tensor x, int activation) -> Tensor")                                   \
    OP(activate_out, "activate.out(Tensor x, int activation, *, Tensor(a!) out) -> ()")            \
    OP(glu, "glu(Tensor gate, Tensor up, int activation=1, bool round_steps=False) -> Tensor")     \
    OP(swiglu, "swiglu(Tensor x, int dim=-1) -> Tensor")                                           \
    OP(softmax, "softmax(Tensor x) -> Tensor")                                                     \
    OP(dynamic_quant, "dynamic_quant(Tensor x, Tensor? smooth=None, int group=0) -> (Tensor, "     \
                      "Tensor)")                                                                   \
    OP(linear, "linear(Tensor x, Tensor w, Tensor? bias=None, Tensor? gate=None, Tensor? "         \
               "residual=None, int activation=0, ScalarType? dtype=None) -> Tensor")               \
    OP(linear_int8, "linear_int8(Tensor x, Tensor w, Tensor? x_scale=None, Tensor? scale=None, "   \
                    "Tensor? offset=None, Tensor? bias=None, int activation=0, ScalarType? "       \
                    "dtype=None) -> Tensor")

ZOE_TORCH_OPS(OPS, zoe_torch_rest)
