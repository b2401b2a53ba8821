"""The operators on NumPy arrays, without torch."""
import subprocess
import sys

import numpy as np
import pytest

import zoetrope
from zoetrope import Activation, NormKind, RotaryPairing, SparseMode

generator = np.random.default_rng(3)


def values(*shape, dtype=np.float32):
    return generator.standard_normal(shape).astype(dtype)


def normed(x, centred, eps):
    x = x.astype(np.float64)
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def test_it_imports_without_torch():
    program = ("import sys\nsys.modules['torch'] = None\nimport zoetrope, numpy\n"
               "assert zoetrope.rms_norm(numpy.ones((2, 3), numpy.float32)).shape == (2, 3)\n")
    environment_path = [p for p in sys.path if p]
    subprocess.run([sys.executable, "-c", f"import sys\nsys.path[:0] = {environment_path!r}\n" + program], check=True)


@pytest.mark.parametrize("dtype,bound", [(np.float32, 1e-6), (np.float16, 2e-3)])
def test_norms(dtype, bound):
    x, g, b = values(3, 5, 33, dtype=dtype), values(33, dtype=dtype), values(33, dtype=dtype)
    wide, beta = g.astype(np.float64), b.astype(np.float64)
    for found, want in ((zoetrope.rms_norm(x, g), normed(x, False, 1e-6) * wide),
                        (zoetrope.layer_norm(x, g, b), normed(x, True, 1e-5) * wide + beta),
                        (zoetrope.layer_norm_modulate(x, g, b, kind=NormKind.RMS),
                         normed(x, False, 1e-6) * (1 + wide) + beta)):
        assert found.dtype == dtype
        assert np.allclose(found.astype(np.float64), want, rtol=bound, atol=bound * 4)
    y, total = zoetrope.add_rms_norm(x, x, g)
    assert np.array_equal(total, x + x) and np.array_equal(y, zoetrope.rms_norm(x + x, g))


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = values(3, 64).astype(ml_dtypes.bfloat16)
    y = zoetrope.rms_norm(x)
    assert y.dtype == ml_dtypes.bfloat16
    assert np.allclose(y.astype(np.float64), normed(x, False, 1e-6), rtol=2.0**-7, atol=1e-3)


def test_the_rest():
    x, h = values(4, 6, 16), values(4, 6, 16)
    angle = values(1, 6, 8)
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., :8], x[..., 8:]
    want = np.concatenate((a * c - b * s, b * c + a * s), -1)
    assert np.allclose(zoetrope.rotary_mul(x, c, s, half_tables=True), want, atol=1e-6)
    assert np.allclose(zoetrope.rotary_mul(x, c, s, RotaryPairing.INTERLEAVE, True)[..., 0::2],
                       x[..., 0::2] * c - x[..., 1::2] * s, atol=1e-6)
    silu = x / (1 + np.exp(-x))
    assert np.allclose(zoetrope.activate(x, Activation.SILU), silu, atol=1e-6)
    assert np.allclose(zoetrope.glu(x, h), silu * h, atol=1e-6)
    assert np.allclose(zoetrope.gated_residual(x, h, np.float32([2.0] * 16)), x + 2 * h, atol=1e-6)
    e = np.exp(x - x.max(-1, keepdims=True))
    assert np.allclose(zoetrope.softmax(x), e / e.sum(-1, keepdims=True), atol=1e-6)
    y, mean, _ = zoetrope.group_norm_silu(x, 2, silu=False)
    assert np.allclose(y.reshape(4, 2, -1), normed(x.reshape(4, 2, -1), True, 1e-5), atol=1e-5)
    assert np.allclose(mean, x.reshape(4, 2, -1).mean(-1), atol=1e-6)


def test_attention():
    q, k = values(2, 4, 7, 8), values(2, 2, 9, 8)
    scores = q.astype(np.float64) @ np.repeat(k, 2, 1).swapaxes(-1, -2) * 8**-0.5
    scores[:, :, :, 5:] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    o, lse = zoetrope.attention(q, k, k, kv_lengths=[5])
    assert np.allclose(o, e / e.sum(-1, keepdims=True) @ np.repeat(k, 2, 1), atol=1e-5)
    assert np.allclose(lse[..., 0], np.log(np.exp(scores).sum(-1)), atol=1e-5)
    causal, _ = zoetrope.attention(q, q, q, sparse_mode=SparseMode.CAUSAL)
    assert np.allclose(causal[:, :, 0], q[:, :, 0], atol=1e-6)


def test_strides_outputs_and_threads():
    x = values(8, 6, 40)
    want = zoetrope.rms_norm(np.ascontiguousarray(x.transpose(1, 0, 2)))
    assert np.array_equal(zoetrope.rms_norm(x.transpose(1, 0, 2)), want)
    assert np.array_equal(zoetrope.rms_norm(x[::-1]), zoetrope.rms_norm(x)[::-1])
    assert np.array_equal(zoetrope.rms_norm(np.broadcast_to(x[0, 0], (3, 40)))[2], zoetrope.rms_norm(x[0, :1])[0])
    out = np.empty_like(x)
    assert zoetrope.rms_norm(x, out=out) is out
    results = []
    for threads in (1, 2, 0):
        zoetrope.set_threads(threads)
        results.append(zoetrope.rms_norm(values(1, 1, dtype=np.float32) * 0 + np.tile(x, (50, 10, 1))))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    assert zoetrope.rms_norm(np.empty((0, 4), np.float32)).shape == (0, 4)


def test_refusals():
    x = values(3, 8)
    with pytest.raises(zoetrope.Error, match=r"rms_norm: gamma is f32 \[7\], wanted f32, f16 or bf16 \[8\]"):
        zoetrope.rms_norm(x, values(7))
    with pytest.raises(zoetrope.Error, match="complex64"):
        zoetrope.rms_norm(x.astype(np.complex64))
    with pytest.raises(zoetrope.Error, match="x is f64"):
        zoetrope.rms_norm(x.astype(np.float64))
    with pytest.raises(zoetrope.Error, match="6 axes"):
        zoetrope.rms_norm(values(1, 1, 1, 1, 1, 2))
    with pytest.raises(zoetrope.Error, match="y is f32"):
        zoetrope.rms_norm(x, out=np.empty((2, 8), np.float32))
