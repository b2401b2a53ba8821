/* Norms by the root of a mean square, and what goes with them in one pass. */
#include "call.h"

static void check_rank(zoe_call *call, zoe_tensor t, int least, const char *name)
{
    if (t.rank < least)
        zoe_call_fail(call, "%s has rank %d, wanted at least %d", name, t.rank, least);
}

/* Arguments from `first` on: eps, order, round_gamma. */
static zoe_rms_norm_args rms_arguments(zoe_call *call, size_t first)
{
    return (zoe_rms_norm_args){
        .x = zoe_call_tensor(call, 0),
        .gamma = zoe_call_tensor(call, 1),
        .eps = zoe_call_float(call, first),
        .order = (zoe_rms_order)zoe_call_choice(call, first + 1, ZOE_RMS_PIXELNORM),
        .round_gamma = zoe_call_flag(call, first + 2)};
}

static void rms_norm(zoe_call *call)
{
    zoe_rms_norm_args a = rms_arguments(call, 2);
    check_rank(call, a.x, 1, "rms_norm: x");
    const int axes = a.gamma.rank > 0 ? a.gamma.rank : 1;
    a.y = zoe_call_new_like(call, zoe_call_dtype(call, 5, a.x.dtype), a.x);
    a.rstd = a.order == ZOE_RMS_PIXELNORM ? zoe_call_new_unwanted(call, ZOE_F32)
                                          : zoe_call_new_rows(call, ZOE_F32, a.x, axes);
    zoe_call_done(call, zoe_rms_norm(zoe_call_context(call), &a));
}

static void rms_norm_out(zoe_call *call)
{
    zoe_rms_norm_args a = rms_arguments(call, 2);
    a.y = zoe_call_target(call, 5);
    zoe_call_done(call, zoe_rms_norm(zoe_call_context(call), &a));
}

static zoe_add_rms_norm_args add_rms_arguments(zoe_call *call)
{
    return (zoe_add_rms_norm_args){.x = zoe_call_tensor(call, 0),
                                   .residual = zoe_call_tensor(call, 1),
                                   .gamma = zoe_call_tensor(call, 2),
                                   .eps = zoe_call_float(call, 3),
                                   .order = (zoe_rms_order)zoe_call_choice(call, 4, ZOE_RMS_T5),
                                   .round_gamma = zoe_call_flag(call, 5),
                                   .unrounded = zoe_call_flag(call, 6)};
}

static void add_rms_norm(zoe_call *call)
{
    zoe_add_rms_norm_args a = add_rms_arguments(call);
    check_rank(call, a.x, 1, "add_rms_norm: x");
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    a.rstd = zoe_call_new_rows(call, ZOE_F32, a.x, 1);
    a.sum = zoe_call_new_like(call, a.x.dtype, a.x);
    zoe_call_done(call, zoe_add_rms_norm(zoe_call_context(call), &a));
}

static void add_rms_norm_out(zoe_call *call)
{
    zoe_add_rms_norm_args a = add_rms_arguments(call);
    a.y = zoe_call_target(call, 7);
    a.sum = zoe_call_target(call, 8);
    zoe_call_done(call, zoe_add_rms_norm(zoe_call_context(call), &a));
}

/* The rounded sum, if there is something to add. */
static zoe_tensor new_sum(zoe_call *call, zoe_tensor x, zoe_tensor residual)
{
    return residual.dtype == ZOE_NONE ? zoe_call_new_unwanted(call, x.dtype)
                                      : zoe_call_new_like(call, x.dtype, x);
}

static void rms_norm_quant(zoe_call *call)
{
    zoe_rms_norm_quant_args a = {.x = zoe_call_tensor(call, 0),
                                 .scale = zoe_call_tensor(call, 1),
                                 .gamma = zoe_call_tensor(call, 2),
                                 .beta = zoe_call_tensor(call, 3),
                                 .offset = zoe_call_tensor(call, 4),
                                 .residual = zoe_call_tensor(call, 5),
                                 .eps = zoe_call_float(call, 6),
                                 .multiply = zoe_call_flag(call, 7)};
    check_rank(call, a.x, 1, "rms_norm_quant: x");
    a.y = zoe_call_new_like(call, ZOE_I8, a.x);
    a.rstd = zoe_call_new_rows(call, ZOE_F32, a.x, 1);
    a.sum = new_sum(call, a.x, a.residual);
    zoe_call_done(call, zoe_rms_norm_quant(zoe_call_context(call), &a));
}

static void rms_norm_dynamic_quant(zoe_call *call)
{
    zoe_rms_norm_dynamic_quant_args a = {.x = zoe_call_tensor(call, 0),
                                         .gamma = zoe_call_tensor(call, 1),
                                         .smooth = zoe_call_tensor(call, 2),
                                         .beta = zoe_call_tensor(call, 3),
                                         .residual = zoe_call_tensor(call, 4),
                                         .eps = zoe_call_float(call, 5)};
    check_rank(call, a.x, 1, "rms_norm_dynamic_quant: x");
    a.y = zoe_call_new_like(call, ZOE_I8, a.x);
    a.scale = zoe_call_new_rows(call, ZOE_F32, a.x, 1);
    a.sum = new_sum(call, a.x, a.residual);
    zoe_call_done(call, zoe_rms_norm_dynamic_quant(zoe_call_context(call), &a));
}

