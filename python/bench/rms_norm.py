"""RMSNorm beside torch: time of the five operators that models write out, of F.rms_norm, and of ours.

    python python/bench/rms_norm.py [--threads 1] [--seconds 2]

Each case alternates them in one run, so that all meet the same machine; the ratio of a round is theirs by ours,
and the median over the rounds is printed. "out=" is ours into a tensor that is there already: large new tensors
come from the system page by page, which takes longer than the norm (THP_MEM_ALLOC_ENABLE=1 in the environment
makes torch ask for large pages). GB/s: x read and y written, once each, by the time of "out=". Also how far ours
and F.rms_norm are from f64, in units in the last place.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import zoetrope.torch_ops  # noqa: F401

EPS = 1e-6


def eager(x, gamma):
    """As models write it: statistics in f32, the result in the type of x."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * gamma.float()).to(x.dtype)


def torch_norm(x, gamma):
    return F.rms_norm(x, gamma.shape, gamma, EPS)


def ours(x, gamma):
    return torch.ops.zoetrope.rms_norm(x, gamma, EPS)[0]


def ours_into(out):
    def norm(x, gamma):
        torch.ops.zoetrope.rms_norm.out(x, gamma, EPS, out=out)

    return norm


def seconds(f, x, gamma):
    begun = time.perf_counter()
    f(x, gamma)
    return time.perf_counter() - begun


def measure(functions, x, gamma, budget):
    """Times of each function, a list for each, as many rounds as fit."""
    for f in functions:
        f(x, gamma)
    times = [[] for _ in functions]
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times[0]) < 5:
        for f, own in zip(functions, times):
            own.append(seconds(f, x, gamma))
    return times


def with_gradients(f):
    """f and the gradients of its result by both arguments."""

    def run(x, gamma):
        x.grad = gamma.grad = None
        f(x, gamma).backward(x.detach())

    return run


def worst(f, x, gamma):
    """Largest distance from f64, in units in the last place of the result."""
    wide = x.double()
    want = wide * (wide.square().mean(-1, keepdim=True) + EPS).rsqrt() * gamma.double()
    digits = {torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}[x.dtype]
    ulp = torch.exp2(torch.floor(torch.log2(want.abs().clamp_min(2.0**-14))) - digits)
    return ((f(x, gamma).double() - want).abs() / ulp).max().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    print(f"torch {torch.__version__}, {options.threads} thread(s), medians")
    print(f"{'type':9}{'shape':>12}{'ours':>10}{'eager':>11}{'F.rms_norm':>11}{'out=':>10}{'x eager':>9}{'x F':>6}"
          f"{'GB/s':>6}   ulp: ours, F.rms_norm")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for shape in ((1, 512, 4096), (8192, 5120)):
            x, gamma = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
            with torch.inference_mode():
                times = measure((ours, eager, torch_norm, ours_into(torch.empty_like(x))), x, gamma, options.seconds)
                few = x.reshape(-1, shape[-1])[:64]
                errors = [worst(f, few, gamma) for f in (ours, torch_norm)]
            middle = [statistics.median(t) for t in times]
            ratios = [statistics.median(b / a for a, b in zip(times[0], t)) for t in times[1:3]]
            moved = 2 * x.numel() * x.element_size() / middle[3] / 1e9
            name, size = str(dtype).split(".")[1], "x".join(map(str, shape))
            print(f"{name:9}{size:>12}" + "".join(f"{m * 1e3:{w}.2f}ms" for m, w in zip(middle, (8, 9, 9, 8))) +
                  f"{ratios[0]:9.1f}{ratios[1]:6.1f}{moved:6.1f}   {errors[0]:.2f}, {errors[1]:.2f}")

    x, gamma = torch.randn(2048, 4096, requires_grad=True), torch.randn(4096, requires_grad=True)
    times = measure([with_gradients(f) for f in (ours, eager, torch_norm)], x, gamma, options.seconds)
    middle = [statistics.median(t) * 1e3 for t in times]
    ratios = [statistics.median(b / a for a, b in zip(times[0], t)) for t in times[1:]]
    print(f"forward and backward, float32 2048x4096: ours {middle[0]:.1f} ms, eager {middle[1]:.1f} ms "
          f"({ratios[0]:.1f} times), F.rms_norm {middle[2]:.1f} ms ({ratios[1]:.1f} times)")


if __name__ == "__main__":
    main()
