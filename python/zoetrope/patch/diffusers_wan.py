"""zoetrope.patch: Wan of diffusers.

Its norms of q and k round before the rotary embedding, which the fused operator does not; in f16 and bf16 both are
computed one after the other. Attention is ours where that of diffusers is torch's scaled_dot_product_attention,
without a mask.
"""
import torch

from .. import Activation, AttentionLayout, RmsOrder, RotaryPairing
from ..torch_ops import ops
from .rule import Leave, Replacement, full_name, original, randomise, rule, sample, takes, wants_gradient
from .wan import gelu_of, grid_of, per_token, random

_WAN = "diffusers.models.transformers.transformer_wan."
_ANIMATE = "diffusers.models.transformers.transformer_wan_animate."
_VACE = "diffusers.models.transformers.transformer_wan_vace."
_NORM = "diffusers.models.normalization.FP32LayerNorm"


@rule(_NORM, parameters=("inputs",))
def fp32_layer_norm(module):
    if len(module.normalized_shape) != 1:
        raise Leave("it normalises several axes")
    return Replacement(fp32_layer_forward, "layer_norm")


def fp32_layer_forward(module, inputs):
    w, b = module.weight, module.bias
    if not (takes(inputs, w, b, gradients=True, autocast=True) and 1 <= inputs.dim() <= 5
            and inputs.shape[-1:] == module.normalized_shape):
        return original(module)(inputs)
    return ops.layer_norm(inputs, w, b, module.eps)[0]


@rule("diffusers.models.autoencoders.autoencoder_kl_wan.WanRMS_norm", parameters=("x",))
def vae_norm(module):
    return Replacement(vae_forward, "l2_norm where channels lie side by side (memory_format=channels_last_3d) in f32; "
                                    "other memory is torch's, which is faster than turning it round")


def vae_forward(module, x):
    """In f16 and bf16 the length is not rounded, as it is in the official code and in the operator."""
    gamma, bias = module.gamma, module.bias if isinstance(module.bias, torch.Tensor) else None
    axis = 1 if module.channel_first else -1
    if not takes(x, gamma, bias, autocast=True) or x.dim() < 2 or x.dim() > 5 or x.dtype != torch.float32:
        return original(module)(x)
    rows, vectors = x.movedim(axis, -1), (gamma, bias) if bias is not None else (gamma,)
    if (not rows.is_contiguous() or any(t.dtype != x.dtype or t.numel() != rows.shape[-1] for t in vectors)
            or module.scale != rows.shape[-1] ** 0.5):
        return original(module)(x)
    y = ops.l2_norm(rows, gamma.flatten(), None if bias is None else bias.flatten(), strict_torch=True)
    return y.movedim(-1, axis)


@rule("diffusers.models.activations.GELU", parameters=("hidden_states",))
def gelu(module):
    if module.approximate not in ("tanh", "none"):
        raise Leave(f"approximate is {module.approximate}")
    return Replacement(gelu_forward, "activate")


def gelu_forward(module, hidden_states):
    kind = Activation.GELU_TANH if module.approximate == "tanh" else Activation.GELU_ERF
    return gelu_of(module.proj, hidden_states, kind)


# ---- attention ----


def processor_names(module):
    """The global names of the processor's code, if it is WanAttnProcessor and computes attention by torch's
    scaled_dot_product_attention; or None."""
    processor = module.processor
    if full_name(type(processor)) not in (_WAN + "WanAttnProcessor", _ANIMATE + "WanAttnProcessor"):
        return None
    names = type(processor).__call__.__globals__
    dispatch = names.get("dispatch_attention_fn")
    if (getattr(dispatch, "__module__", None) != "diffusers.models.attention_dispatch"
            or getattr(processor, "_parallel_config", None) is not None or "_get_qkv_projections" not in names):
        return None
    backend = getattr(processor, "_attention_backend", None)
    if backend is None:
        backend = dispatch.__globals__["_AttentionBackendRegistry"].get_active_backend()[0]
    return names if backend == "native" else None


