"""The operators in PyTorch: importing this defines torch.ops.zoetrope.*

The kernels are C (libzoetrope-torch.so). Here stands what only Python can tell torch: which shapes and types
results have (so that torch.compile can plan with them), and gradients. docs/PYTORCH.md lists the operators.
"""
import os

import torch

from . import Activation, AttentionLayout, NormKind, RmsOrder, RotaryPairing, SparseMode  # noqa: F401

torch.ops.load_library(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libzoetrope-torch.so"))
ops = torch.ops.zoetrope


def fake(name):
    """Names the function that tells the results of an operator without computing them."""
    return torch.library.register_fake("zoetrope::" + name)


def like(x, dtype=None):
    return x.new_empty(x.shape, dtype=dtype or x.dtype)


def rows(x, axes=1, dtype=torch.float32):
    torch._check(x.dim() >= axes, lambda: f"x has rank {x.dim()}, wanted at least {axes}")
    return x.new_empty(x.shape[: x.dim() - axes], dtype=dtype)


def unwanted(x, dtype=torch.float32):
    return x.new_empty((0,), dtype=dtype)


# ---- results ----


@fake("rms_norm")
def _(x, gamma=None, eps=1e-6, order=0, round_gamma=False, dtype=None):
    axes = max(gamma.dim(), 1) if gamma is not None else 1
    return like(x, dtype), unwanted(x) if order == RmsOrder.PIXELNORM else rows(x, axes)


@fake("rms_norm_backward")
def _(grad, x, gamma, eps, order, gamma_wanted):
    return like(x), like(gamma) if gamma is not None and gamma_wanted else unwanted(x)


@fake("add_rms_norm")
def _(x, residual, gamma=None, eps=1e-6, order=0, round_gamma=False, unrounded=False):
    return like(x), rows(x), like(x)


@fake("rms_norm_quant")
def _(x, scale, gamma=None, beta=None, offset=None, residual=None, eps=1e-6, multiply=False):
    return like(x, torch.int8), rows(x), unwanted(x, x.dtype) if residual is None else like(x)


@fake("rms_norm_dynamic_quant")
def _(x, gamma=None, smooth=None, beta=None, residual=None, eps=1e-6):
    return like(x, torch.int8), rows(x), unwanted(x, x.dtype) if residual is None else like(x)


@fake("l2_norm")
def _(x, gamma=None, bias=None, clamp=0.0, silu=False, strict_torch=False):
    return like(x)


@fake("qk_norm_rope")
def _(q, k, cos, sin, q_gamma=None, k_gamma=None, eps=1e-6, order=0, round_gamma=False, pairing=1):
    return like(q), unwanted(q, q.dtype) if k is None else like(k)


@fake("layer_norm")
def _(x, gamma=None, beta=None, eps=1e-5, axes=1):
    return like(x), rows(x, max(axes, 1)), rows(x, max(axes, 1))


@fake("layer_norm_modulate")
def _(x, scale=None, shift=None, gamma=None, beta=None, group=None, eps=1e-6, kind=0, round_norm=None,
      maths=None, dtype=None):
    return like(x, dtype)


@fake("layer_norm_modulate_quant")
def _(x, scale=None, shift=None, gamma=None, beta=None, group=None, eps=1e-6, kind=0, round_norm=None,
      maths=None):
    return like(x, torch.int8), rows(x)


@fake("layer_norm_modulate_backward")
def _(grad, x, scale, gamma, beta, eps, kind, groups, vectors_wanted, affine_wanted):
    vectors = (groups, x.shape[-1]) if vectors_wanted else (0,)
    affine = (x.shape[-1],) if affine_wanted else (0,)
    return like(x), *(x.new_empty(s, dtype=torch.float32) for s in (vectors, vectors, affine, affine))


@fake("gated_residual")
def _(x, h, gate=None, group=None, maths=None):
    return like(x)


@fake("gated_residual_norm_modulate")
def _(x, h, gate=None, scale=None, shift=None, gamma=None, beta=None, group=None, eps=1e-6, kind=0,
      round_norm=None, maths=None, residual_maths=None, dtype=None):
    return like(x), like(x, dtype)


@fake("group_norm_silu")
def _(x, groups, weight=None, bias=None, eps=1e-5, silu=True, channels_last=False):
    return like(x), x.new_empty((x.shape[0], groups)), x.new_empty((x.shape[0], groups))


@fake("rotary_mul")
def _(x, cos, sin, pairing=0, half_tables=False, trig_in_x_dtype=False):
    return like(x)


@fake("rotary_mul_backward")
def _(grad, cos, sin, pairing, half_tables, trig_in_x_dtype):
    return like(grad)


@fake("attention")
def _(q, k, v, bias=None, scale=1.0, last_count=1, round_scores=False):
    return like(q), unwanted(q) if round_scores else q.new_empty((*q.shape[:2], 1), dtype=torch.float32)


@fake("fused_infer_attention_score")
def _(q, k, v, mask=None, q_lengths=None, kv_lengths=None, heads=0, kv_heads=0, scale=1.0, layout=2,
      sparse_mode=0, pre_tokens=2147483647, next_tokens=2147483647, lse_wanted=False, lse_plus_inf=False):
    source, _, target = AttentionLayout(layout).name.partition("_")
    width = v.shape[-1] // (kv_heads or heads) if source == "BSH" else v.shape[-1]
    if source == "BSH":
        sizes = {"B": q.shape[0], "S": q.shape[1], "N": heads}
    else:
        sizes = dict(zip(source, q.shape))
    sizes["D"] = width
    target = target or source
    shape = (*q.shape[:2], heads * width) if target == "BSH" else tuple(sizes[axis] for axis in target)
    tokens = ("T", "N") if "T" in source else ("B", "N", "S")
    lse = (*(sizes[axis] for axis in tokens), 1) if lse_wanted else (0,)
    return q.new_empty(shape), q.new_empty(lse, dtype=torch.float32)


@fake("attention_merge")
def _(outs, lses, lse_plus_inf=False):
    return outs.new_empty(outs.shape[1:]), lses.new_empty(lses.shape[1:], dtype=torch.float32)


@fake("attention_update")
def _(prev_o, prev_max, prev_sum, cur_o, cur_max, cur_sum):
    return like(prev_o), like(prev_max, torch.float32), like(prev_sum, torch.float32)


@fake("activate")
def _(x, activation):
    return like(x)


@fake("glu")
def _(gate, up, activation=1, round_steps=False):
    return like(gate)


@fake("swiglu")
def _(x, dim=-1):
    shape = list(x.shape)
    shape[dim] //= 2
    return x.new_empty(shape)


@fake("softmax")
def _(x):
    return like(x)


@fake("dynamic_quant")
def _(x, smooth=None, group=0):
    scale = rows(x) if group == 0 else x.new_empty((*x.shape[:-1], -(-x.shape[-1] // group)), dtype=torch.float32)
    return like(x, torch.int8), scale


@fake("linear")
def _(x, w, bias=None, gate=None, residual=None, activation=0, dtype=None):
    return x.new_empty((*x.shape[:-1], w.shape[-2]), dtype=dtype or x.dtype)


@fake("linear_int8")
def _(x, w, x_scale=None, scale=None, offset=None, bias=None, activation=0, dtype=None):
    return x.new_empty((x.shape[0], w.shape[0]), dtype=dtype or torch.float32)


# ---- what stands before the kernels ----

# Torch calls these for each call outside of inference mode, in Python, so they do what is needed and no more:
# torch.library.register_autograd would take twice as long to find that nothing wants a gradient.

_library = torch.library.Library("zoetrope", "IMPL")
_any_requires_grad, _is_grad_enabled = torch._C._any_requires_grad, torch._C.is_grad_enabled
_below_autograd, _below_all = torch._C._after_autograd_keyset, torch._C._after_ADInplaceOrView_keyset
_increment_version = torch.autograd.graph.increment_version


def writes(name):
    """An operator whose keyword-only tensors are outputs: autograd is told that they have changed."""
    fake(name)(lambda *args, **outputs: None)
    base, overload = name.split(".")
    redispatch = getattr(getattr(ops, base), overload)._handle.redispatch_boxed

    def kernel(keyset, *args, **outputs):
        if _is_grad_enabled() and _any_requires_grad(*args, **outputs):
            raise RuntimeError(f"zoetrope: {name} has no gradient, but an argument wants one")
        _increment_version(outputs.values())
        return redispatch(keyset & _below_all, *args, **outputs)

    _library.impl(name, kernel, "ADInplaceOrView", with_keyset=True)


for _name in ("rms_norm", "add_rms_norm", "layer_norm", "layer_norm_modulate", "gated_residual", "rotary_mul",
              "activate"):
    writes(_name + ".out")


# ---- gradients ----


def gradient(name, keep, backward):
    """keep(ctx, all arguments, results) after a call that wants gradients, backward(ctx, *grads) for them."""
    op = getattr(ops, name).default
    redispatch, defaults = op._handle.redispatch_boxed, [a.default_value for a in op._schema.arguments]

    def forward(ctx, keyset, *args):
        with torch._C._AutoDispatchBelowAutograd():
            results = redispatch(keyset & _below_autograd, *args)
        keep(ctx, args, results)
        return results

    members = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *g: (None, *backward(ctx, *g)))}
    apply = type("zoetrope_" + name, (torch.autograd.Function,), members).apply

    def kernel(keyset, *args):
        if _is_grad_enabled() and _any_requires_grad(*args):
            return apply(keyset, *args, *defaults[len(args):])
        return redispatch(keyset & _below_autograd, *args)

    _library.impl(name, kernel, "Autograd", with_keyset=True)


def refuse(what):
    raise NotImplementedError(f"zoetrope: there is no gradient {what}")


def wants(ctx, first, last):
    """Do the arguments from first to last - 1 want a gradient? Before them stands the set of keys."""
    return ctx.needs_input_grad[first + 1:last + 1]


def keep_rms_norm(ctx, inputs, output):
    x, gamma, ctx.eps, ctx.order, _, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, gamma)


def rms_norm_backward(ctx, grad, _):
    x, gamma = ctx.saved_tensors
    if ctx.order == RmsOrder.PIXELNORM:
        refuse("of rms_norm in the order of PixelNorm")
    if grad is None:
        return (None,) * 6
    wanted = gamma is not None and wants(ctx, 1, 2)[0]
    dx, dgamma = ops.rms_norm_backward(grad, x, gamma, ctx.eps, ctx.order, wanted)
    return dx, dgamma if wanted else None, None, None, None, None


def as_groups(vector, x):
    """A vector that goes with the rows of x as [G, D] for G runs of neighbouring rows; None if it is not so."""
    if vector is None or vector.dim() == 1:
        return None if vector is None else vector.reshape(1, -1)
    lead = x.shape[:-1]
    shape = tuple(vector.shape[:-1]) + (1,) * (x.dim() - vector.dim())
    own = max((i + 1 for i, n in enumerate(shape) if n != 1), default=0)
    if shape[:own] != tuple(lead[:own]):
        return None
    return vector.reshape(-1, vector.shape[-1])


def expanded(vector, x):
    """The same with a row for each row of x."""
    if vector.dim() > 1:
        vector = vector.reshape(*vector.shape[:-1], *(1,) * (x.dim() - vector.dim()), vector.shape[-1])
    return vector.expand(x.shape).reshape(-1, x.shape[-1])


def reduced(grad, vector, x):
    """The gradient by a vector from those by its rows: [G, D] to the vector's shape and type."""
    if grad.numel() != vector.numel():
        shape = vector.shape
        if vector.dim() > 1:
            shape = (*shape[:-1], *(1,) * (x.dim() - vector.dim()), shape[-1])
        grad = grad.reshape(x.shape).sum_to_size(shape)
    return grad.reshape(vector.shape).to(vector.dtype)


def norm_modulate_backward(grad, x, scale, shift, gamma, beta, eps, kind, needs):
    """Gradients by x, scale, shift, gamma, beta, of which `needs` says which are wanted."""
    given = [v for v in (scale, shift) if v is not None]
    forms = [as_groups(v, x) for v in given]
    alike = all(f is not None and f.shape == forms[0].shape for f in forms)
    if not alike:  # such as a scale for all and a shift for each sample
        forms = [expanded(v, x) for v in given]
    groups = forms[0].shape[0] if forms else 1
    vectors, affine = needs[1] or needs[2], needs[3] or needs[4]
    dx, dscale, dshift, dgamma, dbeta = ops.layer_norm_modulate_backward(
        grad, x, forms[0] if scale is not None else None, gamma, beta, eps, kind, groups, vectors, affine)
    return (dx, reduced(dscale, scale, x) if needs[1] else None, reduced(dshift, shift, x) if needs[2] else None,
            dgamma.to(gamma.dtype) if needs[3] else None, dbeta.to(beta.dtype) if needs[4] else None)


def keep_layer_norm_modulate(ctx, inputs, output):
    x, scale, shift, gamma, beta, group, ctx.eps, ctx.kind = inputs[:8]
    ctx.grouped = group is not None
    ctx.save_for_backward(x, scale, shift, gamma, beta)


def layer_norm_modulate_backward(ctx, grad):
    if ctx.grouped:
        refuse("of layer_norm_modulate with `group`")
    found = norm_modulate_backward(grad, *ctx.saved_tensors, ctx.eps, ctx.kind, wants(ctx, 0, 5))
    return *found, *(None,) * 6


def keep_layer_norm(ctx, inputs, output):
    x, gamma, beta, ctx.eps, ctx.axes = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, gamma, beta)


