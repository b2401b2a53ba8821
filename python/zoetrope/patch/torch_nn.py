"""zoetrope.patch: torch's own norms, which many models are made of."""
import math

import torch

from ..torch_ops import ops
from .rule import Leave, Replacement, original, randomise, rule, sample, takes


def last_axes(module, x):
    """Are the normalised axes the last ones of x, of a number that the operators take?"""
    shape = module.normalized_shape
    return x.dim() <= 5 and x.dim() >= len(shape) and x.shape[x.dim() - len(shape):] == shape


def affine(module):
    if math.prod(module.normalized_shape) == 0:
        raise Leave("it normalises no elements")


@rule("torch.nn.modules.normalization.RMSNorm", parameters=("x",))
def rms_norm(module):
    affine(module)
    return Replacement(rms_forward, "rms_norm")


def rms_forward(module, x):
    w = module.weight
    if not takes(x, w, gradients=True) or not last_axes(module, x):
        return original(module)(x)
    eps = torch.finfo(torch.float32).eps if module.eps is None else module.eps
    if w is None and len(module.normalized_shape) > 1:  # without a weight the operator takes the last axis alone
        return ops.rms_norm(x.flatten(-len(module.normalized_shape)), None, eps)[0].view(x.shape)
    return ops.rms_norm(x, w, eps)[0]


@rule("torch.nn.modules.normalization.LayerNorm", parameters=("input",))
def layer_norm(module):
    affine(module)
    return Replacement(layer_forward, "layer_norm")


def layer_forward(module, input):
    w, b = module.weight, module.bias
    if not takes(input, w, b, gradients=True) or not last_axes(module, input) or not layer_types(input, w, b):
        return original(module)(input)
    return ops.layer_norm(input, w, b, module.eps, len(module.normalized_shape))[0]


def layer_types(x, w, b):
    """Parameters in the type of x, or f32: torch refuses others, and both of one type."""
    found = {t.dtype for t in (w, b) if t is not None}
    return len(found) == 0 or (len(found) == 1 and found <= {x.dtype, torch.float32})


# ---- samples: the widths of LTX-2's and Wan's hidden states ----


def norm_sample(cls, width):
    def make(tokens, size, dtype, generator):
        width_ = width if size == "real" else 67
        module = randomise(cls(width_, eps=1e-6), generator, 0.2).to(dtype)
        return module, (torch.randn(1, tokens, width_, generator=generator).to(dtype),), {}
    sample(f"torch.nn.modules.normalization.{cls.__name__}")(make)


norm_sample(torch.nn.RMSNorm, 4096)
norm_sample(torch.nn.LayerNorm, 5120)