@rule(_WAN + "WanAttention", _ANIMATE + "WanAttention",
      parameters=("hidden_states", "encoder_hidden_states", "attention_mask", "rotary_emb", "kwargs"))
def attention(module):
    if processor_names(module) is None:
        raise Leave(f"its processor is {type(module.processor).__name__}, with another backend than torch's or "
                    "for several ranks")
    norms = ["norm_q", "norm_k"] + (["norm_added_k"] if module.add_k_proj is not None else [])
    if any(full_name(type(getattr(module, name))) != "torch.nn.modules.normalization.RMSNorm" for name in norms):
        raise Leave("a norm of q or k is of another class")
    turned = not module.is_cross_attention
    what = "qk_norm_rope (f16, bf16: rms_norm, rotary_mul), attention" if turned else "rms_norm, attention"
    return Replacement(attention_forward, what, within=norms)


def attention_forward(module, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None,
                      **kwargs):
    names = processor_names(module)
    added = [module.norm_added_k.weight] if module.add_k_proj is not None else []
    tables = rotary_emb if rotary_emb is not None else ()
    if not (names is not None and not kwargs and attention_mask is None and hidden_states.dim() == 3
            and takes(hidden_states, encoder_hidden_states, module.norm_q.weight, module.norm_k.weight, *added, *tables)
            and known_tables(module, hidden_states, tables) and (added == [] or encoder_hidden_states is not None)
            and same_batch(hidden_states, encoder_hidden_states) and not wants_gradient(module)):
        return original(module)(hidden_states, encoder_hidden_states, attention_mask, rotary_emb, **kwargs)
    image = None
    context = encoder_hidden_states
    if added:
        length = context.shape[1] - 512  # of the text, as in the processor
        image, context = context[:, :length], context[:, length:]
    q, k, v = names["_get_qkv_projections"](module, hidden_states, context)
    both = names["_get_added_kv_projections"](module, image) if added else ()
    if not takes(q, k, v, *both) or len({t.dtype for t in (q, k, v, *both, *added)}) > 1 or not weighted(module, q, k):
        return original(module)(hidden_states, encoder_hidden_states, attention_mask, rotary_emb, **kwargs)
    q, k = normed(module, q, k, tables)
    y = attend(module, q, k, v)
    if added:
        k = rms(module.norm_added_k, both[0])
        y = y + attend(module, q, k, both[1])
    return module.to_out[1](module.to_out[0](y))


def same_batch(x, context):
    """Torch's attention takes one sample for several."""
    return context is None or (context.dim() == 3 and len(context) == len(x))


def known_tables(module, x, tables):
    """Are cos and sin f32 [1, L, 1, D], D the width of a head?"""
    return tables == () or (len(tables) == 2 and all(
        t.dtype == torch.float32 and t.dim() == 4 and t.shape[0] == t.shape[2] == 1 and t.shape[1] == x.shape[1]
        and t.shape[3] * module.heads == module.inner_dim for t in tables))


def weighted(module, q, k):
    """Torch's norm of a weight in another type is another one."""
    return all(t.dim() == 3 and norm.weight is not None and norm.weight.dtype == t.dtype
               and norm.weight.shape == t.shape[-1:] for norm, t in ((module.norm_q, q), (module.norm_k, k)))


def rms(norm, x):
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    return ops.rms_norm(x, norm.weight, eps, RmsOrder.MUL_F32)[0]


def normed(module, q, k, tables):
    """q and k, normed, and turned if there are tables. Of these the code reads every second entry, of cos from the
    first one on, of sin from the second."""
    if not tables:
        return rms(module.norm_q, q), rms(module.norm_k, k)
    cos, sin = tables[0][..., 0::2], tables[1][..., 1::2]
    if q.dtype == torch.float32 and q.shape == k.shape and module.norm_q.eps == module.norm_k.eps is not None:
        return ops.qk_norm_rope(q, k, cos[:, :, 0], sin[:, :, 0], module.norm_q.weight, module.norm_k.weight,
                                module.norm_q.eps, RmsOrder.MUL_F32, False, RotaryPairing.INTERLEAVE)
    found = []
    for norm, x in ((module.norm_q, q), (module.norm_k, k)):
        x = rms(norm, x).unflatten(2, (module.heads, -1))
        found.append(ops.rotary_mul(x, cos, sin, RotaryPairing.INTERLEAVE, True).flatten(2))
    return found


