"""zoetrope.patch: the RMSNorms of Hugging Face's transformers, each with its own order of roundings.

Many families have copies of the same few classes; those that are listed compute the same as the first of their list.
Apex's norms, which some versions of transformers take for T5's, are other classes and have no rule.
"""
import importlib

import torch

from .. import RmsOrder
from ..torch_ops import ops
from .rule import Leave, Replacement, original, randomise, rule, sample, takes


def classes(**names):
    """Full names from model="Class"."""
    return [f"transformers.models.{model}.modeling_{model}.{name}" for model, name in names.items()]


# x s in f32, rounded to the type of x, times the weight; the product has the type that the two promote to.
LLAMA = classes(
    llama="LlamaRMSNorm", mistral="MistralRMSNorm", ministral3="Ministral3RMSNorm", mistral3="Mistral3RMSNorm",
    mixtral="MixtralRMSNorm", pixtral="PixtralRMSNorm", qwen2="Qwen2RMSNorm", qwen2_moe="Qwen2MoeRMSNorm",
    qwen2_vl="Qwen2VLRMSNorm", qwen2_5_vl="Qwen2_5_VLRMSNorm", qwen2_5_omni="Qwen2_5OmniRMSNorm", qwen3="Qwen3RMSNorm",
    qwen3_moe="Qwen3MoeRMSNorm", qwen3_vl="Qwen3VLTextRMSNorm", qwen3_vl_moe="Qwen3VLMoeTextRMSNorm",
    phi3="Phi3RMSNorm", smollm3="SmolLM3RMSNorm", glm4="Glm4RMSNorm", granite="GraniteRMSNorm",
    deepseek_v3="DeepseekV3RMSNorm", olmoe="OlmoeRMSNorm", mllama="MllamaTextRMSNorm")
# x s w in f32, rounded once to the type of x.
OLMO2 = classes(olmo2="Olmo2RMSNorm", olmo3="Olmo3RMSNorm", gpt_oss="GptOssRMSNorm")
# x s (1 + w) in f32, rounded once to the type of x.
GEMMA = classes(
    gemma="GemmaRMSNorm", gemma2="Gemma2RMSNorm", gemma3="Gemma3RMSNorm", recurrent_gemma="RecurrentGemmaRMSNorm",
    t5gemma="T5GemmaRMSNorm", qwen3_next="Qwen3NextRMSNorm", qwen3_5="Qwen3_5RMSNorm")
# x s in f32, rounded to the type of the weight if that is f16 or bf16, times the weight; the result has that type.
T5 = classes(
    t5="T5LayerNorm", umt5="UMT5LayerNorm", mt5="MT5LayerNorm", longt5="LongT5LayerNorm",
    switch_transformers="SwitchTransformersLayerNorm", pix2struct="Pix2StructLayerNorm")


def suits(module, epsilon):
    """Has a module what the forwards below read?"""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 1 or weight.numel() == 0:
        raise Leave("its weight is not a vector")
    if not isinstance(getattr(module, epsilon, None), float):
        raise Leave(f"its {epsilon} is not a number")


def normed(module, x, eps, order, dtype=None):
    """The norm by our operator, or the module's own where x or the weight is not for it."""
    w = module.weight
    if not (x.dim() <= 5 and x.shape[-1:] == w.shape and takes(x, w, gradients=True)):
        return original(module)(x)
    return ops.rms_norm(x, w, eps, order, dtype=dtype)[0]


@rule(*LLAMA, parameters=("hidden_states",))
def llama(module):
    suits(module, "variance_epsilon")
    return Replacement(llama_forward, "rms_norm, rounded before the weight")


def llama_forward(module, hidden_states):
    return normed(module, hidden_states, module.variance_epsilon, RmsOrder.CAST_THEN_MUL,
                  torch.promote_types(hidden_states.dtype, module.weight.dtype))


@rule(*OLMO2, parameters=("hidden_states",))
def olmo2(module):
    suits(module, "variance_epsilon")
    return Replacement(olmo2_forward, "rms_norm, rounded at the end")


def olmo2_forward(module, hidden_states):
    return normed(module, hidden_states, module.variance_epsilon, RmsOrder.MUL_F32)


@rule(*GEMMA, parameters=("x",))
def gemma(module):
    suits(module, "eps")
    return Replacement(gemma_forward, "rms_norm times 1 + weight, rounded at the end")


def gemma_forward(module, x):
    return normed(module, x, module.eps, RmsOrder.ONE_PLUS_GAMMA)


@rule(*T5, parameters=("hidden_states",))
def t5(module):
    suits(module, "variance_epsilon")
    return Replacement(t5_forward, "rms_norm, rounded to the weight's type before the weight")


