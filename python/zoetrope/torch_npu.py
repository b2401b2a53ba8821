"""Functions of torch_npu on any machine: import zoetrope.torch_npu as torch_npu

Names, arguments, defaults and results are those of torch_npu. Tensors on the CPU are computed by
torch.ops.zoetrope.*; a call with a tensor on an NPU goes to the machine's own torch_npu as it is, and so does every
name that is not here, where there is one. What torch_npu takes and we do not is refused by name. docs/PYTORCH.md has
the table.

Source of the signatures and meanings: Ascend/op-plugin, op_plugin/config/op_plugin_functions.yaml and docs/.
"""
import functools
import importlib
import inspect
import math
import sys

import torch

from . import MAX_RANK, Activation, AttentionLayout, Error, RmsOrder, RotaryPairing, SparseMode
from .torch_ops import ops

_MOST = 2147483647  # pre_tokens and next_tokens without bounds


# ---- where a call goes ----


def real():
    """The torch_npu of this machine, or None: it cannot be imported, or finds no NPU."""
    try:
        module = importlib.import_module("torch_npu")
    except (ImportError, OSError, RuntimeError):
        return None
    if module is sys.modules[__name__]:
        return None
    npu = getattr(torch, "npu", None)
    return module if npu is not None and npu.is_available() else None


def __getattr__(name):
    if not name.startswith("_"):
        module = real()
        if module is not None:
            return getattr(module, name)
    raise AttributeError(f"zoetrope.torch_npu has no {name}, and there is no torch_npu with an NPU to ask")


def _device(name, values):
    """The type of the device of the tensors among some values: an NPU if one of them is there."""
    found = "cpu"
    for value in values:
        here = found
        if isinstance(value, torch.Tensor):
            here = value.device.type
        elif isinstance(value, (list, tuple)):
            here = _device(name, value)
        if here == "npu":
            return here
        if here not in ("cpu", "meta"):
            raise Error(f"{name}: a tensor is on {here}, wanted cpu or npu")
    return found


functions = []  # names of what is here


def _function(ours):
    """A function of torch_npu: on an NPU that of the machine, otherwise ours. `input` is another name of `self`, as
    with torch's own functions."""
    name, renamed = ours.__name__, next(iter(inspect.signature(ours).parameters)) == "self"

    @functools.wraps(ours)
    def call(*args, **named):
        if _device(name, (*args, *named.values())) == "npu":
            module = real()
            if module is None:
                raise Error(f"{name}: a tensor is on an NPU, but torch_npu cannot be imported or finds none")
            if not hasattr(module, name):
                raise Error(f"{name}: a tensor is on an NPU, and the torch_npu of this machine has no such function")
            return getattr(module, name)(*args, **named)
        if renamed and "input" in named:
            named["self"] = named.pop("input")
        return ours(*args, **named)

    functions.append(name)
    return call


# ---- checks ----


def _shape(x):
    return "[" + ", ".join(str(n) for n in x.shape) + "]"


def _refuse(name, argument, value, wanted):
    found = "given" if isinstance(value, torch.Tensor) else repr(value)
    raise Error(f"{name}: {argument} is {found}, wanted {wanted}")


def _one_of(name, argument, value, choices):
    if value not in choices:
        _refuse(name, argument, value, "one of " + ", ".join(repr(c) for c in choices))
    return value


def _only(name, argument, value, default):
    """An argument of torch_npu that is not supported here."""
    if isinstance(value, torch.Tensor) or value != default:
        _refuse(name, argument, value, f"{default!r}: anything else is not supported on a CPU")


def _int8(name, argument, value):
    """A type of result as torch_npu takes it: torch's, or its number."""
    if value is not None and value != torch.int8 and value != 1:
        _refuse(name, argument, value, "torch.int8")


def _typed(name, x, *types, **others):
    """Parameters have one of these types, or that of x."""
    for argument, t in others.items():
        if t is not None and t.dtype != x.dtype and t.dtype not in types:
            wanted = " or ".join(str(d) for d in (x.dtype, *(d for d in types if d != x.dtype)))
            raise Error(f"{name}: {argument} is {t.dtype}, wanted {wanted}")


def _alike(name, **tensors):
    (first, x), *others = tensors.items()
    for argument, t in others:
        if t.shape != x.shape or t.dtype != x.dtype:
            raise Error(f"{name}: {argument} is {t.dtype} {_shape(t)}, wanted {x.dtype} {_shape(x)} as {first}")


