"""What the tests of zoetrope.patch's families share: a module with random weights, original and patched, and distances."""
import torch

import zoetrope.patch
from zoetrope.patch.rule import is_ours, randomise

TYPES = (torch.float32, torch.bfloat16, torch.float16)


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def made(module, dtype=torch.float32, seed=3):
    return randomise(module, generator(seed), 0.3).to(dtype).eval()


def both(module, *args, skip=None, **kwargs):
    """What a module gives, and what it gives patched."""
    expected = module(*args, **kwargs)
    assert zoetrope.patch(module, verbose=False, skip=skip).replaced
    found = module(*args, **kwargs)
    zoetrope.unpatch(module)
    assert not any(is_ours(m) for m in module.modules())
    return expected, found


def near(expected, found, share=1e-6):
    """The same but for `share` of the largest value."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert (expected - found).abs().max() <= share * expected.abs().max(), (expected - found).abs().max()
    cosine = torch.nn.functional.cosine_similarity(expected.double().flatten(), found.double().flatten(), 0)
    assert cosine > (0.999999 if share < 1e-3 else 0.99)


def equal(expected, found):
    assert found.dtype == expected.dtype and torch.equal(expected, found)


def units(expected, found):
    """The largest distance in units in the last place of what was expected."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    unit = torch.finfo(expected.dtype).eps * 2.0 ** (expected.double().frexp().exponent - 1)
    return torch.where(expected == found, 0, (expected.double() - found.double()).abs() / unit).max().item()
