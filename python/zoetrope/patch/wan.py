"""zoetrope.patch: the official Wan code (package `wan`, Wan2.1 and Wan2.2).

Its flash_attention wants CUDA. Where a model still has it, a patched one computes on the CPU what it would: q, k and
v rounded to bf16, or as they are if they are of 16 bits. A function that somebody else has put in its place in
wan.modules.model is called as before, but for torch_attention below, which computes in the type of q: with
`wan.modules.model.flash_attention = zoetrope.patch.wan.torch_attention` the original runs on a CPU in f32, and the
patched model computes the same with our operator.

WanModel's own forward stays, with its time embedding that is computed for each token: blocks look for the few rows that
differ. They keep what they found for the next block, and look again when the embedding's version has changed, or one of
some of its rows has. A write to few other rows past torch (by .data, or by numpy) goes unnoticed.
"""
import importlib
import importlib.util
import sys
import types
import weakref

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules import module as torch_module

from .. import Activation, AttentionLayout, RmsOrder, RotaryPairing
from ..torch_ops import ops
from .rule import Leave, Replacement, full_name, original, randomise, rule, sample, takes, untouched, wants_gradient

_MODEL = "wan.modules.model."
_ANIMATE = "wan.modules.animate.model_animate."
_HALF = (torch.float16, torch.bfloat16)


def fits(x, *vectors):
    """Have these vectors, if given, as many elements as the last axis of x?"""
    return 1 <= x.dim() <= 5 and all(v is None or v.shape == x.shape[-1:] for v in vectors)


def rounds(x):
    """The type that a norm's `.type_as(x)` rounds to, or None."""
    return x.dtype if x.dtype in _HALF else None


# ---- norms ----


@rule(_MODEL + "WanRMSNorm", "wan.modules.s2v.motioner.RMSNorm", "wan.modules.animate.face_blocks.RMSNorm",
      parameters=("x",))
def wan_rms_norm(module):
    return Replacement(wan_rms_forward, "rms_norm")


def wan_rms_forward(module, x):
    w = getattr(module, "weight", None)  # that of face_blocks need not have one
    if not takes(x, w, gradients=True, autocast=True) or not fits(x, w):
        return original(module)(x)
    dtype = x.dtype if w is None else torch.promote_types(x.dtype, w.dtype)
    return ops.rms_norm(x, w, module.eps, RmsOrder.CAST_THEN_MUL, False, dtype)[0]


@rule(_MODEL + "WanLayerNorm", "wan.modules.s2v.motioner.LayerNorm", parameters=("x",))
def wan_layer_norm(module):
    if len(module.normalized_shape) != 1:
        raise Leave("it normalises several axes")
    return Replacement(wan_layer_forward, "layer_norm")


def wan_layer_forward(module, x):
    w, b = module.weight, module.bias
    if not (takes(x, w, b, gradients=True, autocast=True) and of_f32(w, b) and fits(x, w, b)
            and x.shape[-1:] == module.normalized_shape):
        return original(module)(x)
    return ops.layer_norm(x, w, b, module.eps)[0]


def of_f32(*tensors):
    """Torch's layer_norm of an f32 x takes parameters of no other type."""
    return all(t is None or t.dtype == torch.float32 for t in tensors)


@rule("wan.modules.t5.T5LayerNorm", parameters=("x",))
def t5_layer_norm(module):
    return Replacement(t5_forward, "rms_norm")


def t5_forward(module, x):
    w = module.weight
    if not takes(x, w, gradients=True, autocast=True) or not fits(x, w):
        return original(module)(x)
    dtype = w.dtype if w.dtype in _HALF else torch.float32
    return ops.rms_norm(x, w, module.eps, RmsOrder.T5, False, dtype)[0]


@rule("wan.modules.vae2_1.RMS_norm", "wan.modules.vae2_2.RMS_norm", parameters=("x",))
def vae_norm(module):
    return Replacement(vae_forward, "l2_norm where channels lie side by side (memory_format=channels_last_3d); other "
                                    "memory is torch's, which is faster than turning it round")