def _suffix(name, argument, gamma, source, x):
    """How many axes of x a parameter has, which must be the last ones."""
    axes = gamma.dim()
    if axes < 1 or axes > x.dim() or gamma.shape != x.shape[x.dim() - axes:]:
        raise Error(f"{name}: {argument} is {_shape(gamma)}, wanted the last axes of {source}, {_shape(x)}")
    return axes


def _rows(x, axes=1):
    """x; [rows, elements of the last `axes` axes] if these are several, or more than the operators take."""
    if axes == 1 and x.dim() <= MAX_RANK:
        return x
    lead, last = x.shape[: x.dim() - axes], x.shape[x.dim() - axes:]
    return x.reshape(math.prod(lead), math.prod(last))


def _vector(v):
    return None if v is None else v.reshape(-1)


# ---- RMSNorm ----


def _rms(name, x, gamma, epsilon, order):
    axes = _suffix(name, "gamma", gamma, "self", x)
    _typed(name, x, torch.float32, gamma=gamma)
    y, rstd = ops.rms_norm(_rows(x, axes), _vector(gamma), epsilon, order)
    return y.reshape(x.shape), rstd.reshape(*x.shape[: x.dim() - axes], *(1,) * axes)


@_function
def npu_rms_norm(self, gamma, epsilon=1e-06):
    """y, and 1/rms with axes of 1 for those of gamma."""
    return _rms("npu_rms_norm", self, gamma, epsilon, RmsOrder.MUL_F32)


@_function
def npu_gemma_rms_norm(self, gamma, epsilon=1e-06):
    """The same, times 1 + gamma."""
    return _rms("npu_gemma_rms_norm", self, gamma, epsilon, RmsOrder.ONE_PLUS_GAMMA)


def _add_rms(name, x1, x2, gamma, epsilon):
    """y, 1/rms, sum."""
    _alike(name, x1=x1, x2=x2)
    axes = _suffix(name, "gamma", gamma, "x1", x1)
    _typed(name, x1, gamma=gamma)
    y, rstd, total = ops.add_rms_norm(_rows(x1, axes), _rows(x2, axes), _vector(gamma), epsilon)
    return y.reshape(x1.shape), rstd.reshape(*x1.shape[: x1.dim() - axes], *(1,) * axes), total.reshape(x1.shape)


@_function
def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-06):
    """y, 1/rms, x1 + x2. The statistics are those of the rounded sum."""
    return _add_rms("npu_add_rms_norm", x1, x2, gamma, epsilon)


@_function
def npu_add_rms_norm_v2(x1, x2, gamma, epsilon=1e-06):
    """The same into x1 (y) and x2 (sum); gives 1/rms."""
    y, rstd, total = _add_rms("npu_add_rms_norm_v2", x1, x2, gamma, epsilon)
    x1.copy_(y)
    x2.copy_(total)
    return rstd


@_function
def npu_add_rms_norm_cast(x1, x2, gamma, epsilon=1e-06):
    """y in f32, y, 1/rms, x1 + x2."""
    y, rstd, total = _add_rms("npu_add_rms_norm_cast", x1, x2, gamma, epsilon)
    wide, _ = ops.rms_norm(_rows(total, gamma.dim()), _vector(gamma), epsilon, RmsOrder.MUL_F32, False, torch.float32)
    return wide.reshape(x1.shape), y, rstd, total


@_function
def npu_rms_norm_quant(x, gamma, beta, scale, offset, epsilon=1e-06, *, dst_dtype=None):
    """int8 of (x / rms * gamma + beta) / scale + offset."""
    name = "npu_rms_norm_quant"
    _int8(name, "dst_dtype", dst_dtype)
    _typed(name, x, gamma=gamma, beta=beta)
    y, _, _ = ops.rms_norm_quant(_rows(x), _vector(scale), _vector(gamma), _vector(beta), _vector(offset), None,
                                 epsilon)
    return y.reshape(x.shape)