def attend(module, q, k, v):
    """[B, L, N D]"""
    q, k, v = (t.unflatten(2, (module.heads, -1)) for t in (q, k, v))
    y = ops.fused_infer_attention_score(q, k, v, None, None, None, module.heads, 0, q.shape[3] ** -0.5,
                                        AttentionLayout.BSND)[0]
    return y.flatten(2)


# ---- blocks ----


def block_children(module):
    """norm1 and norm3 are FP32LayerNorm, norm2 may be nothing; the names of those that are norms."""
    names = ("norm1", "norm2", "norm3")
    kinds = [full_name(type(getattr(module, name))) for name in names]
    if kinds[0] != _NORM or kinds[2] != _NORM or kinds[1] not in (_NORM, "torch.nn.modules.linear.Identity"):
        raise Leave("a norm is of another class")
    return tuple(name for name, kind in zip(names, kinds) if kind == _NORM)


_BLOCK = "layer_norm_modulate, gated_residual_norm_modulate"


@rule(_WAN + "WanTransformerBlock", _ANIMATE + "WanTransformerBlock",
      parameters=("hidden_states", "encoder_hidden_states", "temb", "rotary_emb"))
def block(module):
    return Replacement(block_forward, _BLOCK, within=block_children(module))


def block_forward(module, hidden_states, encoder_hidden_states, temb, rotary_emb):
    if not block_takes(module, hidden_states, encoder_hidden_states, temb, rotary_emb, (3, 4)):
        return original(module)(hidden_states, encoder_hidden_states, temb, rotary_emb)
    return run_block(module, hidden_states, encoder_hidden_states, temb, rotary_emb)


@rule(_VACE + "WanVACETransformerBlock",
      parameters=("hidden_states", "encoder_hidden_states", "control_hidden_states", "temb", "rotary_emb"))
def vace_block(module):
    return Replacement(vace_forward, _BLOCK, within=block_children(module))


def vace_forward(module, hidden_states, encoder_hidden_states, control_hidden_states, temb, rotary_emb):
    if (not block_takes(module, control_hidden_states, encoder_hidden_states, temb, rotary_emb, (3,))
            or not takes(hidden_states, autocast=True) or hidden_states.shape != control_hidden_states.shape):
        return original(module)(hidden_states, encoder_hidden_states, control_hidden_states, temb, rotary_emb)
    if module.proj_in is not None:
        control_hidden_states = module.proj_in(control_hidden_states) + hidden_states
    y = run_block(module, control_hidden_states, encoder_hidden_states, temb, rotary_emb)
    return module.proj_out(y) if module.proj_out is not None else None, y


def block_takes(module, x, context, temb, rotary_emb, ranks):
    affine = [t for name in ("norm1", "norm2", "norm3") for t in (getattr(getattr(module, name), "weight", None),
                                                                  getattr(getattr(module, name), "bias", None))]
    return (takes(x, temb, module.scale_shift_table, *affine, autocast=True) and x.dim() == 3 and temb.dim() in ranks
            and (temb.dim() == 3 or temb.shape[1] in (1, x.shape[1])) and len(temb) in (1, len(x))
            and temb.shape[-1] == x.shape[-1] and same_batch(x, context)
            and not wants_gradient(module, context, *(rotary_emb or ())))


