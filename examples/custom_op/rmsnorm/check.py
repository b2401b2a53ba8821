"""The operator of the tutorial beside LlamaRMSNorm, f16 1x512x4096: python check.py librmsnorm_custom.so"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
from reference import llama, reference  # noqa: E402

torch.ops.load_library(os.path.abspath(sys.argv[1]))


def ulps(got, want):
    """Largest distance of f16 from f64, in units in the last place, and the share that is the nearest f16."""
    unit = torch.exp2(torch.floor(torch.log2(want.abs().clamp_min(2.0**-14))) - 10)
    return ((got.double() - want).abs() / unit).max().item(), (got == want.half()).double().mean().item()


def compare(what, x, gamma):
    """Prints how far the operator and the formula are from f64 and from each other."""
    ours = torch.ops.custom.rmsnorm_custom(x, gamma, eps=1e-6)
    theirs = llama(x, gamma, 1e-6)
    want = reference(x.double(), gamma.double(), 1e-6)[0]
    difference = (ours.float() - theirs.float()).abs().max().item()
    (worst, exact), (their_worst, their_exact) = ulps(ours, want), ulps(theirs, want)
    print(f"{what:24} max diff {difference:.6f}   ours {worst:.3f} ulp of f64, {exact:.3%} exact   "
          f"llama {their_worst:.3f} ulp, {their_exact:.3%} exact")
    return difference, worst, exact


def main():
    torch.manual_seed(0)
    shape, width = (1, 512, 4096), 4096
    gamma = (torch.rand(width) * 0.2 + 0.9).half()
    try:
        from transformers.models.llama.modeling_llama import LlamaRMSNorm

        norm = LlamaRMSNorm(width, eps=1e-6).half()
        norm.weight.data.copy_(gamma)
        x = torch.randn(shape).half()
        assert torch.equal(norm(x), llama(x, gamma, 1e-6)), "the formula is not that of transformers"
        print("LlamaRMSNorm of transformers gives the same bits as the formula in tests/reference.py")
    except ImportError:
        print("transformers is not installed: LlamaRMSNorm is its formula in tests/reference.py")
    # |y| < 2, where places of f16 are at most 0.00098 apart
    difference, worst, exact = compare("uniform, gamma near 1", (torch.rand(shape) * 2 - 1).half(), gamma)
    assert difference < 1e-3 and worst <= 1 and exact >= 0.999
    # larger values have wider places: 0.0039 from 4 on
    _, worst, exact = compare("normal, gamma normal", torch.randn(shape).half(), torch.randn(width).half())
    assert worst <= 1 and exact >= 0.999
    x = torch.randn(shape).half()
    with_ones = torch.ops.custom.rmsnorm_custom(x, torch.ones(width).half())
    assert torch.equal(torch.ops.custom.rmsnorm_custom(x), with_ones)
    print("without gamma: the same bits as with gamma 1")


if __name__ == "__main__":
    main()