@_function
def npu_rms_norm_quant_v2(x, gamma, scale, *, offset=None, beta=None, epsilon=1e-06, div_mode=True,
                          dst_dtype=None):
    """The same, with a scale for each element or for all; and 1/rms, without elements unless x requires a gradient."""
    name = "npu_rms_norm_quant_v2"
    _int8(name, "dst_dtype", dst_dtype)
    _typed(name, x, gamma=gamma, beta=beta)
    y, rstd, _ = ops.rms_norm_quant(_rows(x), _vector(scale), _vector(gamma), _vector(beta), _vector(offset), None,
                                    epsilon, not div_mode)
    rstd = rstd.reshape(*x.shape[:-1], 1) if x.requires_grad else x.new_empty((0,), dtype=torch.float32)
    return y.reshape(x.shape), rstd


@_function
def npu_add_rms_norm_quant(x1, x2, gamma, scales1, zero_points1, beta=None, scales2=None, zero_points2=None, *,
                           axis=-1, epsilon=1e-06, div_mode=True, dst_type=None):
    """int8 by one scale, by the other (0 if that is not given), and x1 + x2. The norm is of the unrounded sum."""
    name = "npu_add_rms_norm_quant"
    _only(name, "axis", axis, -1)
    _int8(name, "dst_type", dst_type)
    _alike(name, x1=x1, x2=x2)
    axes = _suffix(name, "gamma", gamma, "x1", x1)
    _typed(name, x1, gamma=gamma, beta=beta)
    if scales2 is None and zero_points2 is not None:
        _refuse(name, "zero_points2", zero_points2, "None as scales2")
    flat, residual = _rows(x1, axes), _rows(x2, axes)

    def quantised(scale, offset):
        return ops.rms_norm_quant(flat, _vector(scale), _vector(gamma), _vector(beta), _vector(offset), residual,
                                  epsilon, not div_mode)

    y1, _, total = quantised(scales1, zero_points1)
    y2 = torch.zeros_like(y1) if scales2 is None else quantised(scales2, zero_points2)[0]
    return y1.reshape(x1.shape), y2.reshape(x1.shape), total.reshape(x1.shape)


@_function
def npu_add_rms_norm_dynamic_quant(x1, x2, gamma, *, smooth_scale1=None, smooth_scale2=None, beta=None,
                                   epsilon=1e-06, output_mask=None, y_dtype=None):
    """int8 by one smoothing, by the other, x1 + x2, and the scales of both. What was not asked for has no elements."""
    name = "npu_add_rms_norm_dynamic_quant"
    _int8(name, "y_dtype", y_dtype)
    _alike(name, x1=x1, x2=x2)
    _typed(name, x1, gamma=gamma, beta=beta, smooth_scale1=smooth_scale1, smooth_scale2=smooth_scale2)
    smooth = (smooth_scale1, smooth_scale2)
    wanted = output_mask or (True, smooth_scale1 is not None and smooth_scale2 is not None)
    if len(wanted) != 2 or not (wanted[0] or wanted[1]):
        _refuse(name, "output_mask", output_mask, "two, at least one of them True")
    for i in (0, 1):
        if output_mask and smooth[i] is not None and not wanted[i]:
            _refuse(name, f"smooth_scale{i + 1}", smooth[i], f"None, or output_mask[{i}] True")
    flat, residual, total = _rows(x1), _rows(x2), None
    quantised, scales = [], []
    for i in (0, 1):
        if not wanted[i]:
            quantised.append(x1.new_empty((0,), dtype=torch.int8))
            scales.append(x1.new_empty((0,), dtype=torch.float32))
            continue
        y, scale, total = ops.rms_norm_dynamic_quant(flat, gamma, smooth[i], beta, residual, epsilon)
        quantised.append(y.reshape(x1.shape))
        scales.append(scale.reshape(x1.shape[:-1]))
    return (*quantised, total.reshape(x1.shape), *scales)


# ---- other norms, quantisation ----


