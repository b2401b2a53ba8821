"""zoetrope.patch: the official LTX-2 code (package `ltx_core`).

Its tables of angles differ by head, so that qk_norm_rope does not fit: q_norm and k_norm are called (torch_nn.py has
their rule), then rotary_mul. In f16 and bf16 the official rotary rounds after each step, which rotary_mul does not:
those go to the original. Norms, modulation and residuals of a block round in each type as the official code does.

A newer version may have the same parameters and another body: forwards are compared with what version 1.0.0 refers to,
the names in its byte code. A change of the order of the same names is not noticed.
"""
import dataclasses
import hashlib

import torch
from torch.utils import _pytree as pytree

from .. import RotaryPairing
from ..torch_ops import ops
from .rule import Leave, Replacement, original, randomise, rule, sample, takes, wants_gradient

_TRANSFORMER = "ltx_core.model.transformer."
NAMES = {"Attention": "2a95a3d965a002c3", "BasicAVTransformerBlock": "782dc6fc21ce507d"}  # of version 1.0.0


def names_of(cls, *others):
    """A digest of the names that a class's forward and these functions refer to."""
    names = [sorted(set(f.__code__.co_names)) for f in (cls.forward, *others)]
    return hashlib.sha256(repr(names).encode()).hexdigest()[:16]


def of_known_version(cls, *others):
    if names_of(cls, *others) != NAMES[cls.__name__]:
        raise Leave("another version of the class: its forward does other things than that of ltx-core 1.0.0")


def official_rope(module):
    """Is the function that turns q and k still that of the package? People replace it."""
    found = getattr(type(module).forward, "__globals__", {}).get("apply_rotary_emb")
    name = f"{getattr(found, '__module__', None)}.{getattr(found, '__name__', None)}"
    return name == _TRANSFORMER + "rope.apply_rotary_emb"


@rule(_TRANSFORMER + "attention.Attention",
      parameters=("x", "context", "mask", "pe", "k_pe", "perturbation_mask", "all_perturbed"))
def attention(module):
    cls = next(c for c in type(module).__mro__ if c.__name__ == "Attention")
    of_known_version(cls)
    if not official_rope(module):
        raise Leave("apply_rotary_emb has been replaced")
    if module.rope_type.value not in ("split", "interleaved"):
        raise Leave(f"its rope_type is {module.rope_type.value}")
    return Replacement(attention_forward, "rotary_mul in f32")


