"""Every operator in torch: schemas, values, refusals, compilation."""
import math
import shutil

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from cases import bf16, cases, close, f16, f32, name_of, operator, tables, values

from zoetrope import Activation, AttentionLayout, NormKind, RmsOrder, RotaryPairing

ops = torch.ops.zoetrope


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_schema_and_fake_results(case):
    name, args, named = case
    torch.library.opcheck(operator(name), args, named)


def differentiable(case):
    name, args, named = case
    pixelnorm = len(args) > 3 and args[3] is RmsOrder.PIXELNORM
    one_of = name in ("rms_norm", "layer_norm", "layer_norm_modulate", "rotary_mul")
    return one_of and not named.get("dtype") and not pixelnorm


@pytest.mark.parametrize("case", [c for c in cases() if differentiable(c)], ids=name_of)
def test_gradients_in_the_schema(case):
    name, args, named = case
    args = tuple(a.clone().requires_grad_() if isinstance(a, torch.Tensor) and (i == 0 or name != "rotary_mul")
                 else a for i, a in enumerate(args))
    torch.library.opcheck(operator(name), args, named)


def test_every_operator_has_a_case():
    named = {name.partition(".")[0] for name, _, _ in cases()}
    schemas = {s.name.partition("::")[2] for s in torch._C._jit_get_all_schemas() if s.name.startswith("zoetrope::")}
    assert named == schemas


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 65), (2, 7, 512), (0, 8)])
def test_rms_norm(shape, dtype):
    x, gamma = values(*shape, dtype=dtype), values(shape[-1], dtype=dtype)
    y, rstd = ops.rms_norm(x, gamma, 1e-6)
    wide = x.double()
    s = (wide.square().mean(-1) + 1e-6).rsqrt()
    close(y, wide * s[..., None] * gamma.double(), 3 if dtype is f32 else 1)
    close(rstd, s, 2)
    out = torch.empty_like(x)
    ops.rms_norm.out(x, gamma, 1e-6, out=out)
    assert torch.equal(out, y)


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_rms_norm_orders(dtype):
    """HF's Llama (and Wan) cast before the product; Gemma multiplies with 1 + gamma."""
    x, gamma = values(5, 96, dtype=dtype), values(96, dtype=dtype)
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    llama, _ = ops.rms_norm(x, gamma, 1e-6, RmsOrder.CAST_THEN_MUL)
    assert (llama != gamma * normed.to(dtype)).float().mean() <= 0.005
    gemma, _ = ops.rms_norm(x, gamma, 1e-6, RmsOrder.ONE_PLUS_GAMMA)
    close(gemma, (x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt()) *
          (1.0 + gamma.double()), 1)


def test_strides_that_operators_cannot_walk_are_copied():
    x, gamma = values(6, 4, 32), values(32)
    want, _ = ops.rms_norm(x.contiguous(), gamma)
    for form in (x.transpose(0, 1).contiguous().transpose(0, 1),
                 x.permute(2, 0, 1).contiguous().permute(1, 2, 0), x[None].expand(2, 6, 4, 32)[1]):
        assert torch.equal(ops.rms_norm(form, gamma)[0], want)
    one = values(1, 1, 32)
    assert torch.equal(ops.rms_norm(one.expand(3, 5, 32), gamma)[0], ops.rms_norm(one.repeat(3, 5, 1), gamma)[0])


def test_layer_norm_and_modulation():
    x, g, b = values(2, 9, 64), values(64), values(64)
    scale, shift = values(2, 1, 64), values(2, 1, 64)
    y, mean, rstd = ops.layer_norm(x, g, b, 1e-5)
    wide = F.layer_norm(x.double(), (64,), None, None, 1e-5)
    close(y, wide * g.double() + b.double(), 4, 1e-6)
    close(mean, x.double().mean(-1), 0, 1e-6)
    close(rstd, (x.double().var(-1, unbiased=False) + 1e-5).rsqrt(), 4)
    modulated = ops.layer_norm_modulate(x, scale, shift, eps=1e-5)
    want = wide * (1.0 + scale.double()) + shift.double()
    close(modulated, want, 4, 1e-6)
    h, gate = values(2, 9, 64), values(2, 1, 64)
    total, both = ops.gated_residual_norm_modulate(x, h, gate, scale, shift, eps=1e-5)
    assert torch.equal(total, ops.gated_residual(x, h, gate))
    assert torch.equal(both, ops.layer_norm_modulate(total, scale, shift, eps=1e-5))
    q, q_scale = ops.layer_norm_modulate_quant(x, scale, shift, eps=1e-5)
    assert ((q.float() * q_scale[..., None]) - modulated).abs().max() <= 0.51 * q_scale.max()
    z = values(2, 6, 5, 4)
    normed, _, _ = ops.group_norm_silu(z, 3)
    close(normed, F.silu(F.group_norm(z.double(), 3)), 4, 1e-6)