@_function
def npu_layer_norm_eval(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """LayerNorm over the last axes, which are normalized_shape exactly."""
    name = "npu_layer_norm_eval"
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    axes = len(shape)
    if axes < 1 or axes > input.dim() or tuple(input.shape[input.dim() - axes:]) != shape:
        _refuse(name, "normalized_shape", list(shape), f"the last axes of input, {_shape(input)}")
    for argument, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != shape:
            raise Error(f"{name}: {argument} is {_shape(t)}, wanted {list(shape)} as normalized_shape")
    _typed(name, input, torch.float32, weight=weight, bias=bias)
    return ops.layer_norm(_rows(input, axes), _vector(weight), _vector(bias), eps)[0].reshape(input.shape)


@_function
def npu_group_norm_silu(input, weight, bias, group, eps=1e-05):
    """silu of GroupNorm, and mean and 1/deviation [N, group] in the type of input."""
    _typed("npu_group_norm_silu", input, torch.float32, weight=weight, bias=bias)
    flat = input if input.dim() <= MAX_RANK else input.flatten(2)
    y, mean, rstd = ops.group_norm_silu(flat, group, weight, bias, eps)
    return y.reshape(input.shape), mean, rstd


@_function
def npu_dynamic_quant(input, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken",
                      dst_type_max=0.0):
    """int8 with a scale for each row, and those scales."""
    name = "npu_dynamic_quant"
    _only(name, "group_index", group_index, None)
    _int8(name, "dst_type", dst_type)
    _only(name, "quant_mode", quant_mode, "pertoken")
    _only(name, "dst_type_max", dst_type_max, 0.0)
    smooth = None if smooth_scales is None else smooth_scales.to(torch.float32)
    q, scale = ops.dynamic_quant(_rows(input), smooth)
    return q.reshape(input.shape), scale.reshape(input.shape[:-1])


@_function
def npu_quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None, output_dtype=None, x1_dtype=None,
                     x2_dtype=None, pertoken_scale_dtype=None, scale_dtype=None, group_sizes=None, y_scale=None):
    """int8 [..., m, k] times int8 [k, n], exact, times the scales, plus bias; an int32 bias joins the exact sum."""
    name = "npu_quant_matmul"
    for argument, value in (("x1_dtype", x1_dtype), ("x2_dtype", x2_dtype), ("scale_dtype", scale_dtype),
                            ("pertoken_scale_dtype", pertoken_scale_dtype), ("group_sizes", group_sizes),
                            ("y_scale", y_scale)):
        _only(name, argument, value, None)
    numbers = {None: torch.int8, 1: torch.int8, 5: torch.float16, 15: torch.bfloat16}
    dtype = numbers.get(output_dtype, output_dtype)
    _one_of(name, "output_dtype", dtype, (torch.int8, torch.float16, torch.bfloat16))
    for argument, t, types in (("x1", x1, (torch.int8,)), ("x2", x2, (torch.int8,)),
                               ("scale", scale, (torch.float32, torch.bfloat16))):
        if t.dtype not in types:
            raise Error(f"{name}: {argument} is {t.dtype}, wanted " + " or ".join(map(str, types)))
    if x1.dim() < 2 or x2.dim() != 2:
        raise Error(f"{name}: x1 is {_shape(x1)} and x2 {_shape(x2)}, wanted [..., m, k] and [k, n] without batches")
    if offset is not None and (dtype != torch.int8 or pertoken_scale is not None):
        _refuse(name, "offset", offset, "None, or results of torch.int8 without pertoken_scale")
    y = ops.linear_int8(x1.reshape(math.prod(x1.shape[:-1]), x1.shape[-1]), x2.t(), _vector(pertoken_scale),
                        _vector(scale).to(torch.float32), _vector(offset), _vector(bias), Activation.NONE, dtype)
    return y.reshape(*x1.shape[:-1], x2.shape[1])


# ---- rotary embedding ----

_PAIRINGS = {"half": RotaryPairing.HALF, "interleave": RotaryPairing.INTERLEAVE, "quarter": RotaryPairing.QUARTER}
# torch.compile of older versions cannot look into enumerations.
_LAYOUTS = {name: int(layout) for name, layout in AttentionLayout.__members__.items()}
_MODES = tuple(int(m) for m in SparseMode)
_HEADS = {"BSND": 2, "SBND": 2, "BNSD": 1, "TND": 1}  # axis of the heads


def _rotary_tables(name, source, x, **tables):
    for argument, t in tables.items():
        if t.dim() != x.dim():
            raise Error(f"{name}: {argument} is {_shape(t)}, wanted as many axes as {source}, {_shape(x)}")
    _alike(name, **tables)


@_function
def npu_rotary_mul(self, r1, r2, rotary_mode="half", rotate=None):
    """self * r1 + turned(self) * r2. Axes of r1 and r2 are those of self, or 1; they are rounded to its type."""
    name = "npu_rotary_mul"
    _one_of(name, "rotary_mode", rotary_mode, tuple(_PAIRINGS))
    _only(name, "rotate", rotate, None)
    _rotary_tables(name, "self", self, r1=r1, r2=r2)
    return ops.rotary_mul(self, r1, r2, _PAIRINGS[rotary_mode], False, True)


