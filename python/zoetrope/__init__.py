"""Zoetrope's fused operators for NumPy, through ctypes. For PyTorch: import zoetrope.torch_ops.

Arrays are float32, float16, or bfloat16 of ml_dtypes; results are new arrays of the type of the first one, or
`out`. Arrays whose last axis is not dense, or with other strides than positive ones, are copied.
What each operator computes stands in the headers include/zoetrope/op/*.h.
"""
import ctypes
import enum
import importlib
import os
import threading

import numpy

__version__ = "0.1.0"


def __getattr__(name):
    """patch and unpatch need torch, which importing this module does not."""
    if name in ("patch", "unpatch"):
        module = importlib.import_module(".patch", __name__)
        return module if name == "patch" else module.unpatch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class RmsOrder(enum.IntEnum):
    """When RMSNorm rounds; see include/zoetrope/op/rms_norm.h."""

    MUL_F32 = 0
    CAST_THEN_MUL = 1
    ONE_PLUS_GAMMA = 2
    T5 = 3
    PIXELNORM = 4


class RotaryPairing(enum.IntEnum):
    HALF = 0
    INTERLEAVE = 1
    QUARTER = 2


class NormKind(enum.IntEnum):
    LAYER = 0
    RMS = 1


class Activation(enum.IntEnum):
    NONE = 0
    SILU = 1
    GELU_TANH = 2
    GELU_ERF = 3
    GELU_SIGMOID = 4


class AttentionLayout(enum.IntEnum):
    BSH = 0
    BSND = 1
    BNSD = 2
    BNSD_BSND = 3
    BSH_NBSD = 4
    BSND_NBSD = 5
    BNSD_NBSD = 6
    TND = 7
    TND_NTD = 8
    NTD_TND = 9


class SparseMode(enum.IntEnum):
    BAND = 0
    MASK = 1
    CAUSAL = 2
    CAUSAL_END = 3
    BAND_END = 4


class Error(RuntimeError):
    """An operator refused its arguments; the sentence says why."""


# ---- the C library ----

MAX_RANK = 5
_F32, _F16, _BF16 = 1, 2, 3
_OTHERS = {"int64": 7, "int32": 8, "int16": 9, "int8": 10, "uint8": 11, "bool": 12}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("shape", ctypes.c_size_t * MAX_RANK), ("stride", ctypes.c_ssize_t * MAX_RANK),
                ("scaling", ctypes.c_void_p)]