def test_rotary():
    x = values(2, 5, 4, 16)
    cos, sin = (t.repeat(1, 1, 1, 2) for t in tables(1, 5, 1, 8))
    a, b = x.double().chunk(2, -1)
    want = x.double() * cos.double() + torch.cat((-b, a), -1) * sin.double()
    close(ops.rotary_mul(x, cos, sin), want, 2, 1e-6)
    pairs = torch.view_as_complex(x.double().reshape(2, 5, 4, 8, 2))
    angle = torch.complex(cos[..., :8].double(), sin[..., :8].double())
    want = torch.view_as_real(pairs * angle).flatten(3)
    close(ops.rotary_mul(x, cos[..., :8], sin[..., :8], RotaryPairing.INTERLEAVE, True), want, 2, 1e-6)
    flat = values(2, 5, 64)
    turned, _ = ops.qk_norm_rope(flat, None, cos[:, :, 0, :8], sin[:, :, 0, :8])
    parts = ops.rotary_mul(ops.rms_norm(flat)[0].reshape(2, 5, 4, 16), cos[..., :8], sin[..., :8],
                           RotaryPairing.INTERLEAVE, True)
    close(turned, parts.flatten(2).double(), 1, 1e-6)


def test_attention():
    q, k, v = values(2, 4, 33, 16), values(2, 2, 40, 16), values(2, 2, 40, 16)
    o, lse = ops.fused_infer_attention_score(q, k, v, scale=0.25, kv_heads=2, lse_wanted=True)
    wide = [t.double() for t in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
    close(o, F.scaled_dot_product_attention(*wide, scale=0.25), 0, 4e-6 * v.abs().max())
    scores = wide[0] @ wide[1].mT * 0.25
    close(lse, scores.logsumexp(-1, keepdim=True), 0, 2e-5)
    causal, _ = ops.fused_infer_attention_score(q, q, q, scale=0.25, sparse_mode=2)
    close(causal, F.scaled_dot_product_attention(*(q.double(),) * 3, scale=0.25, is_causal=True), 0, 2e-5)
    bsh = [t.transpose(1, 2).flatten(2) for t in (q, k, v)]
    same, _ = ops.fused_infer_attention_score(*bsh, scale=0.25, layout=AttentionLayout.BSH, heads=4, kv_heads=2)
    assert torch.equal(same, o.transpose(1, 2).flatten(2))
    halves = [ops.fused_infer_attention_score(q, k[:, :, part], v[:, :, part], scale=0.25, kv_heads=2,
                                              lse_wanted=True)
              for part in (slice(0, 17), slice(17, 40))]
    merged, total = ops.attention_merge(torch.stack([h[0] for h in halves]), torch.stack([h[1] for h in halves]))
    close(merged, o.double(), 0, 4e-6 * v.abs().max())
    close(total, lse.double(), 0, 2e-5)


def test_activations_and_products():
    x, up = values(7, 130), values(7, 130)
    for activation, want in ((Activation.SILU, F.silu(x.double())), (Activation.GELU_ERF, F.gelu(x.double())),
                             (Activation.GELU_TANH, F.gelu(x.double(), approximate="tanh")),
                             (Activation.GELU_SIGMOID, x.double() * torch.sigmoid(1.702 * x.double()))):
        close(ops.activate(x, activation), want, 4, 1e-7)
    close(ops.glu(x, up), F.silu(x.double()) * up.double(), 5, 1e-6)
    a, b = x.double().chunk(2, -1)
    close(ops.swiglu(x), F.silu(a) * b, 5, 1e-6)
    close(ops.softmax(x), x.double().softmax(-1), 8, 1e-7)
    w, bias = values(9, 130), values(9)
    close(ops.linear(x, w, bias), F.linear(x.double(), w.double(), bias.double()), 4, 2e-5)
    q, scale = ops.dynamic_quant(x)
    v, v_scale = ops.dynamic_quant(w)
    want = (q.double() @ v.double().T) * scale.double()[:, None] * v_scale.double() + bias.double()
    close(ops.linear_int8(q, v, scale, v_scale, None, bias), want, 4, 1e-6)
    close(ops.linear_int8(x, w, None, None, None, bias), want, 4, 1e-6)
    assert (q.double() * scale[:, None] - x.double()).abs().max() <= 0.51 * scale.max()


def test_refusals():
    x = values(3, 32)
    with pytest.raises(RuntimeError, match=r"^rms_norm: gamma is f32 \[31\], wanted f32, f16 or bf16 \[32\]$"):
        ops.rms_norm(x, values(31))
    with pytest.raises(RuntimeError, match="argument 4 is 9, wanted 0 to 4"):
        ops.rms_norm(x, None, 1e-6, 9)
    with pytest.raises(RuntimeError, match="rank 6"):
        ops.rms_norm(values(1, 1, 1, 1, 1, 4))
    with pytest.raises(RuntimeError, match="x is f64"):
        ops.rms_norm(x.double())
    with pytest.raises(RuntimeError, match="a type that no operator takes"):
        ops.rms_norm(x.to(torch.complex64))
    with pytest.raises(RuntimeError, match="eps"):
        ops.rms_norm(x, None, -1.0)
    with pytest.raises(RuntimeError, match="y is f32"):
        ops.rms_norm.out(x, out=values(2, 32))
    with pytest.raises(RuntimeError, match="holds NaN or inf|not finite|NaN"):
        ops.linear_int8(x, torch.full((4, 32), math.nan))
    with pytest.raises(RuntimeError, match="even number"):
        ops.swiglu(values(3, 33))
    with pytest.raises(NotImplementedError):
        ops.rms_norm(torch.empty(3, 32, device="meta").to_sparse())
    scalar = torch.tensor(1.0)
    elementwise = ("activate", "activate.out", "glu", "softmax", "gated_residual", "gated_residual.out")
    for name, args, named in cases():
        if name in elementwise:
            continue
        tensors = [scalar if isinstance(a, torch.Tensor) else a for a in args]
        with pytest.raises((RuntimeError, NotImplementedError)):
            operator(name)(*tensors, **{k: scalar if isinstance(v, torch.Tensor) else v for k, v in named.items()})


def test_calls_leave_no_memory_behind():
    import resource

    x, gamma = values(256, 1024), values(1024)
    for round in range(3):
        for _ in range(300):
            ops.rms_norm(x, gamma, 1e-6)
            try:
                ops.rms_norm(x, gamma[:-1])
            except RuntimeError:
                pass
        if round == 0:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_compiled_without_a_break():
    def block(x, gamma, scale, shift, cos, sin, gate):
        y, _ = ops.rms_norm(x, gamma, 1e-6)
        z = ops.layer_norm_modulate(x + y, scale, shift)
        heads = ops.rotary_mul(z.unflatten(-1, (4, 16)), cos, sin)
        q = heads.transpose(1, 2)
        o, _ = ops.fused_infer_attention_score(q, q, q, scale=1.0 / math.sqrt(16.0))
        buffer = torch.empty_like(x)
        ops.gated_residual.out(x, o.transpose(1, 2).flatten(2), gate, out=buffer)
        return ops.swiglu(buffer) * 2.0

    args = (values(2, 5, 64), values(64), values(2, 1, 64), values(2, 1, 64), *tables(1, 5, 1, 16), values(2, 1, 64))
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*args), block(*args))
    longer = (values(2, 9, 64), *args[1:4], *tables(1, 9, 1, 16), args[6])
    assert torch.equal(torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)(*longer),
                       block(*longer))


def test_compiled_with_inductor():
    if not shutil.which("g++"):
        pytest.skip("inductor wants a C++ compiler")

    def norm(x, gamma):
        return torch.ops.zoetrope.rms_norm(x + 1.0, gamma, 1e-6)[0] * 2.0

    x, gamma = values(4, 64), values(64)
    # Headers made beforehand are worth it for many kernels, not for one.
    options = {"cpp_cache_precompile_headers": False}
    if not hasattr(torch._inductor.config, *options):
        options = None
    found = torch.compile(norm, fullgraph=True, options=options)(x, gamma)
    assert torch.allclose(found, norm(x, gamma), rtol=0, atol=1e-6)
