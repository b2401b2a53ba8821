"""zoetrope.patch: LTX-2 of diffusers.

A block's norms are computed with what follows and what goes before: modulation, gated residual. In f16 and bf16 each
of their steps is rounded, as torch does it.

The norms of q and k round before they are turned. The tables differ by head, or pairs go across heads, so that
qk_norm_rope does not fit: it is rms_norm, then rotary_mul in f32, rounded once. With interleaved pairs that has the
same bits as the original. With split ones the original adds its second product with a fused multiply-add: where both
nearly cancel, results differ by what f32 loses.

Attention is ours where that of diffusers is torch's scaled_dot_product_attention and there is no mask, or one of zeroes
(that of the text in LTX-2, but not under torch.compile, which cannot look). What stays with torch: attention with other
masks, which are added to the scores and not true or false, the gate of each head, perturbed attention (as a whole), the
modulation of the text (LTX-2.3), tables of angles, and, as they stand in the forward of the model itself, the
modulation after the last norms.
"""
import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import AttentionLayout, NormKind, RmsOrder, RotaryPairing
from ..torch_ops import ops
from .rule import Leave, Replacement, full_name, original, randomise, rule, sample, takes, untouched, wants_gradient
from .wan import Seen, random, rounds, rows_and_group, runs

_MODEL = "diffusers.models.transformers.transformer_ltx2."
_NORM = "diffusers.models.normalization.RMSNorm"
_PLAIN = _MODEL + "LTX2AudioVideoAttnProcessor"
_PERTURBED = _MODEL + "LTX2PerturbedAttnProcessor"


@rule(_NORM, parameters=("hidden_states",))
def rms_norm(module):
    if module.bias is not None or len(module.dim) != 1:
        raise Leave("it has a bias, or weights of several axes")
    return Replacement(rms_forward, "rms_norm")


def rms_forward(module, hidden_states):
    """A weight of 16 bits gives its type to the result, one of f32 makes that f32."""
    w = module.weight
    if not (takes(hidden_states, w, gradients=True) and 1 <= hidden_states.dim() <= 5 and module.bias is None
            and (w is None or w.shape == hidden_states.shape[-1:])):
        return original(module)(hidden_states)
    if w is None:
        return ops.rms_norm(hidden_states, None, module.eps)[0]
    return ops.rms_norm(hidden_states, w, module.eps, RmsOrder.T5, False, rounds(w) or torch.float32)[0]


# ---- attention ----


def processor_names(module):
    """The global names of the processor's code, if it is one of diffusers' two with diffusers' rotary functions; or
    None."""
    processor = module.processor
    if full_name(type(processor)) not in (_PLAIN, _PERTURBED):
        return None
    names = type(processor).__call__.__globals__
    for name in ("apply_split_rotary_emb", "apply_interleaved_rotary_emb"):
        function = names.get(name)
        if f"{getattr(function, '__module__', None)}.{getattr(function, '__name__', None)}" != _MODEL + name:
            return None
    return names if "dispatch_attention_fn" in names else None


def is_torch_attention(names, processor):
    """Is what the processor calls torch's scaled_dot_product_attention, in one process?"""
    dispatch = names["dispatch_attention_fn"]
    if (getattr(dispatch, "__module__", None) != "diffusers.models.attention_dispatch"
            or processor._parallel_config is not None):
        return False
    backend = processor._attention_backend
    if backend is None:
        backend = dispatch.__globals__["_AttentionBackendRegistry"].get_active_backend()[0]
    return backend == "native"


@rule(_MODEL + "LTX2Attention", parameters=("hidden_states", "encoder_hidden_states", "attention_mask",
                                            "query_rotary_emb", "key_rotary_emb", "kwargs"))
def attention(module):
    names = processor_names(module)
    if names is None:
        raise Leave(f"its processor, {type(module.processor).__name__}, or the rotary functions of that are not those "
                    "of diffusers")
    if any(full_name(type(norm)) != "torch.nn.modules.normalization.RMSNorm"
           for norm in (module.norm_q, module.norm_k)):
        raise Leave("norm_q or norm_k is of another class")
    if module.rope_type not in ("split", "interleaved") or module.inner_kv_dim != module.inner_dim:
        raise Leave(f"rope_type is {module.rope_type}, or keys have fewer heads than queries")
    what = "rms_norm, rotary_mul, attention where no mask hides anything"
    if not is_torch_attention(names, module.processor):
        what = "rms_norm, rotary_mul; attention is another backend's"
    return Replacement(attention_forward, what, within=("norm_q", "norm_k"))


