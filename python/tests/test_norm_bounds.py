"""How far norms may be from f64: every element of every row, without exceptions."""
import pytest
import torch
from cases import bf16, close, f16, f32

from zoetrope import NormKind, RmsOrder

ops = torch.ops.zoetrope
EPS = 1e-6
WIDTHS = [64, 65, 127, 128, 255, 512, 1000, 1536, 3072, 4096, 5120, 16384, 65536, 65537, 262144]


@pytest.fixture(params=[(D, dtype, seed) for D in WIDTHS for dtype in (f32, f16, bf16) for seed in (1, 2)],
                ids=lambda p: f"{p[0]}-{str(p[1])[6:]}-{p[2]}")
def case(request):
    """Rows of random sizes, and with the second seed also of means up to 8 deviations: x, and vectors in f64."""
    D, dtype, seed = request.param
    torch.manual_seed(1000 * seed + D)
    rows = max(3, 100_000 // D)
    x = torch.randn(rows, D)
    if seed == 2:
        x = (x + torch.rand(rows, 1) * 16 - 8) * torch.exp2(torch.rand(rows, 1) * 6 - 3)
    return x.to(dtype), torch.randn(D).to(dtype), torch.randn(D).to(dtype)


def inverse_root(square):
    return (square.mean(-1, keepdim=True) + EPS).rsqrt()


def test_rms_norm(case):
    x, gamma, _ = case
    s = inverse_root(x.double().square())
    y, rstd = ops.rms_norm(x, gamma, EPS)
    want = x.double() * s * gamma.double()
    close(rstd, s[..., 0], 2)
    close(y, want, 3 if x.dtype is f32 else 1)
    if x.dtype is not f32:
        assert (y == want.to(x.dtype)).double().mean() >= 0.999
    close(ops.rms_norm(x, None, EPS)[0], x.double() * s, 3 if x.dtype is f32 else 1)
    close(ops.rms_norm(x, gamma, EPS, RmsOrder.ONE_PLUS_GAMMA)[0], x.double() * s * (1 + gamma).double(),
          4 if x.dtype is f32 else 2)
    # with the same statistic, to the bit
    cast, again = ops.rms_norm(x, gamma, EPS, RmsOrder.CAST_THEN_MUL)
    assert torch.equal(again, rstd)
    assert torch.equal(cast, (x.float() * rstd[..., None]).to(x.dtype) * gamma)


def test_layer_norm(case):
    x, gamma, beta = case
    wide = x.double()
    mean = wide.mean(-1, keepdim=True)
    s = inverse_root((wide - mean).square())
    y, found_mean, rstd = ops.layer_norm(x, gamma, beta, EPS)
    close(rstd, s[..., 0], 4)
    assert ((found_mean[..., None] - mean).abs() <= 8 * 2.0**-24 * wide.abs().mean(-1, keepdim=True)).all()
    check(y, (wide - mean) * s, gamma, beta)
    for kind, normed in ((NormKind.LAYER, (wide - mean) * s), (NormKind.RMS, wide * inverse_root(wide.square()))):
        # 1 + scale is a step of its own in f32
        check(ops.layer_norm_modulate(x, gamma, beta, eps=EPS, kind=kind), normed, 1 + gamma.float(), beta)


def check(found, normed, factor, shift):
    factor, shift = factor.double(), shift.double()
    want = normed * factor + shift
    near = want.abs().maximum(shift.abs()).maximum(2.0**-10 * factor.abs())
    close(found, want, 4 if found.dtype is f32 else 1, near=near)