static void l2_norm(zoe_call *call)
{
    zoe_l2_norm_args a = {.x = zoe_call_tensor(call, 0),
                          .gamma = zoe_call_tensor(call, 1),
                          .bias = zoe_call_tensor(call, 2),
                          .clamp = zoe_call_float(call, 3),
                          .silu = zoe_call_flag(call, 4),
                          .strict_torch = zoe_call_flag(call, 5)};
    a.y = zoe_call_new_like(call, a.x.dtype, a.x);
    zoe_call_done(call, zoe_l2_norm(zoe_call_context(call), &a));
}

static void qk_norm_rope(zoe_call *call)
{
    zoe_qk_norm_rope_args a = {
        .q = {.x = zoe_call_tensor(call, 0), .gamma = zoe_call_tensor(call, 4)},
        .k = {.x = zoe_call_tensor(call, 1), .gamma = zoe_call_tensor(call, 5)},
        .cos = zoe_call_tensor(call, 2),
        .sin = zoe_call_tensor(call, 3),
        .eps = zoe_call_float(call, 6),
        .order = (zoe_rms_order)zoe_call_choice(call, 7, ZOE_RMS_CAST_THEN_MUL),
        .round_gamma = zoe_call_flag(call, 8),
        .pairing = (zoe_rotary_pairing)zoe_call_choice(call, 9, ZOE_ROTARY_INTERLEAVE)};
    a.q.y = zoe_call_new_like(call, a.q.x.dtype, a.q.x);
    a.k.y = a.k.x.dtype == ZOE_NONE ? zoe_call_new_unwanted(call, a.q.x.dtype)
                                    : zoe_call_new_like(call, a.k.x.dtype, a.k.x);
    zoe_call_done(call, zoe_qk_norm_rope(zoe_call_context(call), &a));
}

static void rms_norm_backward(zoe_call *call)
{
    zoe_rms_norm_backward_args a = {.dy = zoe_call_tensor(call, 0),
                                    .x = zoe_call_tensor(call, 1),
                                    .gamma = zoe_call_tensor(call, 2),
                                    .eps = zoe_call_float(call, 3),
                                    .order = (zoe_rms_order)zoe_call_choice(call, 4, ZOE_RMS_T5)};
    a.dx = zoe_call_new_like(call, a.x.dtype, a.x);
    a.dgamma = a.gamma.dtype == ZOE_NONE || !zoe_call_flag(call, 5)
                   ? zoe_call_new_unwanted(call, ZOE_F32)
                   : zoe_call_new_like(call, a.gamma.dtype, a.gamma);
    zoe_context *ctx = zoe_call_context(call);
    const zoe_workspace work = zoe_call_workspace(call, zoe_rms_norm_backward_workspace(ctx, &a));
    zoe_call_done(call, zoe_rms_norm_backward(ctx, &a, work));
}

#define ORDER "float eps=1e-06, int order=0, bool round_gamma=False"
#define ADD "Tensor x, Tensor residual, Tensor? gamma=None, " ORDER ", bool unrounded=False"
#define OPS(OP)                                                                                    \
    OP(rms_norm, "rms_norm(Tensor x, Tensor? gamma=None, " ORDER                                   \
                 ", ScalarType? dtype=None) -> (Tensor, Tensor)")                                  \
    OP(rms_norm_out,                                                                               \
       "rms_norm.out(Tensor x, Tensor? gamma=None, " ORDER ", *, Tensor(a!) out) -> ()")           \
    OP(rms_norm_backward, "rms_norm_backward(Tensor grad, Tensor x, Tensor? gamma, float eps, "    \
                          "int order, bool gamma_wanted) -> (Tensor, Tensor)")                     \
    OP(add_rms_norm, "add_rms_norm(" ADD ") -> (Tensor, Tensor, Tensor)")                          \
    OP(add_rms_norm_out, "add_rms_norm.out(" ADD ", *, Tensor(a!) out, Tensor(b!) sum) -> ()")     \
    OP(rms_norm_quant, "rms_norm_quant(Tensor x, Tensor scale, Tensor? gamma=None, Tensor? "       \
                       "beta=None, Tensor? offset=None, Tensor? residual=None, float eps=1e-06, "  \
                       "bool multiply=False) -> (Tensor, Tensor, Tensor)")                         \
    OP(rms_norm_dynamic_quant, "rms_norm_dynamic_quant(Tensor x, Tensor? gamma=None, Tensor? "     \
                               "smooth=None, Tensor? beta=None, Tensor? residual=None, "           \
                               "float eps=1e-06) -> (Tensor, Tensor, Tensor)")                     \
    OP(l2_norm, "l2_norm(Tensor x, Tensor? gamma=None, Tensor? bias=None, float clamp=0.0, "       \
                "bool silu=False, bool strict_torch=False) -> Tensor")                             \
    OP(qk_norm_rope, "qk_norm_rope(Tensor q, Tensor? k, Tensor cos, Tensor sin, Tensor? "          \
                     "q_gamma=None, Tensor? k_gamma=None, " ORDER ", int pairing=1) -> (Tensor, "  \
                     "Tensor)")

ZOE_TORCH_OPS(OPS, zoe_torch_rms)