def attention_forward(module, hidden_states, encoder_hidden_states=None, attention_mask=None, query_rotary_emb=None,
                      key_rotary_emb=None, **kwargs):
    def old():
        return original(module)(hidden_states, encoder_hidden_states, attention_mask, query_rotary_emb,
                                key_rotary_emb, **kwargs)

    names, norm_q, norm_k = processor_names(module), module.norm_q, module.norm_k
    x, source = hidden_states, hidden_states if encoder_hidden_states is None else encoder_hidden_states
    q_tables, k_tables = query_rotary_emb, query_rotary_emb if key_rotary_emb is None else key_rotary_emb
    if not (names is not None and is_plain(module, kwargs) and takes(x, source, norm_q.weight, norm_k.weight)
            and x.dim() == source.dim() == 3 and len(x) == len(source) and not wants_gradient(module, attention_mask)
            and (q_tables is None or fits(module, x, q_tables) and fits(module, source, k_tables))):
        return old()
    gates = None if module.to_gate_logits is None else module.to_gate_logits(x)
    v, q, k = module.to_v(source), module.to_q(x), module.to_k(source)
    if not (takes(q, k, v, gates) and same_type(q, k, v) and normed_whole(norm_q, q) and normed_whole(norm_k, k)):
        return old()
    q, k = normed(norm_q, module.to_q, q), normed(norm_k, module.to_k, k)
    if q_tables is not None:
        q, k = turned(module, q, q_tables), turned(module, k, k_tables)
    y = attend(module, names, *(t.unflatten(2, (module.heads, -1)) for t in (q, k, v)), attention_mask)
    if gates is not None:
        # The logits are 0 where the gate is 1.
        y = (y.unflatten(2, (module.heads, -1)) * (2.0 * torch.sigmoid(gates)).unsqueeze(-1)).flatten(2)
    return module.to_out[1](module.to_out[0](y))


def is_plain(module, kwargs):
    """Is this a call without perturbation, and without arguments that the processor does not know?"""
    if not kwargs:
        return True
    return (full_name(type(module.processor)) == _PERTURBED and kwargs.keys() <= {"perturbation_mask", "all_perturbed"}
            and kwargs.get("perturbation_mask") is None and not kwargs.get("all_perturbed"))


def same_type(*tensors):
    return len({t.dtype for t in tensors if t is not None}) <= 1