@_function
def npu_apply_rotary_pos_emb(query, key, cos, sin, layout="BSND", rotary_mode="half"):
    """Turns query and key in place, and gives both."""
    name = "npu_apply_rotary_pos_emb"
    _one_of(name, "layout", layout, tuple(_HEADS))
    _one_of(name, "rotary_mode", rotary_mode, tuple(_PAIRINGS))
    if query.dim() != len(layout):
        raise Error(f"{name}: query is {_shape(query)}, wanted the axes {layout}")
    heads = _HEADS[layout]
    if key.dim() != query.dim() or any(key.shape[i] != n for i, n in enumerate(query.shape) if i != heads):
        raise Error(f"{name}: key is {_shape(key)}, wanted {_shape(query)} as query but for axis {heads}")
    _typed(name, query, key=key, cos=cos, sin=sin)
    _rotary_tables(name, "query", query, cos=cos, sin=sin)
    if cos.shape[heads] != 1:
        raise Error(f"{name}: cos is {_shape(cos)}, wanted 1 in axis {heads} of the heads")
    for x in (query, key):
        x.copy_(ops.rotary_mul(x, cos, sin, _PAIRINGS[rotary_mode]))
    return query, key


# ---- attention ----


def _lengths(lengths, device):
    if lengths is None:
        return None
    if isinstance(lengths, torch.Tensor):
        return lengths.reshape(-1).to(torch.int64)
    return torch.tensor(list(lengths), dtype=torch.int64, device=device)


def _heads(name, argument, given, layout, source, x):
    """The number of heads must be that of the layout's axis."""
    if given < 1:
        _refuse(name, argument, given, "at least 1")
    axes = layout.partition("_")[0]
    if x.dim() != len(axes):
        raise Error(f"{name}: {source} is {_shape(x)}, wanted the axes {axes}")
    if axes != "BSH" and x.shape[axes.index("N")] != given:
        raise Error(f"{name}: {argument} is {given}, but {source} is {_shape(x)} in layout {axes}")


def _attention(name, names, query, key, value, mask, q_lengths, kv_lengths, heads, kv_heads, scale, pre_tokens,
               next_tokens, layout, sparse_mode, inner_precise, lse_wanted):
    """What both forms of fused attention do; `names` are those of the heads' arguments."""
    _one_of(name, "input_layout", layout, tuple(_LAYOUTS))
    _one_of(name, "sparse_mode", sparse_mode, _MODES)
    _one_of(name, "inner_precise", inner_precise, (0, 1, 2, 3))  # ours is always the most precise
    _heads(name, names[0], heads, layout, "query", query)
    kv_heads = kv_heads or heads
    _heads(name, names[1], kv_heads, layout, "key", key)
    axes = layout.partition("_")[0]
    if "T" not in axes and query.shape[axes.index("S")] == 1:
        # An NPU takes its decoding kernel then, which has no bands and takes masks [B, keys].
        pre_tokens = next_tokens = _MOST
        mask = None if sparse_mode >= SparseMode.CAUSAL else mask
        sparse_mode = SparseMode.MASK if mask is not None or sparse_mode == SparseMode.MASK else SparseMode.BAND
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None]
    return ops.fused_infer_attention_score(
        query, key, value, mask, _lengths(q_lengths, query.device), _lengths(kv_lengths, query.device), heads,
        kv_heads, scale, _LAYOUTS[layout], sparse_mode, pre_tokens, next_tokens, lse_wanted, True)


def _others(name, table, given):
    """Arguments that stand in a table of what is not supported."""
    for argument, value in given.items():
        if argument not in table:
            raise TypeError(f"{name}() got an unexpected keyword argument '{argument}'")
        _only(name, argument, value, table[argument])


def _refusing(table):
    """Lets a function that takes these as **others show them as its own."""
    def wrap(function):
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, v in table.items()]
        function.__signature__ = signature.replace(parameters=own + more)
        return function

    return wrap


_REFUSED = dict.fromkeys(
    "pse_shift dequant_scale1 quant_scale1 dequant_scale2 quant_scale2 quant_offset2 antiquant_scale antiquant_offset "
    "key_antiquant_scale key_antiquant_offset value_antiquant_scale value_antiquant_offset block_table "
    "query_padding_size kv_padding_size key_shared_prefix value_shared_prefix actual_shared_prefix_len query_rope "
    "key_rope key_rope_antiquant_scale".split())
