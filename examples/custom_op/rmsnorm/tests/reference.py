"""What rmsnorm_custom computes, in Python: the tests and bench.py know the operator from here."""
import torch


def reference(x, gamma=None, eps=1e-6):
    """The tests call it with f64 tensors."""
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return (y if gamma is None else y * gamma,)


def llama(x, gamma, eps=1e-6):
    """The formula of LlamaRMSNorm in Hugging Face's transformers, which rounds before it multiplies too."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return gamma * wide.to(x.dtype)


def eager(x, gamma=None, eps=1e-6):
    return (llama(x, 1.0 if gamma is None else gamma, eps),)


TOLERANCE = {"y": 1.0}
FLOOR = {"y": 0.0}


def shape(name, leading, width):
    return (width,) if name == "gamma" else (*leading, width)


def values(name, shape, generator):
    return torch.randn(shape, generator=generator)


SPECIAL = ("nan", "inf", "-inf", "0", "-0", "smallest", "largest")
ATTRIBUTES = ({}, {"eps": 1e-3})
REFUSED = ({"x": ()}, {"gamma": (7,)}, {"gamma": (1, 8)}, {"gamma": ()})
BENCH = (((1, 512), 4096), ((8192,), 5120))