def fits(module, x, tables):
    """Are cos and sin f32, and [B, N, L, D / 2] if split, else [B or 1, L, N D]?"""
    cos, sin = tables
    if not (takes(cos, sin) and cos.dtype == sin.dtype == torch.float32 and cos.shape == sin.shape):
        return False
    if module.rope_type == "split":
        return cos.shape == (len(x), module.heads, x.shape[1], module.head_dim // 2) and module.head_dim % 2 == 0
    return cos.shape[1:] == (x.shape[1], module.inner_dim) and len(cos) in (1, len(x))


def normed_whole(norm, x):
    """Is this the norm of the last axis of x, with a weight of its type or none?"""
    return (norm.normalized_shape == x.shape[-1:]
            and (norm.weight is None or norm.weight.dtype == x.dtype))


def normed(norm, linear, x):
    """torch.nn.RMSNorm, in the place of a layer's result where nobody else has that."""
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    if torch.compiler.is_compiling() or type(linear) is not torch.nn.Linear or not untouched(linear):
        return ops.rms_norm(x, norm.weight, eps, RmsOrder.MUL_F32)[0]
    ops.rms_norm.out(x, norm.weight, eps, RmsOrder.MUL_F32, out=x)
    return x


def turned(module, x, tables):
    """The rotary embedding of x [B, L, N D], which is ours."""
    cos, sin = tables
    pairing, split = RotaryPairing.INTERLEAVE, module.rope_type == "split"
    heads = x
    if split:
        pairing, heads = RotaryPairing.HALF, x.unflatten(2, (module.heads, -1))
        cos, sin = cos.transpose(1, 2), sin.transpose(1, 2)
    if torch.compiler.is_compiling():
        return ops.rotary_mul(heads, cos, sin, pairing, split).view(x.shape)
    ops.rotary_mul.out(heads, cos, sin, pairing, split, out=heads)
    return x


def attend(module, names, q, k, v, mask):
    """[B, L, N D] of q, k and v [B, L, N, D]"""
    processor = module.processor
    if hides_nothing(mask, k) and is_torch_attention(names, processor):
        return ops.fused_infer_attention_score(q, k, v, None, None, None, module.heads, 0, q.shape[3] ** -0.5,
                                               AttentionLayout.BSND)[0].flatten(2)
    if mask is not None:
        mask = module.prepare_attention_mask(mask, k.shape[1], len(k))
        mask = mask.view(len(k), module.heads, -1, mask.shape[-1])
    y = names["dispatch_attention_fn"](q, k, v, attn_mask=mask, dropout_p=0.0, is_causal=False,
                                       backend=processor._attention_backend, parallel_config=processor._parallel_config)
    return y.flatten(2, 3).to(q.dtype)


def hides_nothing(mask, k):
    """Is the mask none, or all zero? That of the text is so where registers stand in the place of padding. Only where
    to look at it costs little."""
    return mask is None or (
        not torch.compiler.is_compiling() and not isinstance(mask, FakeTensor) and takes(mask)
        and mask.dim() >= 2 and mask.shape[-1] == k.shape[1] and mask.shape[-2] == 1 and not mask.any())


# ---- block ----

_REQUIRED = ("hidden_states", "audio_hidden_states", "encoder_hidden_states", "audio_encoder_hidden_states", "temb",
             "temb_audio", "temb_ca_scale_shift", "temb_ca_audio_scale_shift", "temb_ca_gate", "temb_ca_audio_gate")
_OPTIONAL = {**dict.fromkeys((
    "temb_prompt", "temb_prompt_audio", "video_rotary_emb", "audio_rotary_emb", "ca_video_rotary_emb",
    "ca_audio_rotary_emb", "encoder_attention_mask", "audio_encoder_attention_mask", "self_attention_mask",
    "audio_self_attention_mask", "a2v_cross_attention_mask", "v2a_cross_attention_mask")),
    "use_a2v_cross_attention": True, "use_v2a_cross_attention": True, "perturbation_mask": None, "all_perturbed": None}
_PARAMETERS = (*_REQUIRED, *_OPTIONAL)
_NORMS = ("norm1", "audio_norm1", "norm2", "audio_norm2", "audio_to_video_norm", "video_to_audio_norm", "norm3",
          "audio_norm3")


@rule(_MODEL + "LTX2VideoTransformerBlock", parameters=_PARAMETERS)
def block(module):
    if any(full_name(type(getattr(module, name))) != _NORM for name in _NORMS):
        raise Leave("a norm is of another class")
    if not weightless(module):
        raise Leave("its norms have weights, which no published LTX-2 has")
    return Replacement(block_forward, "layer_norm_modulate (RMS), gated_residual_norm_modulate, gated_residual",
                       within=_NORMS)


def weightless(module):
    return all(getattr(module, name).weight is None and getattr(module, name).bias is None for name in _NORMS)


def block_forward(module, *args, **kwargs):
    """Its parameters are _PARAMETERS."""
    given = {**dict(zip(_PARAMETERS, args)), **kwargs}
    if (len(given) != len(args) + len(kwargs) or not given.keys() <= set(_PARAMETERS)
            or any(name not in given for name in _REQUIRED)):
        return original(module)(*args, **kwargs)  # which tells what is wrong
    a = {**_OPTIONAL, **given}
    if not block_takes(module, a):
        return original(module)(*args, **kwargs)
    return run_block(module, a)


def block_takes(module, a):
    """Is everything of one type, and are there rows of modulation for each sample or for each token?"""
    x, y = a["hidden_states"], a["audio_hidden_states"]
    tables = [p for name, p in module.named_parameters(recurse=False)]
    tensors = [*tables, *(a[name] for name in _REQUIRED), a["temb_prompt"], a["temb_prompt_audio"]]
    if not (weightless(module) and takes(*tensors) and same_type(*tensors) and x.dim() == y.dim() == 3
            and not wants_gradient(module, *given_tensors(a))):
        return False
    return all(a[name].dim() == 3 and len(a[name]) == len(of) and a[name].shape[1] in (1, of.shape[1])
               for names, of in ((("temb", "temb_ca_scale_shift", "temb_ca_gate"), x),
                                 (("temb_audio", "temb_ca_audio_scale_shift", "temb_ca_audio_gate"), y))
               for name in names)


def given_tensors(a):
    """The tensors among the arguments; tables are pairs of them."""
    for value in a.values():
        yield from (t for t in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(t, torch.Tensor))


class Vectors:
    """Scales, shifts and gates: a block's table + an embedding. [B, 1, D] or [B, L, D]; or with `group`, [G, D]."""

    def __init__(self, module, table, temb, x):
        rows, self.group = rows_of(temb, x)
        if self.group is None:
            self.of = module.get_mod_params(table, rows, len(rows))
        else:
            self.of = [t[0] for t in module.get_mod_params(table, rows.unsqueeze(0), 1)]


def run_block(module, a):
    x, y = a["hidden_states"], a["audio_hidden_states"]
    video = Vectors(module, module.scale_shift_table, a["temb"], x)
    audio = Vectors(module, module.audio_scale_shift_table, a["temb_audio"], y)
    perturbed = {name: a[name] for name in ("perturbation_mask", "all_perturbed")} if module.perturbed_attn else {}
    # Of the parts of an embedding 0 .. 2 are shift, scale and gate of self-attention, 3 .. 5 of the feed-forward,
    # 6 .. 8 of the text.
    h = module.attn1(hidden_states=modulated(module.norm1, x, video, 1, 0), encoder_hidden_states=None,
                     query_rotary_emb=a["video_rotary_emb"], attention_mask=a["self_attention_mask"], **perturbed)
    x, n = joined(x, h, video, 2, module.norm2, video, *((7, 6) if module.video_cross_attn_adaln else (None, None)))
    h = module.audio_attn1(hidden_states=modulated(module.audio_norm1, y, audio, 1, 0), encoder_hidden_states=None,
                           query_rotary_emb=a["audio_rotary_emb"], attention_mask=a["audio_self_attention_mask"],
                           **perturbed)
    y, m = joined(y, h, audio, 2, module.audio_norm2, audio,
                  *((7, 6) if module.audio_cross_attn_adaln else (None, None)))

    text, audio_text = texts(module, a)
    h = module.attn2(n, encoder_hidden_states=text, query_rotary_emb=None, attention_mask=a["encoder_attention_mask"])
    g = module.audio_attn2(m, encoder_hidden_states=audio_text, query_rotary_emb=None,
                           attention_mask=a["audio_encoder_attention_mask"])
    gate, audio_gate = (8 if adaln else None for adaln in (module.video_cross_attn_adaln,
                                                           module.audio_cross_attn_adaln))
    if a["use_a2v_cross_attention"] or a["use_v2a_cross_attention"]:
        x, n, y, m = across(module, a, x, h, gate, video, y, g, audio_gate, audio)
    else:
        x, n = joined(x, h, video, gate, module.norm3, video, 4, 3)
        y, m = joined(y, g, audio, audio_gate, module.audio_norm3, audio, 4, 3)
    return added(x, module.ff(n), video, 5), added(y, module.audio_ff(m), audio, 5)


def texts(module, a):
    """What the streams see of the text: modulated as a whole in LTX-2.3."""
    found = [a["encoder_hidden_states"], a["audio_encoder_hidden_states"]]
    if module.cross_attn_adaln:
        tables = (module.prompt_scale_shift_table, module.audio_prompt_scale_shift_table)
        for i, (table, temb) in enumerate(zip(tables, (a["temb_prompt"], a["temb_prompt_audio"]))):
            shift, scale = (table[None, None].unbind(dim=2) if temb is None
                            else module.get_mod_params(table, temb, len(a["hidden_states"])))
            found[i] = found[i] * (1 + scale) + shift
    return found


def across(module, a, x, h, gate, video, y, g, audio_gate, audio):
    """From the attention to the text, h and g, which is still to be added, up to the norms of the feed-forward:
    attention of the streams to each other. Both directions begin with the same norms, but other scales and shifts."""
    to_video, to_audio = a["use_a2v_cross_attention"], a["use_v2a_cross_attention"]
    table, audio_table = module.video_a2v_cross_attn_scale_shift_table, module.audio_a2v_cross_attn_scale_shift_table
    ca = Vectors(module, table[:4, :], a["temb_ca_scale_shift"], x)
    audio_ca = Vectors(module, audio_table[:4, :], a["temb_ca_audio_scale_shift"], y)
    first = (0, 1) if to_video else (2, 3)
    x, n = joined(x, h, video, gate, module.audio_to_video_norm, ca, *first)
    y, m = joined(y, g, audio, audio_gate, module.video_to_audio_norm, audio_ca, *first)
    before = x
    if to_video:
        h = module.audio_to_video_attn(n, encoder_hidden_states=m, query_rotary_emb=a["ca_video_rotary_emb"],
                                       key_rotary_emb=a["ca_audio_rotary_emb"],
                                       attention_mask=a["a2v_cross_attention_mask"])
        if to_audio:
            n = modulated(module.audio_to_video_norm, before, ca, 2, 3)
            m = modulated(module.video_to_audio_norm, y, audio_ca, 2, 3)
        x, behind = joined(x, h, Vectors(module, table[4:, :], a["temb_ca_gate"], x), 0, module.norm3, video, 4, 3)
    else:
        behind = modulated(module.norm3, x, video, 4, 3)
    if not to_audio:
        return x, behind, y, modulated(module.audio_norm3, y, audio, 4, 3)
    h = module.video_to_audio_attn(m, encoder_hidden_states=n, query_rotary_emb=a["ca_audio_rotary_emb"],
                                   key_rotary_emb=a["ca_video_rotary_emb"],
                                   attention_mask=a["v2a_cross_attention_mask"])
    gates = Vectors(module, audio_table[4:, :], a["temb_ca_audio_gate"], y)
    return x, behind, *joined(y, h, gates, 0, module.audio_norm3, audio, 4, 3)


def modulated(norm, x, vectors, scale, shift):
    return ops.layer_norm_modulate(x, vectors.of[scale], vectors.of[shift], None, None, vectors.group, norm.eps,
                                   NormKind.RMS, rounds(x), rounds(x))


def joined(x, h, gates, gate, norm, vectors, scale, shift):
    """x + gate h, and the norm of that, modulated. gate, scale and shift are numbers of vectors, or None."""
    gate = None if gate is None else gates.of[gate]
    scale, shift = (None if i is None else vectors.of[i] for i in (scale, shift))
    group, ours, kind = vectors.group, rounds(x), NormKind.RMS
    if gate is not None and scale is not None and not same_group(gates.group, group):
        x = ops.gated_residual(x, h, gate, gates.group, ours)
        return x, ops.layer_norm_modulate(x, scale, shift, None, None, group, norm.eps, kind, ours, ours)
    if gate is not None:
        group = gates.group
    elif scale is None:
        group = None
    return ops.gated_residual_norm_modulate(x, h, gate, scale, shift, None, None, group, norm.eps, kind, ours, ours,
                                            ours)


def same_group(a, b):
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def added(x, h, vectors, gate):
    """x + gate h, in the place of x, which is ours."""
    if torch.compiler.is_compiling():
        return ops.gated_residual(x, h, vectors.of[gate], vectors.group, rounds(x))
    ops.gated_residual.out(x, h, vectors.of[gate], vectors.group, rounds(x), out=x)
    return x


# ---- modulation ----

_KEPT = 8
_rows = ()  # of Seen, newest first


def rows_of(temb, x):
    """An embedding as (rows, group) for the operators. With an image to begin with there is a row for each token,
    although there are but two timesteps: then rows are those few, and group [B, L] has the number of each token's.
    The blocks of a model get the same few embeddings: what was found is kept for the next one."""
    if temb.shape[1] == 1:
        return temb, None
    if torch.compiler.is_compiling() or isinstance(temb, FakeTensor) or temb.is_inference():
        return temb, None
    return found_rows(temb)


@torch.compiler.disable
def found_rows(temb):
    global _rows
    for seen in _rows:
        if seen.same(temb):
            return seen.found if seen.found is not None else (temb, None)
    starts = runs(temb)
    with torch.inference_mode(False), torch.no_grad():
        # None: kept as it is, of which the entry must not keep it alive
        found = None if starts is None else rows_and_group(temb, starts)
        seen = Seen(temb, starts or [0], found)
    _rows = (seen, *(entry for entry in _rows if entry.ref() is not None))[:_KEPT]
    return found if found is not None else (temb, None)


# ---- samples ----

# Heads and their width of the video and of the audio stream, tokens of the audio and of the text. Real: the 19B, and
# five seconds.
SIZES = {"real": ((32, 128), (32, 64), 126, 1024), "tiny": ((4, 16), (4, 8), 9, 11)}


def angles(generator, heads, width, length):
    """Tables of the split kind, as the model makes them."""
    found = torch.rand(1, length, heads, width // 2, generator=generator) * 6
    return tuple(t.transpose(1, 2) for t in (found.cos(), found.sin()))


def block_arguments(tokens, size, dtype, generator, parts=6):
    """Arguments of a block. The text has a mask, which hides nothing, as the pipeline gives it."""
    (heads, width), (audio_heads, audio_width), audio_tokens, text = SIZES[size]
    a = {}
    streams = (("", "", "", heads * width, tokens),
               ("audio_", "_audio", "audio_", audio_heads * audio_width, audio_tokens))
    for prefix, suffix, middle, dim, length in streams:
        a[prefix + "hidden_states"] = random(generator, 1, length, dim)
        a[prefix + "encoder_hidden_states"] = random(generator, 1, text, dim)
        a[prefix + "encoder_attention_mask"] = torch.zeros(1, 1, text)
        for name, n in (("temb" + suffix, parts), (f"temb_ca_{middle}scale_shift", 4), (f"temb_ca_{middle}gate", 1)):
            a[name] = random(generator, 1, 1, n * dim) * 0.5
    a = {name: t.to(dtype) for name, t in a.items()}
    a["video_rotary_emb"] = angles(generator, heads, width, tokens)
    a["audio_rotary_emb"] = angles(generator, audio_heads, audio_width, audio_tokens)
    a["ca_video_rotary_emb"] = angles(generator, audio_heads, audio_width, tokens)
    a["ca_audio_rotary_emb"] = angles(generator, audio_heads, audio_width, audio_tokens)
    return a


@sample(_MODEL + "LTX2VideoTransformerBlock")
def block_sample(tokens, size, dtype, generator):
    from diffusers.models.transformers.transformer_ltx2 import LTX2VideoTransformerBlock

    (heads, width), (audio_heads, audio_width), *_ = SIZES[size]
    dim, audio_dim = heads * width, audio_heads * audio_width
    module = LTX2VideoTransformerBlock(dim, heads, width, dim, audio_dim, audio_heads, audio_width, audio_dim,
                                       rope_type="split")
    return in_type(module, dtype, generator), (), block_arguments(tokens, size, dtype, generator)


@sample(_MODEL + "LTX2Attention")
def attention_sample(tokens, size, dtype, generator):
    """Self-attention of the video stream."""
    from diffusers.models.transformers.transformer_ltx2 import LTX2Attention

    heads, width = SIZES[size][0]
    module = LTX2Attention(heads * width, heads, heads, width, rope_type="split")
    x = random(generator, 1, tokens, heads * width).to(dtype)
    return in_type(module, dtype, generator), (x, None, None, angles(generator, heads, width, tokens)), {}


@sample(_NORM)
def norm_sample(tokens, size, dtype, generator):
    from diffusers.models.normalization import RMSNorm

    dim = SIZES[size][0][0] * SIZES[size][0][1]
    module = RMSNorm(dim, 1e-6)
    return in_type(module, dtype, generator), (random(generator, 1, tokens, dim).to(dtype),), {}


def in_type(module, dtype, generator):
    return randomise(module, generator).to(dtype).eval().requires_grad_(False)