def vae_forward(module, x):
    """The official code rounds after each step, as the operator does."""
    gamma, bias = module.gamma, module.bias if isinstance(module.bias, torch.Tensor) else None
    axis = 1 if module.channel_first else -1
    if not takes(x, gamma, bias, autocast=True) or x.dim() < 2 or x.dim() > 5:
        return original(module)(x)
    rows = x.movedim(axis, -1)
    short = (gamma, bias) if bias is not None else (gamma,)
    if (not rows.is_contiguous() or any(t.dtype != x.dtype or t.numel() != rows.shape[-1] for t in short)
            or module.scale != rows.shape[-1] ** 0.5):
        return original(module)(x)
    y = ops.l2_norm(rows, gamma.flatten(), None if bias is None else bias.flatten(), strict_torch=True)
    return y.movedim(-1, axis)


# ---- attention ----


def torch_attention(q, k, v, q_lens=None, k_lens=None, dropout_p=0., softmax_scale=None, q_scale=None, causal=False,
                    window_size=(-1, -1), deterministic=False, dtype=torch.bfloat16, version=None):
    """What stands for the official flash_attention where that cannot run: [B, L, N, D], by torch, in the type of q.
    Keys from k_lens on are not seen."""
    if q_lens is not None or dropout_p or causal or q_scale is not None or tuple(window_size) != (-1, -1):
        raise NotImplementedError("torch_attention: q_lens, dropout, causal, q_scale and windows are not supported")
    lengths = [k.shape[1]] * len(k) if k_lens is None else k_lens.tolist()
    out = [F.scaled_dot_product_attention(q[i:i + 1].transpose(1, 2),
                                          *(t[i:i + 1, :n].to(q.dtype).transpose(1, 2) for t in (k, v)),
                                          scale=softmax_scale) for i, n in enumerate(lengths)]
    return torch.cat(out).transpose(1, 2).to(q.dtype)


def functions(module):
    """flash_attention and rope_apply as the class's forward finds them now: people replace them."""
    names = getattr(type(module).forward, "__globals__", {})
    return names.get("flash_attention"), names.get("rope_apply")


def is_official(function, name):
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__name__', None)}" == name


def is_known(attention):
    """Do we know what this function in the place of flash_attention computes?"""
    return attention is torch_attention or is_official(attention, "wan.modules.attention.flash_attention")


def attention_types(attention, q, k, v):
    """The types that q, k and v, of the types given, are rounded to by turns, the last of which they have in common."""
    if attention is torch_attention:
        if not torch.is_autocast_enabled("cpu"):
            return (q,), (q,), (q,)
        common = torch.get_autocast_dtype("cpu")
        return (common,), (common,), (common,)
    half = [t if t in _HALF else torch.bfloat16 for t in (q, k, v)]
    return (half[0], half[2]), (half[1], half[2]), (half[2],)


def attend(attention, q, k, v, lengths, out):
    """[B, L, N, D]: what `attention`, which is known, computes, in the type `out`."""
    kinds = attention_types(attention, q.dtype, k.dtype, v.dtype)
    q, k, v = (to(t, by_turns) for t, by_turns in zip((q, k, v), kinds))
    if lengths is not None:
        lengths = lengths.to(torch.int64).clamp(max=k.shape[1])
    y = ops.fused_infer_attention_score(q, k, v, None, None, lengths, q.shape[2], 0, q.shape[3] ** -0.5,
                                        AttentionLayout.BSND)[0]
    return y.to(out)


def to(t, kinds):
    for kind in kinds:
        t = t.to(kind)
    return t


def qk_norms(module):
    """Are the norms of q and k WanRMSNorm, or nothing, so that we can do their work?"""
    kinds = {full_name(type(norm)) for norm in (module.norm_q, module.norm_k)}
    if len(kinds) != 1 or not kinds <= {_MODEL + "WanRMSNorm", "torch.nn.modules.linear.Identity"}:
        raise Leave("norm_q or norm_k is of another class")


@rule(_MODEL + "WanSelfAttention", _ANIMATE + "WanAnimateSelfAttention",
      parameters=("x", "seq_lens", "grid_sizes", "freqs"))
def self_attention(module):
    qk_norms(module)
    attention, rope = functions(module)
    if not is_official(rope, _MODEL + "rope_apply"):
        raise Leave("rope_apply has been replaced")
    what = "qk_norm_rope, attention" if is_known(attention) else "qk_norm_rope; flash_attention has been replaced"
    return Replacement(self_attention_forward, what, within=("norm_q", "norm_k"))