_REFUSED.update(block_size=0, antiquant_mode=0, key_antiquant_mode=0, value_antiquant_mode=0)


@_function
@_refusing(_REFUSED)
def npu_fused_infer_attention_score(query, key, value, *, atten_mask=None, actual_seq_lengths=None,
                                    actual_seq_lengths_kv=None, num_heads=1, scale=1.0, pre_tokens=_MOST,
                                    next_tokens=_MOST, input_layout="BSH", num_key_value_heads=0, sparse_mode=0,
                                    inner_precise=0, softmax_lse_flag=False, **others):
    """Attention, and with softmax_lse_flag the logarithms of its sums (else no elements). scale is 1 unless given."""
    name = "npu_fused_infer_attention_score"
    _others(name, _REFUSED, others)
    return _attention(name, ("num_heads", "num_key_value_heads"), query, key, value, atten_mask, actual_seq_lengths,
                      actual_seq_lengths_kv, num_heads, num_key_value_heads, scale, pre_tokens, next_tokens,
                      input_layout, sparse_mode, inner_precise, softmax_lse_flag)


_REFUSED_V2 = dict.fromkeys(
    "query_rope key_rope pse_shift block_table dequant_scale_query dequant_scale_key dequant_offset_key "
    "dequant_scale_value dequant_offset_value dequant_scale_key_rope quant_scale_out quant_offset_out quant_scale_p "
    "learnable_sink query_dtype key_dtype value_dtype query_rope_dtype key_rope_dtype key_shared_prefix_dtype "
    "value_shared_prefix_dtype dequant_scale_query_dtype dequant_scale_key_dtype dequant_scale_value_dtype "
    "dequant_scale_key_rope_dtype out_dtype".split())
_REFUSED_V2.update(block_size=0, query_quant_mode=0, key_quant_mode=0, value_quant_mode=0)


@_function
@_refusing(_REFUSED_V2)
def npu_fused_infer_attention_score_v2(query, key, value, *, atten_mask=None, actual_seq_qlen=None,
                                       actual_seq_kvlen=None, num_query_heads=1, num_key_value_heads=0,
                                       softmax_scale=1.0, pre_tokens=_MOST, next_tokens=_MOST, input_layout="BSH",
                                       sparse_mode=0, inner_precise=0, return_softmax_lse=False, **others):
    """The same by its newer names."""
    name = "npu_fused_infer_attention_score_v2"
    _others(name, _REFUSED_V2, others)
    return _attention(name, ("num_query_heads", "num_key_value_heads"), query, key, value, atten_mask, actual_seq_qlen,
                      actual_seq_kvlen, num_query_heads, num_key_value_heads, softmax_scale, pre_tokens, next_tokens,
                      input_layout, sparse_mode, inner_precise, return_softmax_lse)


@_function
def npu_attention_update(lse, local_out, update_type):
    """Attention over all keys from that over parts of them: outs [M, D] and lses [M]. The second result is None with
    update_type 0, as torch_npu gives it."""
    name = "npu_attention_update"
    _one_of(name, "update_type", update_type, (0, 1))
    if len(lse) != len(local_out) or not 1 <= len(lse) <= 16:
        raise Error(f"{name}: {len(lse)} of lse and {len(local_out)} of local_out, wanted as many of both, 1 to 16")
    _alike(name, **{f"lse[{i}]": t for i, t in enumerate(lse)})
    _alike(name, **{f"local_out[{i}]": t for i, t in enumerate(local_out)})
    if lse[0].shape != local_out[0].shape[:-1]:
        raise Error(f"{name}: lse is {_shape(lse[0])}, wanted local_out, {_shape(local_out[0])}, but for the last axis")
    o, total = ops.attention_merge(torch.stack(list(local_out)), torch.stack(list(lse))[..., None], True)
    return o, total[..., 0] if update_type == 1 else None


