"""Gradients: against those of the formulas in f64, and gradcheck.

The operators compute in f32, so gradcheck's differences need steps that are large for it: 1e-2, with 2e-3 as the
bound. What is exact is compared with torch's own gradients of the same formula in f64.
"""
import warnings

import pytest
import torch
from cases import bf16, f16, f32, tables, values

from zoetrope import NormKind, RmsOrder, RotaryPairing

ops = torch.ops.zoetrope


def normed(x, centred, eps):
    x = x - x.mean(-1, keepdim=True) if centred else x
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def compare(found, reference, inputs, dtype=f32):
    """Gradients of a random sum of both functions, by all inputs."""
    leaves = [None if t is None else t.clone().requires_grad_() for t in inputs]
    wide = [None if t is None else t.double().requires_grad_() for t in inputs]
    y = found(*leaves)
    weight = torch.randn(y.shape).to(y.dtype)
    y.backward(weight)
    reference(*wide).backward(weight.double())
    bound = {f32: 2e-6, f16: 2e-3, bf16: 1.6e-2}[dtype]
    for leaf, want in zip(leaves, wide):
        if leaf is None:
            continue
        assert leaf.grad.dtype == leaf.dtype and leaf.grad.shape == leaf.shape
        error = (leaf.grad.double() - want.grad).abs().max() / want.grad.abs().max().clamp_min(1e-30)
        assert error <= bound, f"{error} of the largest"


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("shape", [(1, 8), (3, 65), (2, 70, 130), (131, 1027)])
def test_rms_norm(shape, dtype):
    x, gamma = values(*shape, dtype=dtype), values(shape[-1], dtype=dtype)
    compare(lambda x, g: ops.rms_norm(x, g, 1e-5)[0], lambda x, g: normed(x, False, 1e-5) * g, (x, gamma), dtype)
    compare(lambda x: ops.rms_norm(x, None, 1e-5)[0], lambda x: normed(x, False, 1e-5), (x,), dtype)


def test_rms_norm_over_two_axes_and_one_plus_gamma():
    compare(lambda x, g: ops.rms_norm(x, g, 1e-5)[0],
            lambda x, g: normed(x.flatten(-2), False, 1e-5).unflatten(-1, (4, 6)) * g,
            (values(9, 4, 6), values(4, 6)))
    compare(lambda x, g: ops.rms_norm(x, g, 1e-5, RmsOrder.ONE_PLUS_GAMMA)[0],
            lambda x, g: normed(x, False, 1e-5) * (1 + g), (values(9, 24), values(24)))


# Vectors for all rows, for each sample, for each token, and mixed ones.
@pytest.mark.parametrize("kind", list(NormKind))
@pytest.mark.parametrize("scale,shift", [((40,), (40,)), ((2, 1, 40), (2, 1, 40)), ((2, 40), (2, 40)),
                                         ((2, 37, 40), (2, 37, 40)), ((40,), (2, 1, 40)), ((1, 37, 40), None),
                                         (None, (2, 1, 40)), (None, None)])
def test_layer_norm_modulate(kind, scale, shift):
    inputs = [values(2, 37, 40), *(None if s is None else values(*s) for s in (scale, shift)), values(40), values(40)]

    def reference(x, scale, shift, gamma, beta):
        def rows(v):
            return v.unsqueeze(1) if v is not None and v.dim() == 2 else v

        y = normed(x, kind == NormKind.LAYER, 1e-5) * gamma + beta
        y = y if scale is None else y * (1 + rows(scale))
        return y if shift is None else y + rows(shift)

    compare(lambda *a: ops.layer_norm_modulate(*a, eps=1e-5, kind=kind), reference, inputs)


def test_layer_norm():
    compare(lambda x, g, b: ops.layer_norm(x, g, b)[0], lambda x, g, b: normed(x, True, 1e-5) * g + b,
            (values(4, 33, 70), values(70), values(70)))
    compare(lambda x, g: ops.layer_norm(x, g, None, 1e-5, 2)[0],
            lambda x, g: normed(x.flatten(-2), True, 1e-5).unflatten(-1, (5, 14)) * g,
            (values(6, 5, 14), values(5, 14)))