def self_attention_forward(module, x, seq_lens, grid_sizes, freqs):
    attention, rope = functions(module)
    weights = [getattr(norm, "weight", None) for norm in (module.norm_q, module.norm_k)]
    whole = tuple(module.window_size) == (-1, -1)
    if not (takes(x, *weights, autocast=True) and is_official(rope, _MODEL + "rope_apply") and x.dim() == 3
            and not wants_gradient(module, freqs)
            and seq_lens.device.type == grid_sizes.device.type == "cpu" and len(seq_lens) == len(grid_sizes) == len(x)):
        return original(module)(x, seq_lens, grid_sizes, freqs)
    tables = rotary_tables(freqs, grid_sizes, x.shape[1], module.head_dim)
    q, k, v = module.q(x), module.k(x), module.v(x)
    if not takes(q, k, v, autocast=True) or tables is None or not all(fits(t, w) for t, w in zip((q, k), weights)):
        return original(module)(x, seq_lens, grid_sizes, freqs)
    heads = (*x.shape[:2], module.num_heads, module.head_dim)
    v = v.view(heads)
    if is_known(attention) and whole:
        kinds = attention_types(attention, torch.float32, torch.float32, v.dtype)
        q, k = turned(module, q, k, weights, tables, heads, kinds)
        y = attend(attention, q, k, v, seq_lens, torch.float32)
    else:
        q, k = turned(module, q, k, weights, tables, heads, ())
        y = attention(q=q, k=k, v=v, k_lens=seq_lens, window_size=module.window_size)
    return module.o(y.flatten(2))


def turned(module, q, k, weights, tables, heads, kinds):
    """q and k [B, L, N D], normed and turned, as [B, L, N, D]. The official code has them in f32; where they are
    rounded to nothing but their own type next, as `kinds` says, they may be so at once."""
    eps = [getattr(norm, "eps", None) for norm in (module.norm_q, module.norm_k)]
    own = all(t.dtype == torch.float32 or (kinds and set(kinds[i]) == {t.dtype}) for i, t in enumerate((q, k)))
    if own and weights[0] is not None and q.dtype == k.dtype and q.shape == k.shape and eps[0] == eps[1]:
        q, k = ops.qk_norm_rope(q, k, *tables, *weights, eps[0], RmsOrder.CAST_THEN_MUL, False,
                                RotaryPairing.INTERLEAVE)
        return q.view(heads), k.view(heads)
    found = []
    for x, w, e in zip((q, k), weights, eps):
        if w is not None:
            x = ops.rms_norm(x, w, e, RmsOrder.CAST_THEN_MUL, False, torch.float32)[0]
        cos, sin = (t.unsqueeze(2) for t in tables)
        found.append(ops.rotary_mul(x.float().view(heads), cos, sin, RotaryPairing.INTERLEAVE, True))
    return found


@rule(_MODEL + "WanCrossAttention", _ANIMATE + "WanAnimateCrossAttention",
      parameters=("x", "context", "context_lens"))
def cross_attention(module):
    if not is_known(functions(module)[0]):
        raise Leave("flash_attention has been replaced")
    return Replacement(cross_attention_forward, "attention")


def cross_attention_forward(module, x, context, context_lens):
    attention = functions(module)[0]
    if not (takes(x, context, autocast=True) and is_known(attention) and not wants_gradient(module)
            and (context_lens is None or context_lens.device.type == "cpu")):
        return original(module)(x, context, context_lens)
    image, text = None, context
    if getattr(module, "use_img_emb", False):  # Animate; 257 is in its code
        image, text = context[:, :257], context[:, 257:]
    shape = (x.shape[0], -1, module.num_heads, module.head_dim)
    q = module.norm_q(module.q(x)).view(shape)
    pairs = [(module.norm_k(module.k(text)).view(shape), module.v(text).view(shape))]
    if image is not None:
        pairs.append((module.norm_k_img(module.k_img(image)).view(shape), module.v_img(image).view(shape)))
    if not takes(q, *(t for pair in pairs for t in pair), autocast=True):
        return original(module)(x, context, context_lens)
    y = attend(attention, q, *pairs[0], context_lens, q.dtype).flatten(2)
    if image is not None:
        y = y + attend(attention, q, *pairs[1], None, q.dtype).flatten(2)
    return module.o(y)