def fits(tables, x, heads, width, split):
    """Are cos and sin in f32 and shaped as the package makes them for x [B or 1, T, heads * width]?"""
    cos, sin = tables
    shape = (heads, x.shape[1], width // 2) if split else (x.shape[1], heads * width)
    return (cos.dtype == sin.dtype == torch.float32 and cos.shape == sin.shape and cos.shape[1:] == shape
            and cos.shape[0] == x.shape[0])


def turn(x, tables, heads, split):
    cos, sin = tables
    if not split:
        return ops.rotary_mul(x, cos, sin, RotaryPairing.INTERLEAVE)
    cos, sin = cos.transpose(1, 2), sin.transpose(1, 2)
    return ops.rotary_mul(x.unflatten(2, (heads, -1)), cos, sin, RotaryPairing.HALF, True).flatten(2)


def attention_forward(module, x, context=None, mask=None, pe=None, k_pe=None, perturbation_mask=None,
                      all_perturbed=False):
    def old():
        return original(module)(x, context, mask, pe, k_pe, perturbation_mask, all_perturbed)

    if pe is None or all_perturbed or not official_rope(module):
        return old()
    source, k_tables = x if context is None else context, pe if k_pe is None else k_pe
    split = module.rope_type.value == "split"
    weights = list(module.parameters())
    if not (takes(x, source, *pe, *k_tables, *weights) and x.dim() == source.dim() == 3
            and all(t.dtype == torch.float32 for t in (x, source, *weights))
            and fits(pe, x, module.heads, module.dim_head, split)
            and fits(k_tables, source, module.heads, module.dim_head, split)):
        return old()
    v = module.to_v(source)
    q, k = module.q_norm(module.to_q(x)), module.k_norm(module.to_k(source))
    q, k = turn(q, pe, module.heads, split), turn(k, k_tables, module.heads, split)
    out = module.attention_function(q, k, v, module.heads, mask)
    if perturbation_mask is not None:
        out = out * perturbation_mask + v * (1 - perturbation_mask)
    if module.to_gate_logits is not None:
        gates = 2.0 * torch.sigmoid(module.to_gate_logits(x))
        out = (out.unflatten(2, (module.heads, module.dim_head)) * gates.unsqueeze(-1)).flatten(2)
    return module.to_out(out)


# ---- the block ----


@rule(_TRANSFORMER + "transformer.BasicAVTransformerBlock", parameters=("video", "audio", "perturbations"))
def block(module):
    cls = next(c for c in type(module).__mro__ if c.__name__ == "BasicAVTransformerBlock")
    functions = [getattr(type(module), n) for n in ("get_ada_values", "get_av_ca_ada_values",
                                                    "_apply_text_cross_attention")]
    functions.append(cls.forward.__globals__.get("apply_cross_attention_adaln"))
    if not all(hasattr(f, "__code__") for f in functions):
        raise Leave("a function that its forward calls has been replaced")
    of_known_version(cls, *functions)
    return Replacement(block_forward, "layer_norm_modulate, gated_residual, gated_residual_norm_modulate; torch's: "
                                      "modulation of the text, masks of perturbations, products, attention")


def stream_fits(args):
    """Are x and all that modulates it in one type, for us?"""
    if args is None:
        return True
    given = (args.timesteps, args.prompt_timestep, args.cross_scale_shift_timestep, args.cross_gate_timestep)
    return (takes(args.x, args.context, *given) and args.x.dim() == 3 and args.x.numel() > 0
            and all(t is None or t.dtype == args.x.dtype for t in (args.context, *given)))


def half(x):
    return None if x.dtype == torch.float32 else x.dtype


def modulated(module, x, scale, shift):
    return ops.layer_norm_modulate(x, scale, shift, None, None, None, module.norm_eps, 1, half(x), half(x), x.dtype)


def joined(module, x, h, gate, scale, shift):
    """x + h * gate, and that normed and modulated."""
    return ops.gated_residual_norm_modulate(x, h, gate, scale, shift, None, None, None, module.norm_eps, 1, half(x),
                                            half(x), half(x), x.dtype)


def block_forward(module, video, audio, perturbations=None):
    def old():
        return original(module)(video, audio, perturbations)

    if (video is None and audio is None) or not (stream_fits(video) and stream_fits(audio)):
        return old()
    mixed = video is not None and audio is not None and video.x.dtype != audio.x.dtype
    if mixed or wants_gradient(module) or not takes(*module.parameters(recurse=False)):
        return old()
    names = type(module).forward.__globals__
    Skip = names["PerturbationType"]
    if perturbations is None:
        perturbations = names["BatchedPerturbationConfig"].empty(len((video or audio).x))
    run_v, run_a = video is not None and video.enabled, audio is not None and audio.enabled
    both = video is not None and audio is not None
    a2v = run_v and both and not perturbations.all_in_batch(Skip.SKIP_A2V_CROSS_ATTN, module.idx)
    v2a = run_a and both and not perturbations.all_in_batch(Skip.SKIP_V2A_CROSS_ATTN, module.idx)
    vx, ax, vn, an = video and video.x, audio and audio.x, None, None
    if run_v:
        vx, vn = own_part(module, video, "", perturbations, Skip.SKIP_VIDEO_SELF_ATTN, a2v or v2a)
    if run_a:
        ax, an = own_part(module, audio, "audio_", perturbations, Skip.SKIP_AUDIO_SELF_ATTN, a2v or v2a)
    if a2v or v2a:
        vx, ax = across(module, video, audio, vx, ax, a2v, v2a, perturbations, Skip)
    if run_v:
        vx = mlp_part(module, video, "", vx, vn)
    if run_a:
        ax = mlp_part(module, audio, "audio_", ax, an)
    return (None if video is None else dataclasses.replace(video, x=vx),
            None if audio is None else dataclasses.replace(audio, x=ax))


def ada(module, args, prefix, part):
    return module.get_ada_values(getattr(module, prefix + "scale_shift_table"), len(args.x), args.timesteps, part)


def own_part(module, args, prefix, perturbations, kind, crosses):
    """Self-attention and attention to the text. Returns x, and x normed for the MLP unless something comes between."""
    x = args.x
    shift, scale, gate = ada(module, args, prefix, slice(0, 3))
    whole = perturbations.all_in_batch(kind, module.idx)
    some = not whole and perturbations.any_in_batch(kind, module.idx)
    mask = perturbations.mask_like(kind, module.idx, x) if some else None
    h = getattr(module, prefix + "attn1")(modulated(module, x, scale, shift), pe=args.positional_embeddings,
                                          mask=args.self_attention_mask, perturbation_mask=mask, all_perturbed=whole)
    context, shift_q, scale_q, gate_q = args.context, None, None, None
    if module.cross_attention_adaln:
        shift_q, scale_q, gate_q = ada(module, args, prefix, slice(6, 9))
        table, step = getattr(module, prefix + "prompt_scale_shift_table"), args.prompt_timestep
        shift_k, scale_k = (table[None, None].to(x.dtype)
                            + step.reshape(len(x), step.shape[1], 2, -1)).unbind(dim=2)
        context = context * (1 + scale_k) + shift_k
    x, n = joined(module, x, h, gate, scale_q, shift_q)
    h = getattr(module, prefix + "attn2")(n, context=context, mask=args.context_mask)
    if crosses:
        return ops.gated_residual(x, h, gate_q, None, half(x)), None
    shift, scale, _ = ada(module, args, prefix, slice(3, 6))
    return joined(module, x, h, gate_q, scale, shift)


def mlp_part(module, args, prefix, x, n):
    shift, scale, gate = ada(module, args, prefix, slice(3, 6))
    h = getattr(module, prefix + "ff")(modulated(module, x, scale, shift) if n is None else n)
    return ops.gated_residual(x, h, gate, None, half(x))


def across(module, video, audio, vx, ax, a2v, v2a, perturbations, kinds):
    """Both directions start from the streams as they are before."""
    def values(args, name, part):
        return module.get_av_ca_ada_values(getattr(module, "scale_shift_table_a2v_ca_" + name), len(args.x),
                                           args.cross_scale_shift_timestep, args.cross_gate_timestep, part)

    def attended(attn, to, to_n, source, source_n, gate, kind, x):
        h = attn(to_n, context=source_n, pe=to.cross_positional_embeddings, k_pe=source.cross_positional_embeddings)
        if perturbations.any_in_batch(kind, module.idx):
            return x + h * gate * perturbations.mask_like(kind, module.idx, x)
        return ops.gated_residual(x, h, gate, None, half(x))

    v0, a0 = vx, ax
    for runs, part in ((a2v, slice(0, 2)), (v2a, slice(2, 4))):
        if not runs:
            continue
        v_scale, v_shift, v_gate = values(video, "video", part)
        a_scale, a_shift, a_gate = values(audio, "audio", part)
        vn, an = modulated(module, v0, v_scale, v_shift), modulated(module, a0, a_scale, a_shift)
        if part.start == 0:
            vx = attended(module.audio_to_video_attn, video, vn, audio, an, v_gate, kinds.SKIP_A2V_CROSS_ATTN, vx)
        else:
            ax = attended(module.video_to_audio_attn, audio, an, video, vn, a_gate, kinds.SKIP_V2A_CROSS_ATTN, ax)
    return vx, ax


@sample(_TRANSFORMER + "attention.Attention")
def attention_sample(tokens, size, dtype, generator):
    """Self-attention of the video stream, with the split rotary of the published files."""
    from ltx_core.model.transformer.attention import Attention
    from ltx_core.model.transformer.rope import LTXRopeType
    heads, width = (32, 128) if size == "real" else (4, 16)
    module = randomise(Attention(heads * width, heads=heads, dim_head=width, rope_type=LTXRopeType.SPLIT), generator)
    angles = torch.rand(1, heads, tokens, width // 2, generator=generator) * 6
    x = torch.randn(1, tokens, heads * width, generator=generator)
    return module.to(dtype), (x.to(dtype),), {"pe": (angles.cos().to(dtype), angles.sin().to(dtype))}


@sample(_TRANSFORMER + "transformer.BasicAVTransformerBlock")
def block_sample(tokens, size, dtype, generator):
    """Both streams in the manner of 2.0, a quarter as many tokens of audio; one timestep."""
    return block_of(tokens, size, dtype, generator)


def block_of(tokens, size, dtype, generator, audio=True, adaln=False):
    """A block for samples and tests: with or without audio, in the manner of 2.3 (`adaln`, gates) or of 2.0."""
    from ltx_core.model.transformer.rope import LTXRopeType
    from ltx_core.model.transformer.transformer import BasicAVTransformerBlock, TransformerConfig
    from ltx_core.model.transformer.transformer_args import TransformerArgs
    if TransformerArgs not in pytree.SUPPORTED_NODES:  # the check looks for tensors in trees
        pytree.register_dataclass(TransformerArgs)
    heads, v_width, a_width, text = (32, 128, 64, 1024) if size == "real" else (4, 16, 8, 11)
    v_dim, a_dim = heads * v_width, heads * a_width
    configs = [TransformerConfig(d, heads, w, d, adaln, adaln) for d, w in ((v_dim, v_width), (a_dim, a_width))]
    module = BasicAVTransformerBlock(0, configs[0], configs[1] if audio else None, LTXRopeType.SPLIT)
    module = randomise(module, generator).to(dtype).eval()
    rows = 9 if adaln else 6

    def random(*shape):
        return torch.randn(shape, generator=generator).to(dtype)

    def tables(length, width):
        angles = torch.rand(1, heads, length, width // 2, generator=generator) * 6
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def stream(length, dim, width):
        cross = (tables(length, a_width), random(1, 1, 4 * dim), random(1, 1, dim)) if audio else (None,) * 3
        return TransformerArgs(random(1, length, dim), random(1, text, dim), None, random(1, 1, rows * dim),
                               random(1, 1, dim), tables(length, width), *cross, True,
                               random(1, 1, 2 * dim) if adaln else None)

    v = stream(tokens, v_dim, v_width)
    return module, (v, stream(max(tokens // 4, 1), a_dim, a_width) if audio else None), {}