@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("pairing", list(RotaryPairing))
@pytest.mark.parametrize("half", [False, True])
def test_rotary(pairing, half, dtype):
    """The rotation is linear: its gradient is what turns the f64 Jacobian of the forward around."""
    x, (cos, sin) = values(2, 3, 2, 16, dtype=dtype), tables(1, 3, 1, 6 if half else 12)
    if pairing == RotaryPairing.QUARTER and half:
        cos, sin = cos[..., :6], sin[..., :6]

    def reference(x):
        turned = 12
        parts = [x[..., :6], x[..., 6:12]] if pairing == RotaryPairing.QUARTER else [x[..., :turned]]
        out, width = [], turned // len(parts)
        for i, part in enumerate(parts):
            entries = width // 2 if half else width
            c, s = (t.double()[..., i * entries:(i + 1) * entries] for t in (cos, sin))
            if pairing == RotaryPairing.INTERLEAVE:
                a, b = part[..., 0::2], part[..., 1::2]
                other = torch.stack((-b, a), -1).flatten(-2)
                c, s = (t.repeat_interleave(2, -1) if half else t for t in (c, s))
            else:
                a, b = part.chunk(2, -1)
                other = torch.cat((-b, a), -1)
                c, s = (t.repeat(1, 1, 1, 2) if half else t for t in (c, s))
            out.append(part * c + other * s)
        return torch.cat((*out, x[..., turned:]), -1)

    compare(lambda x: ops.rotary_mul(x, cos, sin, pairing, half), reference, (x,), dtype)


CHECKED = [
    (lambda x, g: ops.rms_norm(x, g, 1e-2)[0], (values(3, 8), values(8))),
    (lambda x, s, t, g, b: ops.layer_norm_modulate(x, s, t, g, b, eps=1e-2),
     (values(2, 3, 8), values(2, 1, 8), values(2, 1, 8), values(8), values(8))),
    (lambda x, g, b: ops.layer_norm(x, g, b, 1e-2)[0], (values(3, 8), values(8), values(8))),
    (lambda x: ops.rotary_mul(x, *tables(3, 8), RotaryPairing.HALF), (values(2, 3, 8)[0],)),
]


@pytest.mark.parametrize("number", range(len(CHECKED)), ids=["rms_norm", "layer_norm_modulate", "layer_norm", "rotary"])
def test_gradcheck(number):
    f, inputs = CHECKED[number]
    if number == 3:
        fixed = tables(3, 8)
        f = lambda x: ops.rotary_mul(x, *fixed, RotaryPairing.HALF)  # noqa: E731
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not a double precision.*")
        warnings.filterwarnings("ignore", message=".*is not of double precision.*")
        assert torch.autograd.gradcheck(f, [t.clone().requires_grad_() for t in inputs], eps=1e-2, atol=2e-3,
                                        rtol=1e-2)


def test_same_bytes_for_any_number_of_threads(threads):
    x, gamma = values(2000, 320).requires_grad_(), values(320).requires_grad_()
    results = []
    for n in (1, 2):
        threads(n)
        x.grad = gamma.grad = None
        ops.rms_norm(x, gamma)[0].square().sum().backward()
        results.append((x.grad.clone(), gamma.grad.clone()))
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_what_has_no_gradient_says_so():
    x = values(3, 8).requires_grad_()
    for y in (ops.activate(x, 1), ops.softmax(x), ops.swiglu(x)):
        with pytest.raises(NotImplementedError, match="no gradient"):
            y.sum().backward()
    assert not ops.rms_norm(x)[1].requires_grad and not ops.layer_norm(x)[1].requires_grad
    with pytest.raises(NotImplementedError, match="by its tables"):
        cos, sin = (t.requires_grad_() for t in tables(3, 8))
        ops.rotary_mul(x, cos, sin).sum().backward()
    with pytest.raises(NotImplementedError, match="group"):
        ops.layer_norm_modulate(x, values(2, 8), group=torch.zeros(3, dtype=torch.int32)).sum().backward()


def test_outputs_count_as_changed():
    x, saved = values(3, 8).requires_grad_(), values(3, 8)
    y = x * saved
    ops.rms_norm.out(values(3, 8), out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="no gradient, but an argument wants one"):
        ops.rms_norm.out(x, out=values(3, 8))
    with torch.no_grad():
        ops.rms_norm.out(x, out=saved)


def test_compiled_training_step():
    def loss(x, gamma, scale):
        return ops.layer_norm_modulate(ops.rms_norm(x, gamma)[0], scale).square().mean()

    inputs = [values(2, 5, 48), values(48), values(2, 1, 48)]
    grads = []
    for f in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        leaves = [t.clone().requires_grad_() for t in inputs]
        f(*leaves).backward()
        grads.append([t.grad for t in leaves])
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*grads))