@_function
def npu_ring_attention_update(prev_attn_out, prev_softmax_max, prev_softmax_sum, cur_attn_out, cur_softmax_max,
                              cur_softmax_sum, *, actual_seq_qlen=None, input_layout="SBH", input_softmax_layout=""):
    """Two parts that keep maximum and sum apart, eight copies of each: out, maximum, sum."""
    name = "npu_ring_attention_update"
    _one_of(name, "input_layout", input_layout, ("SBH", "TND"))
    _alike(name, prev_attn_out=prev_attn_out, cur_attn_out=cur_attn_out)
    _alike(name, prev_softmax_max=prev_softmax_max, prev_softmax_sum=prev_softmax_sum, cur_softmax_max=cur_softmax_max,
           cur_softmax_sum=cur_softmax_sum)
    statistics = prev_softmax_max.shape
    if prev_attn_out.dim() != 3 or prev_softmax_max.dtype != torch.float32 or statistics[-1:] != (8,):
        raise Error(f"{name}: prev_attn_out is {_shape(prev_attn_out)} and prev_softmax_max {prev_softmax_max.dtype} "
                    f"{_shape(prev_softmax_max)}, wanted 3 axes, and torch.float32 with 8 in the last axis")
    if input_layout == "TND":
        if actual_seq_qlen is None:
            _refuse(name, "actual_seq_qlen", None, "the ends of the sequences in layout TND")
        _one_of(name, "input_softmax_layout", input_softmax_layout, ("TND",))
        views = prev_attn_out, cur_attn_out
    else:
        _one_of(name, "input_softmax_layout", input_softmax_layout, ("", "SBH"))
        _only(name, "actual_seq_qlen", actual_seq_qlen, None)
        S, B, H = prev_attn_out.shape
        N = statistics[1] if len(statistics) == 4 else 0
        if N < 1 or H % N != 0:
            raise Error(f"{name}: prev_softmax_max is {_shape(prev_softmax_max)}, wanted [{B}, heads, {S}, 8]")
        views = (t.reshape(S, B, N, H // N).permute(1, 2, 0, 3) for t in (prev_attn_out, cur_attn_out))
    previous, current = views
    o, top, total = ops.attention_update(previous, prev_softmax_max, prev_softmax_sum, current, cur_softmax_max,
                                         cur_softmax_sum)
    if input_layout == "SBH":
        o = o.permute(2, 0, 1, 3).reshape(prev_attn_out.shape)
    return o, top, total


# ---- activations ----


def _halves(name, x, dim):
    """x with one axis of pairs of halves, folded so that the operators take it; that axis; the shape of a half."""
    if not -x.dim() <= dim < x.dim():
        _refuse(name, "dim", dim, f"an axis of self, {_shape(x)}")
    dim = dim % x.dim()
    n = x.shape[dim]
    if n % 2 != 0:
        raise Error(f"{name}: axis {dim} of self has {n} elements, wanted an even number")
    half = (*x.shape[:dim], n // 2, *x.shape[dim + 1:])
    if x.dim() > MAX_RANK:
        before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1:])
        x, dim = x.reshape((before, n) if dim == x.dim() - 1 else (before, n, after)), 1
    return x, dim, half


@_function
def npu_swiglu(self, dim=-1):
    """silu of the first half times the second one."""
    x, dim, half = _halves("npu_swiglu", self, dim)
    return ops.swiglu(x, dim).reshape(half)


@_function
def npu_geglu(self, dim=-1, approximate=1, activate_left=False):
    """gelu of one half times the other one, and that gelu; approximate: 1 by tanh, 0 by erf."""
    _one_of("npu_geglu", "approximate", approximate, (0, 1))
    x, dim, half = _halves("npu_geglu", self, dim)
    left, right = x.chunk(2, dim)
    gate, up = (left, right) if activate_left else (right, left)
    activation = Activation.GELU_TANH if approximate == 1 else Activation.GELU_ERF
    return ops.glu(gate, up, activation).reshape(half), ops.activate(gate, activation).reshape(half)


def _activated(x, activation):
    return ops.activate(_rows(x), activation).reshape(x.shape)


@_function
def npu_fast_gelu(self):
    """self * sigmoid(1.702 self), which is no GELU."""
    return _activated(self, Activation.GELU_SIGMOID)


@_function
def npu_gelu(self, *, approximate="none"):
    _one_of("npu_gelu", "approximate", approximate, ("none", "tanh"))
    return _activated(self, Activation.GELU_TANH if approximate == "tanh" else Activation.GELU_ERF)


@_function
def npu_silu(self):
    return _activated(self, Activation.SILU)


__all__ = sorted(functions)
