/* LayerNorm, modulation, gated residuals, GroupNorm. */
#include "call.h"

static zoe_layer_norm_args layer_arguments(zoe_call *call)
{
    zoe_layer_norm_args a = {.x = zoe_call_tensor(call, 0),
                             .gamma = zoe_call_tensor(call, 1),
                             .beta = zoe_call_tensor(call, 2),
                             .eps = zoe_call_float(call, 3),
                             .axes = zoe_call_choice(call, 4, ZOE_MAX_RANK)};
    return a;
}

static void layer_norm(zoe_call *call)
{
    zoe_layer_norm_args a = layer_arguments(call);
    const int axes = a.axes > 0 ? a.axes : 1;
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    a.mean = zoe_call_new_rows(call, ZOE_F32, a.x, axes);
    a.rstd = zoe_call_new_rows(call, ZOE_F32, a.x, axes);
    zoe_call_done(call, zoe_layer_norm(zoe_call_context(call), &a));
}

static void layer_norm_out(zoe_call *call)
{
    zoe_layer_norm_args a = layer_arguments(call);
    a.y = zoe_call_target(call, 5);
    zoe_call_done(call, zoe_layer_norm(zoe_call_context(call), &a));
}

/* Arguments from `first` on: scale, shift, gamma, beta, group, eps, kind, round_norm, maths. */
static zoe_layer_norm_modulate_args modulation(zoe_call *call, size_t first)
{
    return (zoe_layer_norm_modulate_args){
        .scale = zoe_call_tensor(call, first),
        .shift = zoe_call_tensor(call, first + 1),
        .gamma = zoe_call_tensor(call, first + 2),
        .beta = zoe_call_tensor(call, first + 3),
        .group = zoe_call_tensor(call, first + 4),
        .eps = zoe_call_float(call, first + 5),
        .kind = (zoe_norm_kind)zoe_call_choice(call, first + 6, ZOE_NORM_RMS),
        .round_norm = zoe_call_dtype(call, first + 7, ZOE_NONE),
        .maths = zoe_call_dtype(call, first + 8, ZOE_NONE)};
}

static void layer_norm_modulate(zoe_call *call)
{
    zoe_layer_norm_modulate_args a = modulation(call, 1);
    a.x = zoe_call_tensor(call, 0);
    a.y = zoe_call_new_like(call, zoe_call_dtype(call, 10, a.x.dtype), a.x);
    zoe_call_done(call, zoe_layer_norm_modulate(zoe_call_context(call), &a));
}

static void layer_norm_modulate_out(zoe_call *call)
{
    zoe_layer_norm_modulate_args a = modulation(call, 1);
    a.x = zoe_call_tensor(call, 0);
    a.y = zoe_call_target(call, 10);
    zoe_call_done(call, zoe_layer_norm_modulate(zoe_call_context(call), &a));
}

static void layer_norm_modulate_quant(zoe_call *call)
{
    zoe_layer_norm_modulate_args a = modulation(call, 1);
    a.x = zoe_call_tensor(call, 0);
    a.y = zoe_call_new_like(call, ZOE_I8, a.x);
    a.y_scale = zoe_call_new_rows(call, ZOE_F32, a.x, 1);
    zoe_call_done(call, zoe_layer_norm_modulate(zoe_call_context(call), &a));
}

static void layer_norm_modulate_backward(zoe_call *call)
{
    zoe_layer_norm_modulate_backward_args a = {
        .dy = zoe_call_tensor(call, 0),
        .x = zoe_call_tensor(call, 1),
        .scale = zoe_call_tensor(call, 2),
        .gamma = zoe_call_tensor(call, 3),
        .beta = zoe_call_tensor(call, 4),
        .eps = zoe_call_float(call, 5),
        .kind = (zoe_norm_kind)zoe_call_choice(call, 6, ZOE_NORM_RMS)};
    const size_t shape[] = {zoe_call_count(call, 7), a.x.shape[a.x.rank > 0 ? a.x.rank - 1 : 0]};
    const bool vectors = zoe_call_flag(call, 8), affine = zoe_call_flag(call, 9);
    zoe_tensor *const sums[] = {&a.dscale, &a.dshift, &a.dgamma, &a.dbeta};
    a.dx = zoe_call_new_like(call, a.x.dtype, a.x);
    for (int i = 0; i < 2; i++)
        *sums[i] =
            vectors ? zoe_call_new(call, ZOE_F32, 2, shape) : zoe_call_new_unwanted(call, ZOE_F32);
    for (int i = 2; i < 4; i++)
        *sums[i] = affine ? zoe_call_new(call, ZOE_F32, 1, shape + 1)
                          : zoe_call_new_unwanted(call, ZOE_F32);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work =
        zoe_call_workspace(call, zoe_layer_norm_modulate_backward_workspace(ctx, &a));
    zoe_call_done(call, zoe_layer_norm_modulate_backward(ctx, &a, work));
}