# ---- rotary tables ----

_tables = []  # (the frequencies that were used, grids, length, width, tables), newest first


@torch.compiler.disable
def rotary_tables(freqs, grid_sizes, length, width):
    """cos and sin [B or 1, length, width / 2] in f32, of every sample's own grid; tokens beyond it are not turned. None
    if freqs are not as we know them. Kept for the next call with equal freqs and grids."""
    global _tables
    if isinstance(freqs, FakeTensor) or isinstance(grid_sizes, FakeTensor) or freqs.device.type != "cpu":
        return None
    grids = tuple(tuple(g) for g in grid_sizes.tolist())
    if not (freqs.is_complex() and freqs.dim() == 2 and freqs.shape[1] == width // 2 and grids
            and all(f * h * w <= length and max(f, h, w) <= freqs.shape[0] for f, h, w in grids)):
        return None
    used = freqs.detach()[:max(map(max, grids))]
    for entry in _tables:
        if entry[1:4] == (grids, length, width) and entry[0].dtype == used.dtype and torch.equal(entry[0], used):
            return entry[4]
    distinct = grids[:1] if len(set(grids)) == 1 else grids
    with torch.inference_mode(False), torch.no_grad():  # what is kept may be used in another mode
        tables = tuple(torch.stack(t) for t in zip(*(grid_tables(used, grid, length) for grid in distinct)))
        _tables = [(used.clone(), grids, length, width, tables), *_tables[:3]]
    return tables