def layer_norm_backward(ctx, grad, *_):
    x, gamma, beta = ctx.saved_tensors
    if grad is None:
        return (None,) * 5
    lead, last = x.shape[: x.dim() - max(ctx.axes, 1)], x.shape[x.dim() - max(ctx.axes, 1):]
    flat = [None if v is None else v.reshape(-1) for v in (gamma, beta)]
    needs = (True, False, False, *wants(ctx, 1, 3))
    width = max(last.numel(), 1)
    found = norm_modulate_backward(grad.reshape(-1, width), x.reshape(-1, width), None, None, *flat, ctx.eps,
                                   NormKind.LAYER, needs)
    dx, dgamma, dbeta = found[0], found[3], found[4]
    return (dx.reshape(*lead, *last), None if dgamma is None else dgamma.reshape(last),
            None if dbeta is None else dbeta.reshape(last), None, None)


def keep_rotary_mul(ctx, inputs, output):
    _, cos, sin, *ctx.form = inputs
    ctx.save_for_backward(cos, sin)


def rotary_mul_backward(ctx, grad):
    if any(wants(ctx, 1, 3)):
        refuse("of rotary_mul by its tables")
    return ops.rotary_mul_backward(grad, *ctx.saved_tensors, *ctx.form), *(None,) * 5


gradient("rms_norm", keep_rms_norm, rms_norm_backward)
gradient("layer_norm", keep_layer_norm, layer_norm_backward)
gradient("layer_norm_modulate", keep_layer_norm_modulate, layer_norm_modulate_backward)
gradient("rotary_mul", keep_rotary_mul, rotary_mul_backward)


def without_gradient(name):
    def keep(ctx, inputs, output):
        pass

    def backward(ctx, *grads):
        refuse("of " + name)

    gradient(name, keep, backward)


for _name in ("rms_norm_backward", "add_rms_norm", "rms_norm_quant", "rms_norm_dynamic_quant", "l2_norm",
              "qk_norm_rope", "layer_norm_modulate_quant", "layer_norm_modulate_backward", "gated_residual",
              "gated_residual_norm_modulate", "group_norm_silu", "rotary_mul_backward", "attention",
              "fused_infer_attention_score", "attention_merge", "attention_update", "activate", "glu", "swiglu",
              "softmax", "dynamic_quant", "linear", "linear_int8"):
    without_gradient(_name)