static zoe_gated_residual_args residual_arguments(zoe_call *call, size_t group, size_t maths)
{
    return (zoe_gated_residual_args){.x = zoe_call_tensor(call, 0),
                                     .h = zoe_call_tensor(call, 1),
                                     .gate = zoe_call_tensor(call, 2),
                                     .group = zoe_call_tensor(call, group),
                                     .maths = zoe_call_dtype(call, maths, ZOE_NONE)};
}

static void gated_residual(zoe_call *call)
{
    zoe_gated_residual_args a = residual_arguments(call, 3, 4);
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    zoe_call_done(call, zoe_gated_residual(zoe_call_context(call), &a));
}

static void gated_residual_out(zoe_call *call)
{
    zoe_gated_residual_args a = residual_arguments(call, 3, 4);
    a.y = zoe_call_target(call, 5);
    zoe_call_done(call, zoe_gated_residual(zoe_call_context(call), &a));
}

static void gated_residual_norm_modulate(zoe_call *call)
{
    zoe_gated_residual_norm_modulate_args a = {residual_arguments(call, 7, 12),
                                               modulation(call, 3)};
    a.norm.group = zoe_tensor_none();
    a.residual.y = zoe_call_new_like(call, a.residual.x.dtype, a.residual.x);
    a.norm.y = zoe_call_new_like(call, zoe_call_dtype(call, 13, a.residual.x.dtype), a.residual.x);
    zoe_call_done(call, zoe_gated_residual_norm_modulate(zoe_call_context(call), &a));
}

static void group_norm_silu(zoe_call *call)
{
    zoe_group_norm_args a = {.x = zoe_call_tensor(call, 0),
                             .groups = zoe_call_count(call, 1),
                             .weight = zoe_call_tensor(call, 2),
                             .bias = zoe_call_tensor(call, 3),
                             .eps = zoe_call_float(call, 4),
                             .silu = zoe_call_flag(call, 5),
                             .channels_last = zoe_call_flag(call, 6)};
    const size_t statistics[] = {a.x.shape[0], a.groups};
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    a.mean = zoe_call_new(call, a.x.dtype, 2, statistics);
    a.rstd = zoe_call_new(call, a.x.dtype, 2, statistics);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_group_norm_silu_workspace(ctx, &a));
    zoe_call_done(call, zoe_group_norm_silu(ctx, &a, work));
}

#define LAYER "Tensor x, Tensor? gamma=None, Tensor? beta=None, float eps=1e-05, int axes=1"
#define VECTORS                                                                                    \
    "Tensor? scale=None, Tensor? shift=None, Tensor? gamma=None, Tensor? beta=None, "              \
    "Tensor? group=None, float eps=1e-06, int kind=0, ScalarType? round_norm=None, "               \
    "ScalarType? maths=None"
#define RESIDUAL "Tensor x, Tensor h, Tensor? gate=None, Tensor? group=None, ScalarType? maths=None"
#define OPS(OP)                                                                                    \
    OP(layer_norm, "layer_norm(" LAYER ") -> (Tensor, Tensor, Tensor)")                            \
    OP(layer_norm_out, "layer_norm.out(" LAYER ", *, Tensor(a!) out) -> ()")                       \
    OP(layer_norm_modulate,                                                                        \
       "layer_norm_modulate(Tensor x, " VECTORS ", ScalarType? dtype=None) -> Tensor")             \
    OP(layer_norm_modulate_out,                                                                    \
       "layer_norm_modulate.out(Tensor x, " VECTORS ", *, Tensor(a!) out) -> ()")                  \
    OP(layer_norm_modulate_quant,                                                                  \
       "layer_norm_modulate_quant(Tensor x, " VECTORS ") -> (Tensor, Tensor)")                     \
    OP(layer_norm_modulate_backward,                                                               \
       "layer_norm_modulate_backward(Tensor grad, Tensor x, Tensor? scale, Tensor? gamma, "        \
       "Tensor? beta, float eps, int kind, int groups, bool vectors_wanted, bool affine_wanted) "  \
       "-> (Tensor, Tensor, Tensor, Tensor, Tensor)")                                              \
    OP(gated_residual, "gated_residual(" RESIDUAL ") -> Tensor")                                   \
    OP(gated_residual_out, "gated_residual.out(" RESIDUAL ", *, Tensor(a!) out) -> ()")            \
    OP(gated_residual_norm_modulate,                                                               \
       "gated_residual_norm_modulate(Tensor x, Tensor h, Tensor? gate=None, " VECTORS              \
       ", ScalarType? residual_maths=None, ScalarType? dtype=None) -> (Tensor, Tensor)")           \
    OP(group_norm_silu,                                                                            \
       "group_norm_silu(Tensor x, int groups, Tensor? weight=None, Tensor? bias=None, "            \
       "float eps=1e-05, bool silu=True, bool channels_last=False) -> (Tensor, Tensor, Tensor)")

ZOE_TORCH_OPS(OPS, zoe_torch_layer)
