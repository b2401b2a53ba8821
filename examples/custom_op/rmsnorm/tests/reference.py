"""What rmsnorm_custom computes, in Python: the tests and bench.py know the operator from here."""
import torch


def reference(x, gamma=None, eps=1e-6):
    """The tests call it with f64 tensors. A sum of squares too large for f32 is infinite, as in LlamaRMSNorm."""
    total = x.square().sum(-1, keepdim=True)
    total = torch.where(total > torch.finfo(torch.float32).max, torch.inf, total)
    y = x * torch.rsqrt(total / x.shape[-1] + eps)
    return (y if gamma is None else y * gamma,)


def llama(x, gamma, eps=1e-6):
    """The formula of LlamaRMSNorm in Hugging Face's transformers, which rounds before it multiplies too."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return gamma * wide.to(x.dtype)


def eager(x, gamma=None, eps=1e-6):
    return (llama(x, 1.0 if gamma is None else gamma, eps),)


# A sum of n squares in f32 is some roundings off, of up to n / 32: 5.4 units of f32 in rows of 100003.
TOLERANCE = {"y": {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 8.0}}
FLOOR = {"y": 0.0}


def shape(name, leading, width):
    return (width,) if name == "gamma" else (*leading, width)


def values(name, shape, generator):
    return torch.randn(shape, generator=generator)


SPECIAL = ("nan", "inf", "-inf", "0", "-0", "smallest", "largest")
ATTRIBUTES = ({}, {"eps": 1e-3})
EMPTY = (((0,), 8), ((2, 0), 33), ((0, 3), 1), ((3,), 0), ((2, 3), 0), ((0,), 0))
REFUSED = ({"x": ()}, {"gamma": (7,)}, {"gamma": (1, 8)}, {"gamma": ()})
BENCH = (((1, 512), 4096), ((8192,), 5120))