class _Workspace(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def _args(name, *fields):
    """A C struct; what is not said to have another type is a tensor."""
    return type(name, (ctypes.Structure,),
                {"_fields_": [f if isinstance(f, tuple) else (f, _Tensor) for f in fields]})


_eps = ("eps", ctypes.c_float)
_RmsNorm = _args("rms_norm", "y", "rstd", "x", "gamma", _eps, ("order", ctypes.c_int),
                 ("round_gamma", ctypes.c_bool))
_AddRmsNorm = _args("add_rms_norm", "y", "sum", "rstd", "x", "residual", "gamma", _eps, ("order", ctypes.c_int),
                    ("round_gamma", ctypes.c_bool), ("unrounded", ctypes.c_bool))
_LayerNorm = _args("layer_norm", "y", "mean", "rstd", "x", "gamma", "beta", _eps, ("axes", ctypes.c_int))
_Modulate = _args("layer_norm_modulate", "y", "y_scale", "x", "gamma", "beta", "scale", "shift", "group", _eps,
                  ("kind", ctypes.c_int), ("round_norm", ctypes.c_int), ("maths", ctypes.c_int))
_Gated = _args("gated_residual", "y", "x", "h", "gate", "group", ("maths", ctypes.c_int))
_Rotary = _args("rotary_mul", "y", "x", "cos", "sin", ("pairing", ctypes.c_int), ("half_tables", ctypes.c_bool),
                ("trig_in_x_dtype", ctypes.c_bool))
_Glu = _args("glu", "y", "gate", "up", ("activation", ctypes.c_int), ("round_steps", ctypes.c_bool))
_GroupNorm = _args("group_norm", "y", "mean", "rstd", "x", "weight", "bias", ("groups", ctypes.c_size_t), _eps,
                   ("silu", ctypes.c_bool), ("channels_last", ctypes.c_bool))
_Attention = _args("fused_infer_attention_score", "o", "lse", "q", "k", "v", "mask", ("layout", ctypes.c_int),
                   ("heads", ctypes.c_size_t), ("kv_heads", ctypes.c_size_t), ("scale", ctypes.c_float),
                   ("sparse_mode", ctypes.c_int), ("pre_tokens", ctypes.c_int64),
                   ("next_tokens", ctypes.c_int64), ("q_lengths", ctypes.c_void_p),
                   ("kv_lengths", ctypes.c_void_p), ("q_length_count", ctypes.c_size_t),
                   ("kv_length_count", ctypes.c_size_t), ("lse_invalid", ctypes.c_float))

_folder = os.path.dirname(os.path.abspath(__file__))
if not os.path.exists(os.path.join(_folder, "libzoetrope-op.so")):
    raise ImportError(f"zoetrope: {_folder} holds no libzoetrope-op.so: it is the source, not the built package; "
                      "install it (pip install .), and do not start Python within python/")
_library = ctypes.CDLL(os.path.join(_folder, "libzoetrope-op.so"))
_library.zoe_context_new.restype = ctypes.c_void_p
_library.zoe_context_new.argtypes = [ctypes.c_int]
_library.zoe_context_free.argtypes = [ctypes.c_void_p]
_library.zoe_context_clear.argtypes = [ctypes.c_void_p]
_library.zoe_context_message.restype = ctypes.c_char_p
_library.zoe_context_message.argtypes = [ctypes.c_void_p]


class _Context:
    """A context of the library; it holds the sentence of the last refusal."""

    def __init__(self, threads):
        self.threads, self.free = threads, _library.zoe_context_free
        self.pointer = ctypes.c_void_p(_library.zoe_context_new(threads))
        if not self.pointer:
            raise MemoryError("zoetrope: no memory for a context")

    def __del__(self):
        if self.pointer:
            self.free(self.pointer)

    def check(self, status):
        if status != 0:
            raise Error(_library.zoe_context_message(self.pointer).decode(errors="replace"))


_threads = 0
_running = threading.local()


def set_threads(n):
    """How many threads the operators of this module use; 0: as many as this process may have. The number
    changes no result. (torch.ops.zoetrope.* follow torch.set_num_threads instead.)"""
    global _threads
    if n < 0:
        raise ValueError(f"zoetrope: {n} threads cannot be")
    _threads = int(n)


def _context():
    """That of the running thread, without the sentence of an earlier call."""
    context = getattr(_running, "context", None)
    if context is None or context.threads != _threads:
        context = _running.context = _Context(_threads)
    _library.zoe_context_clear(context.pointer)
    return context


def _run(name, *args):
    context = _context()
    context.check(getattr(_library, "zoe_" + name)(context.pointer, *args))


def _run_with_workspace(name, args):
    context, size = _context(), getattr(_library, "zoe_" + name + "_workspace")
    size.restype = ctypes.c_size_t
    wanted = size(context.pointer, ctypes.byref(args))
    room = numpy.empty(wanted + 63, numpy.uint8)
    work = _Workspace((room.ctypes.data + 63) // 64 * 64, wanted)
    context.check(getattr(_library, "zoe_" + name)(context.pointer, ctypes.byref(args), work))


def _dtype(dtype):
    name = numpy.dtype(dtype).name
    known = {"float32": _F32, "float16": _F16, "bfloat16": _BF16, "float64": 4, **_OTHERS}
    if name not in known:
        raise Error(f"zoetrope: no operator takes arrays of {name}")
    return known[name]


def _view(array):
    if array.ndim > MAX_RANK:
        raise Error(f"zoetrope: an array has {array.ndim} axes, wanted at most {MAX_RANK}")
    t = _Tensor(array.ctypes.data, _dtype(array.dtype), array.ndim)
    for i, (n, stride) in enumerate(zip(array.shape, array.strides)):
        t.shape[i], t.stride[i] = n, stride // array.itemsize
    return t


class _Call:
    """The arguments of one call, and the arrays behind them for as long as it runs."""

    def __init__(self, struct, **values):
        self.kept, self.args = [], struct()
        for name, value in values.items():
            setattr(self.args, name, self.input(value) if isinstance(getattr(self.args, name), _Tensor) else value)

    def input(self, value):
        if value is None:
            return _Tensor()
        array = numpy.asarray(value)
        itemsize = array.itemsize
        walkable = all(n == 1 or (s > 0 and s % itemsize == 0 and (i + 1 < array.ndim or s == itemsize))
                       for i, (n, s) in enumerate(zip(array.shape, array.strides)))
        array = array if walkable and array.flags.aligned else numpy.ascontiguousarray(array)
        self.kept.append(array)
        return _view(array)

    def output(self, name, out, shape, dtype):
        array = numpy.empty(shape, dtype) if out is None else out
        if not isinstance(array, numpy.ndarray) or not array.flags.writeable:
            raise Error(f"zoetrope: {name} must be a writeable array")
        self.kept.append(array)
        setattr(self.args, name, _view(array))
        return array


# ---- the operators ----


def rms_norm(x, gamma=None, eps=1e-6, order=RmsOrder.MUL_F32, round_gamma=False, out=None):
    """x / sqrt(mean(x^2) + eps) * gamma, over the axes of gamma or the last one."""
    x = numpy.asarray(x)
    call = _Call(_RmsNorm, x=x, gamma=gamma, eps=eps, order=order, round_gamma=round_gamma)
    y = call.output("y", out, x.shape, x.dtype)
    _run("rms_norm", ctypes.byref(call.args))
    return y


def add_rms_norm(x, residual, gamma=None, eps=1e-6, order=RmsOrder.MUL_F32, unrounded=False):
    """The norm of x + residual, and that sum."""
    x = numpy.asarray(x)
    call = _Call(_AddRmsNorm, x=x, residual=residual, gamma=gamma, eps=eps, order=order, unrounded=unrounded)
    y, total = call.output("y", None, x.shape, x.dtype), call.output("sum", None, x.shape, x.dtype)
    _run("add_rms_norm", ctypes.byref(call.args))
    return y, total


def layer_norm(x, gamma=None, beta=None, eps=1e-5, axes=1, out=None):
    """LayerNorm over the last `axes` axes."""
    x = numpy.asarray(x)
    call = _Call(_LayerNorm, x=x, gamma=gamma, beta=beta, eps=eps, axes=axes)
    y = call.output("y", out, x.shape, x.dtype)
    _run("layer_norm", ctypes.byref(call.args))
    return y


def layer_norm_modulate(x, scale=None, shift=None, gamma=None, beta=None, eps=1e-6, kind=NormKind.LAYER,
                        round_norm=None, maths=None, out=None):
    """A norm over the last axis, times 1 + scale, plus shift. round_norm, maths: types to round to, or None."""
    x = numpy.asarray(x)
    call = _Call(_Modulate, x=x, gamma=gamma, beta=beta, scale=scale, shift=shift, eps=eps, kind=kind,
                 round_norm=0 if round_norm is None else _dtype(round_norm),
                 maths=0 if maths is None else _dtype(maths))
    y = call.output("y", out, x.shape, x.dtype)
    _run("layer_norm_modulate", ctypes.byref(call.args))
    return y


def gated_residual(x, h, gate=None, maths=None, out=None):
    """x + gate * h."""
    x = numpy.asarray(x)
    call = _Call(_Gated, x=x, h=h, gate=gate, maths=0 if maths is None else _dtype(maths))
    y = call.output("y", out, x.shape, x.dtype)
    _run("gated_residual", ctypes.byref(call.args))
    return y


def rotary_mul(x, cos, sin, pairing=RotaryPairing.HALF, half_tables=False, trig_in_x_dtype=False, out=None):
    """x * cos + rot(x) * sin."""
    x = numpy.asarray(x)
    call = _Call(_Rotary, x=x, cos=cos, sin=sin, pairing=pairing, half_tables=half_tables,
                 trig_in_x_dtype=trig_in_x_dtype)
    y = call.output("y", out, x.shape, x.dtype)
    _run("rotary_mul", ctypes.byref(call.args))
    return y


def activate(x, activation, out=None):
    """An activation of each element."""
    x = numpy.asarray(x)
    call = _Call(_Glu, gate=x)
    y = call.output("y", out, x.shape, x.dtype)
    _run("activate", call.args.y, call.args.gate, ctypes.c_int(activation))
    return y


def glu(gate, up, activation=Activation.SILU, out=None):
    """activation(gate) * up."""
    gate = numpy.asarray(gate)
    call = _Call(_Glu, gate=gate, up=up, activation=activation)
    y = call.output("y", out, gate.shape, gate.dtype)
    _run("glu", ctypes.byref(call.args))
    return y


def softmax(x, out=None):
    """Softmax over the last axis."""
    x = numpy.asarray(x)
    call = _Call(_Glu, gate=x)
    y = call.output("y", out, x.shape, x.dtype)
    _run("softmax", call.args.y, call.args.gate)
    return y


def group_norm_silu(x, groups, weight=None, bias=None, eps=1e-5, silu=True, channels_last=False):
    """GroupNorm of [N, C, ...] (or [N, ..., C]), then SiLU; also mean and 1 / sqrt(variance + eps)."""
    x = numpy.asarray(x)
    call = _Call(_GroupNorm, x=x, weight=weight, bias=bias, groups=groups, eps=eps, silu=silu,
                 channels_last=channels_last)
    y = call.output("y", None, x.shape, x.dtype)
    statistics = [call.output(name, None, (x.shape[0], groups), numpy.float32) for name in ("mean", "rstd")]
    _run_with_workspace("group_norm_silu", call.args)
    return y, *statistics


def attention(q, k, v, scale=None, mask=None, sparse_mode=SparseMode.BAND, pre_tokens=2**31 - 1,
              next_tokens=2**31 - 1, q_lengths=None, kv_lengths=None):
    """softmax(scale q k^T) v for q, k, v [B, N, S, D]; scale None is 1 / sqrt(D). Also the logarithms of the sums."""
    q, k, v = numpy.asarray(q), numpy.asarray(k), numpy.asarray(v)
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise Error("zoetrope: q, k and v of attention have 4 axes")
    call = _Call(_Attention, q=q, k=k, v=v, mask=mask, layout=AttentionLayout.BNSD, kv_heads=k.shape[1],
                 scale=q.shape[-1] ** -0.5 if scale is None else scale, sparse_mode=sparse_mode,
                 pre_tokens=pre_tokens, next_tokens=next_tokens)
    for name, lengths in (("q", q_lengths), ("kv", kv_lengths)):
        if lengths is not None:
            array = numpy.ascontiguousarray(lengths, numpy.int64).reshape(-1)
            call.kept.append(array)
            setattr(call.args, name + "_lengths", array.ctypes.data)
            setattr(call.args, name + "_length_count", array.size)
    o = call.output("o", None, (*q.shape[:3], v.shape[3]), q.dtype)
    lse = call.output("lse", None, (*q.shape[:3], 1), numpy.float32)
    _run_with_workspace("fused_infer_attention_score", call.args)
    return o, lse