def grid_tables(freqs, grid, length):
    pairs = freqs.shape[1]
    parts = freqs.split([pairs - 2 * (pairs // 3), pairs // 3, pairs // 3], dim=1)
    axes = []
    for axis, (part, n) in enumerate(zip(parts, grid)):
        shape = [1, 1, 1, -1]
        shape[axis] = n
        axes.append(part[:n].view(shape).expand(*grid, -1))
    angles = torch.cat(axes, dim=-1).flatten(0, 2)
    cos = torch.ones(length, pairs, dtype=torch.float32, device="cpu")
    sin = torch.zeros(length, pairs, dtype=torch.float32, device="cpu")
    cos[:len(angles)], sin[:len(angles)] = angles.real, angles.imag
    return cos, sin


# ---- modulation ----

_RUNS = 8  # of tokens with the same modulation, at most
_last_runs = None  # a Seen


class Seen:
    """An embedding [B, L, ...] that was looked at, and what was found."""

    def __init__(self, e, starts, found):
        last = e.shape[1] - 1
        watched = {*starts, *(start - 1 for start in starts[1:]), *(i * last // 15 for i in range(16))}
        self.ref, self.version, self.found = weakref.ref(e), e._version, found
        self.watched = torch.tensor(sorted(watched), dtype=torch.int64, device="cpu")
        self.rows = e.detach().index_select(1, self.watched)

    def same(self, e):
        """Is it this one, as it was? Some rows are compared, for writes that have left its version as it was."""
        return (self.ref() is e and self.version == e._version
                and torch.equal(e.detach().index_select(1, self.watched), self.rows))


def per_token(e, x):
    """An embedding [B, L, ...] with a row for each token, as (rows, group) for the operators. The official code has
    the rows of every token in memory although there are one or two timesteps: rows is [B, 1, ...] if they are all
    alike; [G, ...] with group [B, L] if there are a few runs; or e. The blocks of a model get the same embedding, and
    what was found for it is kept for the next one."""
    if e.shape[1] == 1 or e.stride(1) == 0:
        return e[:, :1], None
    if torch.compiler.is_compiling() or isinstance(e, FakeTensor) or e.is_inference() or e.shape[:2] != x.shape[:2]:
        return e, None
    return found_runs(e)


@torch.compiler.disable
def found_runs(e):
    global _last_runs
    last = _last_runs
    if last is not None and last.same(e):
        return last.found
    starts = runs(e)
    if starts is None:
        return e, None  # not kept: it would live as long as the entry
    with torch.inference_mode(False), torch.no_grad():
        found = (e[:, :1].clone(), None) if len(starts) == 1 else rows_and_group(e, starts)
        _last_runs = Seen(e, starts, found)
    return found


def rows_and_group(e, starts):
    """One row of each run of each sample, and the number [B, L] of each token's."""
    group = torch.zeros(e.shape[:2], dtype=torch.int32, device="cpu")
    for start in starts[1:]:
        group[:, start:] += 1
    group += torch.arange(len(e), dtype=torch.int32, device="cpu").unsqueeze(1) * len(starts)
    first = torch.tensor(starts, dtype=torch.int64, device="cpu")
    return e.detach().index_select(1, first).flatten(0, 1), group


def runs(e):
    """Where runs of equal rows along the second axis begin, or None if they are more than _RUNS."""
    starts, todo = [0], [(0, e.shape[1] - 1)]
    while todo and len(starts) <= _RUNS:
        begin, end = todo.pop()  # steps from row i to i + 1
        if begin == end or torch.equal(e[:, begin + 1:end + 1], e[:, begin:end]):
            continue
        if end - begin == 1:
            starts.append(end)
        else:
            middle = (begin + end) // 2
            todo += [(middle, end), (begin, middle)]
    return sorted(starts) if len(starts) <= _RUNS else None


@rule(_MODEL + "WanAttentionBlock", _ANIMATE + "WanAnimateAttentionBlock",
      parameters=("x", "e", "seq_lens", "grid_sizes", "freqs", "context", "context_lens"))
def block(module):
    norms = (module.norm1, module.norm2, module.norm3)
    if any(full_name(type(norm)) != _MODEL + "WanLayerNorm" for norm in norms[:2 + bool(module.cross_attn_norm)]):
        raise Leave("a norm is of another class")
    within = ("norm1", "norm2", "norm3") if module.cross_attn_norm else ("norm1", "norm2")
    what = "layer_norm_modulate, gated_residual" + ("_norm_modulate" if module.cross_attn_norm else "")
    if is_mlp(module.ffn):
        return Replacement(block_mlp_forward, what + ", activate", within=(*within, "ffn", "ffn.1"))
    return Replacement(block_forward, what, within=within)


def is_mlp(ffn):
    return (type(ffn) is torch.nn.Sequential and len(ffn) == 3 and type(ffn[1]) is torch.nn.GELU
            and ffn[1].approximate == "tanh")


def mlp(ffn, x):
    """Linear, GELU, Linear, where only the Linears are called."""
    return ffn[2](gelu_of(ffn[0], x))


def gelu_of(linear, x, kind=Activation.GELU_TANH):
    """GELU of a layer's result, in its place where nobody else has that."""
    h = linear(x)
    if not takes(h, autocast=True):
        return F.gelu(h, approximate="tanh" if kind == Activation.GELU_TANH else "none")
    if (type(linear) is torch.nn.Linear and untouched(linear) and not torch_module._has_any_global_hook()
            and not torch.compiler.is_compiling()):
        ops.activate.out(h, kind, out=h)
        return h
    return ops.activate(h, kind)


def block_forward(module, x, e, seq_lens, grid_sizes, freqs, context, context_lens):
    return run_block(module, module.ffn, x, e, seq_lens, grid_sizes, freqs, context, context_lens)


def block_mlp_forward(module, x, e, seq_lens, grid_sizes, freqs, context, context_lens):
    ffn = (lambda n: mlp(module.ffn, n)) if is_mlp(module.ffn) else module.ffn  # it may have changed
    return run_block(module, ffn, x, e, seq_lens, grid_sizes, freqs, context, context_lens)


def embedding_rank(module):
    """Axes of the embedding: [B, L, ...], a row for each token, or in Animate's classes [B, ...]."""
    return 1 if type(module).forward.__module__ == _ANIMATE[:-1] else 2


def embedding_fits(module, e, x, axes):
    """`axes`: how many the embedding has after those of embedding_rank."""
    rank = embedding_rank(module)
    return (of_f32(e) and x.dim() == 3 and e.dim() == rank + axes and len(e) in (1, len(x))
            and e.shape[-1] == x.shape[-1] and (rank == 1 or e.shape[1] in (1, x.shape[1])))


def run_block(module, ffn, x, e, *others):
    """Modulation is in f32 whatever the type of x, and so is x after the first residual."""
    seq_lens, grid_sizes, freqs, context, context_lens = others
    norms = (module.norm1, module.norm2, module.norm3 if module.cross_attn_norm else None)
    affine = [t for norm in norms if norm is not None for t in (norm.weight, norm.bias)]
    if not (takes(x, e, module.modulation, *affine, autocast=True) and of_f32(*affine)
            and embedding_fits(module, e, x, 2) and not wants_gradient(module, freqs, context)):
        return original(module)(x, e, *others)
    rows, group = per_token(e if e.dim() == 4 else e.unsqueeze(1), x)
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = (module.modulation.squeeze(0) + rows).unbind(-2)
    h = module.self_attn(modulated(norms[0], x, scale, shift, group), seq_lens, grid_sizes, freqs)
    x = x.float()
    if norms[2] is not None:
        n = norms[2]
        x, h = ops.gated_residual_norm_modulate(x, h, gate, None, None, n.weight, n.bias, group, n.eps)
        h = module.cross_attn(h, context, context_lens)
        x = x.add_(h) if not torch.compiler.is_compiling() else x + h  # x is ours, and nobody else has it
    else:
        x = ops.gated_residual(x, h, gate, group)
        x = x + module.cross_attn(module.norm3(x), context, context_lens)
    h = ffn(modulated(norms[1], x, ffn_scale, ffn_shift, group))
    if torch.compiler.is_compiling():
        return ops.gated_residual(x, h, ffn_gate, group)
    ops.gated_residual.out(x, h, ffn_gate, group, out=x)
    return x


def modulated(norm, x, scale, shift, group):
    return ops.layer_norm_modulate(x, scale, shift, norm.weight, norm.bias, group, norm.eps, 0, rounds(x), None,
                                   torch.float32)


@rule(_MODEL + "Head", _ANIMATE + "HeadAnimate", parameters=("x", "e"))
def head(module):
    if full_name(type(module.norm)) != _MODEL + "WanLayerNorm":
        raise Leave("its norm is of another class")
    return Replacement(head_forward, "layer_norm_modulate", within=("norm",))


def head_forward(module, x, e):
    norm = module.norm
    if not (takes(x, e, module.modulation, norm.weight, norm.bias, autocast=True)
            and of_f32(norm.weight, norm.bias) and embedding_fits(module, e, x, 1)):
        return original(module)(x, e)
    rows, group = per_token(e if e.dim() == 3 else e.unsqueeze(1), x)
    shift, scale = (module.modulation.squeeze(0) + rows.unsqueeze(-2)).unbind(-2)
    return module.head(modulated(norm, x, scale, shift, group))


# ---- samples ----


def package(name):
    """A module of the package `wan`. That itself wants CUDA and libraries for audio and video when it is imported;
    where there is no CUDA its modules are imported past it, for as long as the process lives."""
    if torch.cuda.is_available():
        return importlib.import_module(name)
    stems = name.split(".")[:-1]
    for i in range(len(stems)):
        stem = ".".join(stems[:i + 1])
        if stem not in sys.modules:
            path = f"{path}/{stems[i]}" if i else importlib.util.find_spec("wan").submodule_search_locations[0]
            sys.modules[stem] = types.ModuleType(stem)
            sys.modules[stem].__path__ = [path]
        path = sys.modules[stem].__path__[0]
    device = torch.cuda.current_device
    torch.cuda.current_device = lambda: "cpu"  # a default argument in t5.py
    try:
        return importlib.import_module(name)
    finally:
        torch.cuda.current_device = device


def official(name="wan.modules.model"):
    """A module of the package with attention, such that it runs on a CPU."""
    model = package(name)
    if is_official(model.flash_attention, "wan.modules.attention.flash_attention"):
        model.flash_attention = torch_attention
    return model


def as_dtype(module, dtype):
    """The official code runs in bf16 by autocast with weights in f32, and not otherwise."""
    module = module.eval().requires_grad_(False)
    if dtype != torch.float32:
        running = []

        def enter(module, args):
            running.append(torch.autocast("cpu", dtype))
            running[-1].__enter__()

        def leave(module, args, output):
            running.pop().__exit__(None, None, None)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)
    return module


class Float64(types.ModuleType):
    """torch for code that asserts torch.float32, when it is to run in f64."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def in_f64(module, args, kwargs):
    from .check import in_f64 as widened

    model = sys.modules["wan.modules.model"]
    model.torch = Float64("torch")
    try:
        return widened(module, args, kwargs)
    finally:
        model.torch = torch


SIZES = {"real": (5120, 13824, 40), "tiny": (48, 96, 4)}  # A14B


def grid_of(tokens):
    """Frames, rows and columns of about so many tokens, never more."""
    frames = 4 if tokens >= 64 else 1
    columns = int((tokens // frames) ** 0.5)
    while columns > 1 and tokens // frames % columns:
        columns -= 1
    rows = tokens // frames // max(columns, 1)
    if rows > 1024:
        columns = rows = int((tokens // frames) ** 0.5)
    return frames, rows, columns


def rotary_of(model, width):
    return torch.cat([model.rope_params(1024, n) for n in (width - 4 * (width // 6), *(2 * (width // 6),) * 2)], dim=1)


def random(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")


@sample(_MODEL + "WanAttentionBlock", in_f64=in_f64)
def block_sample(tokens, size, dtype, generator, text=512):
    """e is the same for all tokens, as with one timestep, and in memory for each, as the model has it."""
    model = official()
    dim, ffn_dim, heads = SIZES[size]
    module = randomise(model.WanAttentionBlock(dim, ffn_dim, heads, cross_attn_norm=True), generator)
    grid = grid_of(tokens)
    e = random(generator, 1, 1, 6, dim).expand(1, tokens, 6, dim).clone()
    args = (random(generator, 1, tokens, dim), e, torch.tensor([grid[0] * grid[1] * grid[2]]), torch.tensor([grid]),
            rotary_of(model, dim // heads), random(generator, 1, text, dim), None)
    return as_dtype(module, dtype), args, {}


@sample(_MODEL + "WanSelfAttention")
def self_attention_sample(tokens, size, dtype, generator):
    model = official()
    dim, _, heads = SIZES[size]
    module = randomise(model.WanSelfAttention(dim, heads), generator)
    grid = grid_of(tokens)
    args = (random(generator, 1, tokens, dim), torch.tensor([grid[0] * grid[1] * grid[2]]), torch.tensor([grid]),
            rotary_of(model, dim // heads))
    return as_dtype(module, dtype), args, {}


@sample(_MODEL + "WanCrossAttention")
def cross_attention_sample(tokens, size, dtype, generator):
    model = official()
    dim, _, heads = SIZES[size]
    module = randomise(model.WanCrossAttention(dim, heads), generator)
    return as_dtype(module, dtype), (random(generator, 1, tokens, dim), random(generator, 1, 512, dim), None), {}


@sample(_MODEL + "Head", in_f64=in_f64)
def head_sample(tokens, size, dtype, generator):
    model = official()
    dim = SIZES[size][0]
    module = randomise(model.Head(dim, 16, (1, 2, 2)), generator)
    e = random(generator, 1, 1, dim).expand(1, tokens, dim).clone()
    return as_dtype(module, dtype), (random(generator, 1, tokens, dim), e), {}


@sample(_MODEL + "WanRMSNorm")
def rms_sample(tokens, size, dtype, generator):
    module = randomise(official().WanRMSNorm(SIZES[size][0]), generator).to(dtype)
    return module, (random(generator, 1, tokens, SIZES[size][0]).to(dtype),), {}


@sample(_MODEL + "WanLayerNorm")
def layer_sample(tokens, size, dtype, generator):
    module = randomise(official().WanLayerNorm(SIZES[size][0], elementwise_affine=True), generator)
    return module, (random(generator, 1, tokens, SIZES[size][0]).to(dtype),), {}


@sample("wan.modules.t5.T5LayerNorm")
def t5_sample(tokens, size, dtype, generator):
    dim = {"real": 4096, "tiny": 48}[size]
    module = randomise(package("wan.modules.t5").T5LayerNorm(dim), generator).to(dtype)
    return module, (random(generator, 1, tokens, dim).to(dtype),), {}


@sample("wan.modules.vae2_1.RMS_norm")
def vae_sample(tokens, size, dtype, generator):
    """As many pixels as tokens, with channels side by side."""
    dim = {"real": 384, "tiny": 8}[size]
    module = randomise(package("wan.modules.vae2_1").RMS_norm(dim, images=False), generator).to(dtype)
    x = random(generator, 1, dim, *grid_of(tokens)).to(dtype)
    return module, (x.contiguous(memory_format=torch.channels_last_3d),), {}