def t5_forward(module, hidden_states):
    return normed(module, hidden_states, module.variance_epsilon, RmsOrder.T5, module.weight.dtype)


# ---- samples ----


def importing(name):
    """A class by its full name, from the package."""
    module, _, cls = name.rpartition(".")
    return getattr(importlib.import_module(module), cls)


def normal(*shape, dtype, generator):
    return torch.randn(shape, generator=generator).to(dtype)


def norm_sample(name, width):
    """A norm of a model's hidden states; the tiny one has an odd width."""
    def make(tokens, size, dtype, generator):
        width_ = width if size == "real" else 67
        module = randomise(importing(name)(width_), generator, 0.2).to(dtype)
        return module, (normal(1, tokens, width_, dtype=dtype, generator=generator),), {}
    sample(name)(make)


# The widths of Llama 3.1 8B, OLMo 2 7B, Gemma 3 12B and UMT5 XXL.
for _names, _width in ((LLAMA, 4096), (OLMO2, 4096), (GEMMA, 3840), (T5, 4096)):
    for _name in _names:
        norm_sample(_name, _width)


def positions(tokens, width, dtype, theta=10000.0):
    """cos and sin [1, tokens, width] as the models' rotary embeddings give them to their layers."""
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(tokens, dtype=torch.float64)[None, :, None] * frequency
    angle = torch.cat((angle, angle), -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def decoder_layer(model, prefix, tiny, real, tokens, size, dtype, generator, theta):
    """A decoder layer with causal attention, and hidden states with the tables of their positions."""
    base = f"transformers.models.{model}."
    config = importing(f"{base}configuration_{model}.{prefix}Config")(
        **(real if size == "real" else tiny), num_hidden_layers=1, attn_implementation="sdpa")
    name = prefix.removesuffix("Text") + "DecoderLayer"
    layer = importing(f"{base}modeling_{model}.{name}")(config, layer_idx=0)
    layer = randomise(layer, generator, 0.2).to(dtype)
    x = normal(1, tokens, config.hidden_size, dtype=dtype, generator=generator)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return layer, (x,), {"position_embeddings": positions(tokens, head, dtype, theta)}


TINY = {"hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}


@sample("transformers.models.llama.modeling_llama.LlamaDecoderLayer")
def llama_layer(tokens, size, dtype, generator):
    """Llama 3.1 8B."""
    real = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    return decoder_layer("llama", "Llama", TINY, real, tokens, size, dtype, generator, 500000.0)


@sample("transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer")
def qwen3_layer(tokens, size, dtype, generator):
    """Qwen3 8B: with norms of each head's query and key."""
    real = {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128}
    return decoder_layer("qwen3", "Qwen3", {**TINY, "head_dim": 24}, real, tokens, size, dtype, generator, 1000000.0)


@sample("transformers.models.gemma3.modeling_gemma3.Gemma3DecoderLayer")
def gemma3_layer(tokens, size, dtype, generator):
    """Gemma 3 12B, LTX-2's text encoder: four norms, and those of query and key."""
    real = {"hidden_size": 3840, "intermediate_size": 15360, "num_attention_heads": 16, "num_key_value_heads": 8,
            "head_dim": 256, "query_pre_attn_scalar": 256}
    tiny = {**TINY, "head_dim": 24, "query_pre_attn_scalar": 24}
    return decoder_layer("gemma3", "Gemma3Text", tiny, real, tokens, size, dtype, generator, 10000.0)


def t5_block(model, name, tokens, size, dtype, generator, **more):
    sizes = ({"d_model": 4096, "d_ff": 10240, "num_heads": 64, "d_kv": 64} if size == "real" else
             {"d_model": 96, "d_ff": 160, "num_heads": 4, "d_kv": 24})
    config = importing(f"transformers.models.{model}.configuration_{model}.{name}Config")(
        **sizes, feed_forward_proj="gated-gelu", dropout_rate=0.0, is_decoder=False, attn_implementation="sdpa")
    block = importing(f"transformers.models.{model}.modeling_{model}.{name}Block")(config, layer_idx=0, **more)
    block = randomise(block, generator, 0.2).to(dtype)
    return block, (normal(1, tokens, config.d_model, dtype=dtype, generator=generator),), {}


@sample("transformers.models.t5.modeling_t5.T5Block")
def t5_sample(tokens, size, dtype, generator):
    """T5 v1.1 XXL."""
    return t5_block("t5", "T5", tokens, size, dtype, generator, has_relative_attention_bias=True)


@sample("transformers.models.umt5.modeling_umt5.UMT5Block")
def umt5_sample(tokens, size, dtype, generator):
    """UMT5 XXL, Wan's text encoder."""
    return t5_block("umt5", "UMT5", tokens, size, dtype, generator)