def run_block(module, x, context, temb, rotary_emb):
    """Norms and modulation are in f32, and what comes of them is rounded to the type of x."""
    norm1, norm2, norm3 = module.norm1, module.norm2, module.norm3
    rows, group = (temb.unsqueeze(1), None) if temb.dim() == 3 else per_token(temb, x)
    vectors = module.scale_shift_table.squeeze(0) + rows.float()
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = vectors.unbind(-2)
    h = module.attn1(modulated(norm1, x, scale, shift, group), None, None, rotary_emb)
    if full_name(type(norm2)) == _NORM:
        x, n = ops.gated_residual_norm_modulate(x, h, gate, None, None, norm2.weight, norm2.bias, group, norm2.eps)
    else:
        x = ops.gated_residual(x, h, gate, group)
        n = norm2(x)
    h = module.attn2(n, context, None, None)
    if n is not x and h.dtype == x.dtype and not torch.compiler.is_compiling():
        x.add_(h)  # x is ours, and nobody else has it
    else:
        x = x + h
    h = module.ffn(modulated(norm3, x, ffn_scale, ffn_shift, group))
    if torch.compiler.is_compiling():
        return ops.gated_residual(x, h, ffn_gate, group)
    ops.gated_residual.out(x, h, ffn_gate, group, out=x)
    return x


def modulated(norm, x, scale, shift, group):
    return ops.layer_norm_modulate(x, scale, shift, norm.weight, norm.bias, group, norm.eps)


# ---- samples ----

SIZES = {"real": (5120, 13824, 40), "tiny": (48, 96, 4)}  # A14B


def rotary_of(width, grid):
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    rope = WanRotaryPosEmbed(width, (1, 1, 1), 1024)
    return rope(torch.empty(1, 1, *grid))


def block_inputs(tokens, size, dtype, generator):
    dim, _, heads = SIZES[size]
    grid = grid_of(tokens)
    length = grid[0] * grid[1] * grid[2]
    return (random(generator, 1, length, dim).to(dtype), random(generator, 1, 512, dim).to(dtype),
            random(generator, 1, 6, dim).to(dtype), rotary_of(dim // heads, grid))


@sample(_WAN + "WanTransformerBlock")
def block_sample(tokens, size, dtype, generator):
    from diffusers.models.transformers.transformer_wan import WanTransformerBlock

    dim, ffn_dim, heads = SIZES[size]
    module = WanTransformerBlock(dim, ffn_dim, heads, cross_attn_norm=True)
    return in_type(module, dtype, generator), block_inputs(tokens, size, dtype, generator), {}


@sample(_VACE + "WanVACETransformerBlock")
def vace_sample(tokens, size, dtype, generator):
    from diffusers.models.transformers.transformer_wan_vace import WanVACETransformerBlock

    dim, ffn_dim, heads = SIZES[size]
    module = WanVACETransformerBlock(dim, ffn_dim, heads, cross_attn_norm=True, apply_input_projection=True,
                                     apply_output_projection=True)
    x, context, temb, rotary = block_inputs(tokens, size, dtype, generator)
    control = random(generator, *x.shape).to(dtype)
    return in_type(module, dtype, generator), (x, context, control, temb, rotary), {}


@sample(_WAN + "WanAttention")
def attention_sample(tokens, size, dtype, generator):
    from diffusers.models.transformers.transformer_wan import WanAttention, WanAttnProcessor

    dim, _, heads = SIZES[size]
    module = WanAttention(dim, heads, dim // heads, eps=1e-6, processor=WanAttnProcessor())
    x, _, _, rotary = block_inputs(tokens, size, dtype, generator)
    return in_type(module, dtype, generator), (x, None, None, rotary), {}


@sample(_NORM)
def norm_sample(tokens, size, dtype, generator):
    from diffusers.models.normalization import FP32LayerNorm

    dim = SIZES[size][0]
    module = FP32LayerNorm(dim, 1e-6)
    return in_type(module, dtype, generator), (random(generator, 1, tokens, dim).to(dtype),), {}


def in_type(module, dtype, generator):
    """Weights in `dtype`, but for those that from_pretrained keeps in f32."""
    module = randomise(module, generator).to(dtype).eval().requires_grad_(False)
    for name, child in module.named_children():
        if name in ("norm1", "norm2", "norm3"):
            child.float()
    if hasattr(module, "scale_shift_table"):
        module.scale_shift_table.data = module.scale_shift_table.data.float()
    return module
