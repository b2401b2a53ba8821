"""torch_npu's functions: the snippets they are known by, their arguments, values, refusals, and where calls go."""
import inspect
import subprocess
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from cases import bf16, close, f16, f32, integers, tables, ulp, values

import zoetrope
import zoetrope.torch_npu as torch_npu

# What torch_npu declares (op_plugin/config/op_plugin_functions.yaml).
SCHEMAS = """
npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
npu_gemma_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)
npu_add_rms_norm_v2(Tensor(a!) x1, Tensor(b!) x2, Tensor gamma, float epsilon=1e-06) -> Tensor
npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor, Tensor)
npu_rms_norm_quant(Tensor x, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, float epsilon=1e-06, *, int? dst_dtype=None) -> Tensor
npu_rms_norm_quant_v2(Tensor x, Tensor gamma, Tensor scale, *, Tensor? offset=None, Tensor? beta=None, float epsilon=1e-06, bool div_mode=True, int? dst_dtype=None) -> (Tensor, Tensor)
npu_add_rms_norm_quant(Tensor x1, Tensor x2, Tensor gamma, Tensor scales1, Tensor? zero_points1, Tensor? beta=None, Tensor? scales2=None, Tensor? zero_points2=None, *, int axis=-1, float epsilon=1e-06, bool div_mode=True, int? dst_type=None) -> (Tensor, Tensor, Tensor)
npu_add_rms_norm_dynamic_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? smooth_scale1=None, Tensor? smooth_scale2=None, Tensor? beta=None, float epsilon=1e-6, bool[2]? output_mask=None, int? y_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor
npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001) -> (Tensor, Tensor, Tensor)
npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None, str quant_mode="pertoken", float dst_type_max=0.0) -> (Tensor, Tensor)
npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, Tensor? bias=None, int? output_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? pertoken_scale_dtype=None, int? scale_dtype=None, int[]? group_sizes=None, Tensor? y_scale=None) -> Tensor
npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor
npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', str rotary_mode='half') -> (Tensor, Tensor)
npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None, Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? kv_padding_size=None, Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None, SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None, int num_heads=1, float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int value_antiquant_mode=0, bool softmax_lse_flag=False) -> (Tensor, Tensor)
npu_fused_infer_attention_score_v2(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? dequant_scale_query=None, Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None, Tensor? dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None, Tensor? quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout="BSH", int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None, int? value_dtype=None, int? query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None, int? value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None, int? dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> (Tensor, Tensor)
npu_attention_update(Tensor[] lse, Tensor[] local_out, int update_type) -> (Tensor, Tensor)
npu_ring_attention_update(Tensor prev_attn_out, Tensor prev_softmax_max, Tensor prev_softmax_sum, Tensor cur_attn_out, Tensor cur_softmax_max, Tensor cur_softmax_sum, *, Tensor? actual_seq_qlen=None, str input_layout="SBH", str input_softmax_layout="") -> (Tensor, Tensor, Tensor)
npu_swiglu(Tensor self, int dim=-1) -> Tensor
npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)
npu_fast_gelu(Tensor self) -> Tensor
npu_gelu(Tensor self, *, str approximate='none') -> Tensor
npu_silu(Tensor self) -> Tensor
""".strip().splitlines()


def test_signatures_are_those_of_torch_npu():
    schemas = [torch._C.parse_schema("npu::" + line) for line in SCHEMAS]
    assert sorted(s.name.partition("::")[2] for s in schemas) == torch_npu.__all__
    for schema in schemas:
        wanted = {a.name: (a.kwarg_only, a.default_value if a.has_default_value() else inspect.Parameter.empty)
                  for a in schema.arguments}
        ours = inspect.signature(getattr(torch_npu, schema.name.partition("::")[2])).parameters.values()
        found = {p.name: (p.kind is p.KEYWORD_ONLY, p.default) for p in ours}
        assert found == wanted, schema.name
        positional = [name for name, (keyword, _) in wanted.items() if not keyword]
        assert [name for name, (keyword, _) in found.items() if not keyword] == positional, schema.name


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


# ---- the snippets, against f64 ----


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_snippet_rms_norm(dtype):
    x, weight = values(2, 65, 512, dtype=dtype), values(512, dtype=dtype)
    y = torch_npu.npu_rms_norm(x, weight.to(x.device, x.dtype), epsilon=1e-6)[0]
    rstd = torch_npu.npu_rms_norm(x, weight)[1]
    s = (x.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    want = x.double() * s * weight.double()
    close(y, want, 3 if dtype is f32 else 1)
    close(rstd, s, 2)
    assert y.dtype is dtype and rstd.dtype is f32 and rstd.shape == (2, 65, 1)
    if dtype is not f32:
        assert (y == want.to(dtype)).float().mean() >= 0.999


def turned(x, mode):
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    parts = x.chunk(4 if mode == "quarter" else 2, -1)
    return torch.cat([p for i in range(0, len(parts), 2) for p in (-parts[i + 1], parts[i])], -1)


def close_rotary(found, x, cos, sin, mode, ulps):
    """Within so many units of the length of each pair."""
    x, cos, sin = x.double(), cos.double(), sin.double()
    want = x * cos + turned(x, mode) * sin
    near = ulp(torch.hypot(x, turned(x, mode)), found.dtype)
    assert ((found.double() - want).abs() <= ulps * near).all()


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_snippet_rotary_of_each_sample(dtype):
    """Pairs side by side, and tables of each sample's own grid: one call a sample, as Wan's code goes about it."""
    x = values(2, 9, 4, 16, dtype=dtype)
    angle = torch.randn(2, 9, 1, 8, dtype=torch.float64) * 100
    cos, sin = (t.to(dtype).repeat_interleave(2, -1) for t in (angle.cos(), angle.sin()))
    parts = [torch_npu.npu_rotary_mul(x[i:i + 1], cos[i:i + 1], sin[i:i + 1], rotary_mode="interleave")
             for i in range(2)]
    found = torch.cat(parts)
    close_rotary(found, x, cos, sin, "interleave", 1.5 if dtype is f32 else 1)
    assert torch.equal(torch_npu.npu_rotary_mul(x, cos, sin, "interleave"), found)
    if dtype is f32:
        pairs = torch.view_as_complex(x.double().reshape(2, 9, 4, 8, 2)) * torch.polar(torch.ones_like(angle), angle)
        close(found, torch.view_as_real(pairs).flatten(3), 0, 4e-6)


@pytest.mark.parametrize("dtype", [f32, bf16])
def test_snippet_layer_norm_eval_as_modulation(dtype):
    x = values(2, 33, 256, dtype=dtype)
    weight, shift = 1 + values(256) * 0.1, values(256)
    y = torch_npu.npu_layer_norm_eval(x, [256], weight=weight, bias=shift, eps=1e-6)
    want = F.layer_norm(x.double(), (256,), eps=1e-6) * weight.double() + shift.double()
    near = want.abs().maximum(shift.double().abs()).maximum(2.0**-10 * weight.double().abs())
    close(y, want, 4 if dtype is f32 else 1, near=near)
    assert y.dtype is dtype
    if dtype is bf16:  # in the type of x, 1 + scale loses scales below 1/256
        tiny = torch.full((256,), 2.0**-9)
        assert not torch.equal(torch_npu.npu_layer_norm_eval(x, 256, 1 + tiny), torch_npu.npu_layer_norm_eval(x, 256))
        rounded = torch_npu.npu_layer_norm_eval(x, 256, (1 + tiny).to(bf16))
        assert torch.equal(rounded, torch_npu.npu_layer_norm_eval(x, 256))


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_snippet_fused_attention_bnsd(dtype):
    q, k, v = (values(2, 4, n, 128, dtype=dtype) for n in (65, 70, 70))
    out, lse = torch_npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=4, input_layout="BNSD", scale=128**-0.5, softmax_lse_flag=True)
    wide = [t.double() for t in (q, k, v)]
    scores = wide[0] @ wide[1].mT * 128**-0.5
    want = scores.softmax(-1) @ wide[2]
    close(out, want, 0 if dtype is f32 else 1, 4e-6 * float(wide[2].abs().max()))
    want = scores.logsumexp(-1, keepdim=True)
    assert ((lse.double() - want).abs() <= 1e-5 + 1e-6 * want.abs()).all()
    assert out.dtype is dtype and lse.dtype is f32 and lse.shape == (2, 4, 65, 1)


# ---- norms ----


@pytest.mark.parametrize("shape, axes", [((2, 3, 4, 8), 1), ((2, 3, 4, 8), 2), ((4, 8), 2), ((0, 8), 1), ((8,), 1),
                                         ((1, 2, 1, 2, 1, 2, 3, 8), 1), ((1, 2, 1, 2, 1, 2, 3, 8), 3)])
def test_norms_over_last_axes(shape, axes):
    x, h, gamma = values(*shape), values(*shape), values(*shape[len(shape) - axes:])
    over = list(range(len(shape) - axes, len(shape)))

    def rms(x):
        return (x.double().square().mean(over, keepdim=True) + 1e-6).rsqrt()

    y, rstd = torch_npu.npu_rms_norm(x, gamma)
    close(y, x.double() * rms(x) * gamma.double(), 3)
    close(rstd, rms(x), 2)
    gemma, rstd = torch_npu.npu_gemma_rms_norm(x, gamma)
    close(gemma, x.double() * rms(x) * (1 + gamma.double()), 4)
    close(rstd, rms(x), 2)
    y, rstd, total = torch_npu.npu_add_rms_norm(x, h, gamma)
    assert torch.equal(total, x + h)
    close(y, total.double() * rms(total) * gamma.double(), 3)
    close(rstd, rms(total), 2)
    both = [x.clone(), h.clone()]
    assert torch.equal(torch_npu.npu_add_rms_norm_v2(*both, gamma), rstd)
    assert torch.equal(both[0], y) and torch.equal(both[1], total)
    normed = torch_npu.npu_layer_norm_eval(x, gamma.shape, gamma, gamma)
    close(normed, F.layer_norm(x.double(), gamma.shape, gamma.double(), gamma.double()), 4, 1e-6)


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_add_rms_norm_rounds_the_sum(dtype):
    x, h, gamma = (values(*s, dtype=dtype) for s in ((7, 96), (7, 96), (96,)))
    wide, y, rstd, total = torch_npu.npu_add_rms_norm_cast(x, h, gamma, 1e-5)
    s = (total.double().square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    assert torch.equal(total, x + h) and torch.equal(y, wide.to(dtype)) and wide.dtype is f32
    close(wide, total.double() * s * gamma.double(), 3)
    assert all(torch.equal(a, b) for a, b in zip(torch_npu.npu_add_rms_norm(x, h, gamma, 1e-5), (y, rstd, total)))
    gamma32 = values(96)
    close(torch_npu.npu_rms_norm(x, gamma32)[0],
          x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma32.double(), 1)


def off_by_rounding(q, exact):
    """int8 values are those of exact f64 ones but at near-ties."""
    want = exact.round().clamp(-128, 127)
    distance = (q.double() - want).abs()
    assert q.dtype is torch.int8 and distance.max() <= 1 and (distance > 0).double().mean() <= 0.001


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_quantised_norms(dtype):
    x, h = values(5, 3, 96, dtype=dtype), values(5, 3, 96, dtype=dtype)
    gamma, beta = values(96, dtype=dtype), values(96, dtype=dtype)

    def normed(x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma.double() + beta.double()

    one, offset = torch.tensor([0.05], dtype=dtype), torch.tensor([3], dtype=torch.int8)
    v = normed(x.double())
    want = v / one.double() + 3
    off_by_rounding(torch_npu.npu_rms_norm_quant(x, gamma, beta, one, offset, 1e-6), want)
    off_by_rounding(torch_npu.npu_rms_norm_quant(x, gamma[None], beta[None], one, offset, dst_dtype=torch.int8), want)
    scales = values(96).abs() + 1
    y, rstd = torch_npu.npu_rms_norm_quant_v2(x, gamma, scales * 20, beta=beta, div_mode=False, dst_dtype=1)
    off_by_rounding(y, v * (scales * 20).double())
    assert rstd.shape == (0,)
    total = x.double() + h.double()
    zero = torch.arange(96, dtype=torch.int32) % 5
    y1, y2, summed = torch_npu.npu_add_rms_norm_quant(x, h, gamma, scales / 20, zero, beta, scales / 40)
    off_by_rounding(y1, normed(total) / (scales / 20).double() + zero)
    off_by_rounding(y2, normed(total) / (scales / 40).double())
    assert torch.equal(summed, x + h)
    y1, y2, _ = torch_npu.npu_add_rms_norm_quant(x, h, gamma, scales / 20, None, div_mode=True)
    assert y2.shape == y1.shape and not y2.any()
    smooth = values(96, dtype=dtype)
    results = torch_npu.npu_add_rms_norm_dynamic_quant(x, h, gamma, smooth_scale1=smooth, smooth_scale2=gamma,
                                                       beta=beta)
    for q, scale, factor in zip(results[:2], results[3:], (smooth, gamma)):
        w = normed(total) * factor.double()
        close(scale, w.abs().amax(-1) / 127, 4)
        off_by_rounding(q, w / scale.double()[..., None])
    assert torch.equal(results[2], x + h)
    for mask, given in (([True, False], (0,)), ([False, True], (1,)), (None, (0,)), ([True, True], (0, 1))):
        results = torch_npu.npu_add_rms_norm_dynamic_quant(x, h, gamma, output_mask=mask)
        for i in (0, 1):
            assert results[i].shape == (x.shape if i in given else (0,))
            assert results[3 + i].shape == (x.shape[:-1] if i in given else (0,))
    q, scale = torch_npu.npu_dynamic_quant(x, smooth_scales=smooth)
    w = x.double() * smooth.double()
    close(scale, w.abs().amax(-1) / 127, 2)
    off_by_rounding(q, w / scale.double()[..., None])


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4), (2, 6, 1, 2, 3, 2, 2)])
def test_group_norm_silu(shape):
    x, weight, bias = values(*shape), values(6), values(6)
    y, mean, rstd = torch_npu.npu_group_norm_silu(x, weight, bias, 3)
    groups = x.double().reshape(2, 3, -1)
    close(y, F.silu(F.group_norm(x.double(), 3, weight.double(), bias.double())), 4, 1e-6)
    close(mean, groups.mean(-1), 0, 1e-6)
    close(rstd, (groups.var(-1, unbiased=False) + 1e-5).rsqrt(), 4)
    half = torch_npu.npu_group_norm_silu(x.to(f16), None, None, group=2, eps=1e-4)
    assert [t.dtype for t in half] == [f16] * 3


@pytest.mark.parametrize("lead", [(7,), (2, 3, 1, 2, 1)])
def test_quant_matmul(lead):
    x, w = integers(*lead, 96), integers(33, 96)
    exact = x.double() @ w.double().T
    n, tokens = values(33).abs() + 0.1, values(x[..., 0].numel()).abs() + 0.1
    bias = torch.arange(33, dtype=torch.int32)
    per_token = tokens.double().reshape(*lead, 1)
    found = torch_npu.npu_quant_matmul(x, w.t(), n, pertoken_scale=tokens, bias=bias.to(f32), output_dtype=bf16)
    close(found, exact * n.double() * per_token + bias, 1)
    one = (n[:1] / 1e4).to(bf16)
    found = torch_npu.npu_quant_matmul(x, w.t().contiguous(), one, bias=bias, output_dtype=f16)
    close(found, (exact + bias) * one.double(), 1)
    small, offset = n / 1e3, torch.tensor([5.0])
    off_by_rounding(torch_npu.npu_quant_matmul(x, w.t(), small, offset=offset), exact * small.double() + 5)
    off_by_rounding(torch_npu.npu_quant_matmul(x, w.t(), small, bias=bias), (exact + bias) * small.double())


# ---- rotary embedding ----


@pytest.mark.parametrize("mode", ["half", "interleave", "quarter"])
@pytest.mark.parametrize("x, r", [((2, 4, 7, 16), (1, 1, 7, 16)), ((2, 4, 7, 16), (2, 1, 7, 16)),
                                  ((2, 7, 4, 16), (2, 7, 1, 16)), ((7, 2, 4, 16), (7, 1, 1, 16)),
                                  ((7, 4, 16), (7, 1, 16)), ((7, 4, 16), (7, 4, 8))])
def test_rotary_mul(mode, x, r):
    x = values(*x)
    r1, r2 = tables(*r)
    found = torch_npu.npu_rotary_mul(x, r1, r2, rotary_mode=mode)
    width = r[-1]
    close_rotary(found[..., :width], x[..., :width], r1, r2, mode, 1.5)
    assert torch.equal(found[..., width:], x[..., width:])
    low = torch_npu.npu_rotary_mul(x.to(bf16), r1, r2, mode)  # its tables are rounded to the type of x, as on an NPU
    assert torch.equal(low, torch_npu.npu_rotary_mul(x.to(bf16), r1.to(bf16), r2.to(bf16), mode))


@pytest.mark.parametrize("layout, q, k, r", [("BSND", (2, 7, 4, 16), (2, 7, 2, 16), (2, 7, 1, 16)),
                                             ("SBND", (7, 2, 4, 16), (7, 2, 2, 16), (7, 1, 1, 16)),
                                             ("BNSD", (2, 4, 7, 16), (2, 2, 7, 16), (2, 1, 7, 16)),
                                             ("TND", (7, 4, 16), (7, 2, 16), (7, 1, 16))])
def test_apply_rotary_pos_emb(layout, q, k, r):
    q, k, (cos, sin) = values(*q), values(*k), tables(*r)
    strided = torch.stack((q, q), 1)[:, 0]
    want = [torch_npu.npu_rotary_mul(t, cos, sin) for t in (q, k)]
    both = torch_npu.npu_apply_rotary_pos_emb(strided, k, cos, sin, layout=layout)
    assert both[0] is strided and both[1] is k
    assert torch.equal(strided, want[0]) and torch.equal(k, want[1])


# ---- attention ----


def visible(q, k, mode, before, after, mask):
    i, j = torch.arange(q)[:, None], torch.arange(k)
    if mode == 0:
        return torch.ones(q, k, dtype=bool) if mask is None else (i - j <= before) & (j - i <= after) & (mask == 0)
    return {1: lambda: mask == 0, 2: lambda: j <= i, 3: lambda: j <= i + (k - q),
            4: lambda: (i - j <= before - (k - q)) & (j - i <= after + (k - q))}[mode]()


def attended(q, k, v, scale, seen):
    """f64 attention of [N, S, D]; heads of keys are shared; rows that see nothing are 0 and have lse inf."""
    q, k, v = q.double(), *(t.double().repeat_interleave(q.shape[0] // t.shape[0], 0) for t in (k, v))
    scores = (q @ k.mT * scale).masked_fill(~seen, -torch.inf)
    blind = ~seen.any(-1, keepdim=True).expand(q.shape[0], -1, 1)
    out = (scores.softmax(-1) @ v).masked_fill(blind, 0)
    return out, scores.logsumexp(-1, keepdim=True).masked_fill(blind, torch.inf)


def close_attention(out, lse, want, v):
    assert (out.double() - want[0]).abs().max() <= 4e-6 * v.abs().max()
    assert torch.equal(lse.isinf(), want[1].isinf())
    finite = want[1].isfinite()
    assert ((lse.double() - want[1])[finite].abs() <= 1e-5 + 1e-6 * want[1][finite].abs()).all()


MODES = [(0, 3, 2, True), (0, 3, 2, False), (1, 0, 0, True), (2, 0, 0, False), (3, 0, 0, False), (4, 9, 1, False)]


@pytest.mark.parametrize("mode, before, after, masked", MODES)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "BNSD_BSND", "BSND_NBSD"])
def test_attention_modes_and_lengths(layout, mode, before, after, masked):
    B, N, K, S, L, D = 2, 4, 2, 7, 9, 16
    q, k, v = values(B, N, S, D), values(B, K, L, D), values(B, K, L, D)
    mask = torch.rand(B, 1, S, L) < 0.3 if masked else None
    compressed = torch.ones(2048, 2048, dtype=torch.int8).triu(1) if mode == 3 else None
    source, _, target = layout.partition("_")

    def laid(t, axes):
        t = {"BNSD": t, "NBSD": t.transpose(0, 1)}.get(axes, t.transpose(1, 2))
        return t.flatten(2) if axes == "BSH" else t

    lengths = ([5, 7], [6, 9])
    out, lse = torch_npu.npu_fused_infer_attention_score(
        *(laid(t, source) for t in (q, k, v)), atten_mask=mask if masked else compressed, actual_seq_lengths=lengths[0],
        actual_seq_lengths_kv=lengths[1], num_heads=N, num_key_value_heads=K, scale=0.25, pre_tokens=before,
        next_tokens=after, input_layout=layout, sparse_mode=mode, softmax_lse_flag=True)
    want = torch.zeros(B, N, S, D, dtype=torch.float64), torch.full((B, N, S, 1), torch.inf, dtype=torch.float64)
    for b, (s, n) in enumerate(zip(*lengths)):
        seen = visible(s, n, mode, before, after, mask[b, 0, :s, :n] if masked else None)
        want[0][b, :, :s], want[1][b, :, :s] = attended(q[b, :, :s], k[b, :, :n], v[b, :, :n], 0.25, seen)
    close_attention(out, lse, (laid(want[0], target or source), want[1]), v)


@pytest.mark.parametrize("layout", ["TND", "TND_NTD", "NTD_TND"])
@pytest.mark.parametrize("mode", [0, 3])
def test_attention_of_packed_sequences(layout, mode):
    q, k, v = values(12, 4, 16), values(10, 4, 16), values(10, 4, 8)
    ends = [5, 12], [4, 10]
    source, _, target = layout.partition("_")
    laid = [t.transpose(0, 1) if source == "NTD" else t for t in (q, k, v)]
    out, lse = torch_npu.npu_fused_infer_attention_score(
        *laid, actual_seq_lengths=ends[0], actual_seq_lengths_kv=torch.tensor(ends[1]), num_heads=4, scale=0.25,
        input_layout=layout, sparse_mode=mode, softmax_lse_flag=True)
    found = out.transpose(0, 1) if target == "NTD" else out
    starts = (0, 0)
    for stops in zip(*ends):
        rows, keys = (slice(a, b) for a, b in zip(starts, stops))
        s, n = rows.stop - rows.start, keys.stop - keys.start
        want = attended(*(t.transpose(0, 1) for t in (q[rows], k[keys], v[keys])), 0.25,
                        visible(s, n, mode, 0, 0, None))
        close_attention(found[rows].transpose(0, 1), lse[rows].transpose(0, 1), want, v)
        starts = stops


def test_attention_defaults_and_names():
    q = values(2, 7, 16)
    out, lse = torch_npu.npu_fused_infer_attention_score(q, q, q)  # BSH, one head, scale 1
    want = (q.double() @ q.double().mT).softmax(-1) @ q.double()
    assert (out - want).abs().max() <= 4e-6 * q.abs().max() and lse.shape == (0,)
    newer, lse = torch_npu.npu_fused_infer_attention_score_v2(
        q, q, q, num_query_heads=2, softmax_scale=0.3, actual_seq_kvlen=[6], return_softmax_lse=True, sparse_mode=2)
    older = torch_npu.npu_fused_infer_attention_score(
        q, q, q, num_heads=2, scale=0.3, actual_seq_lengths_kv=[6], softmax_lse_flag=True, sparse_mode=2)
    assert torch.equal(newer, older[0]) and torch.equal(lse, older[1])
    none = torch_npu.npu_fused_infer_attention_score(q, q[:, :0], q[:, :0])[0]
    assert none.shape == q.shape and not none.any()


def test_attention_of_one_query_has_no_bands():
    q, k = values(2, 4, 1, 16), values(2, 4, 9, 16)
    seen = torch.ones(1, 9, dtype=bool)
    every = torch.stack([attended(q[b], k[b], k[b], 1.0, seen)[0] for b in range(2)])
    for named in ({"sparse_mode": 2}, {"sparse_mode": 4, "pre_tokens": 1, "next_tokens": 0},
                  {"atten_mask": torch.zeros(2, 9, dtype=bool), "pre_tokens": 0, "next_tokens": 0}):
        out = torch_npu.npu_fused_infer_attention_score(q, k, k, num_heads=4, input_layout="BNSD", **named)[0]
        assert (out - every).abs().max() <= 4e-6 * k.abs().max()
    mask = torch.rand(2, 9) < 0.4
    out = torch_npu.npu_fused_infer_attention_score(q, k, k, num_heads=4, input_layout="BNSD", atten_mask=mask)[0]
    want = torch.stack([attended(q[b], k[b], k[b], 1.0, ~mask[b:b + 1])[0] for b in range(2)])
    assert (out - want).abs().max() <= 4e-6 * k.abs().max()


def test_attention_updates():
    q, k, v = values(4, 7, 16), values(4, 30, 16), values(4, 30, 16)
    seen = torch.ones(7, 30, dtype=bool)
    want = attended(q, k, v, 0.25, seen)
    parts = [torch_npu.npu_fused_infer_attention_score(
        q[None], k[None, :, a:b], v[None, :, a:b], num_heads=4, scale=0.25, input_layout="BNSD", softmax_lse_flag=True)
        for a, b in ((0, 11), (11, 13), (13, 30))]
    lses, outs = [p[1].reshape(-1) for p in parts], [p[0].reshape(-1, 16) for p in parts]
    out, total = torch_npu.npu_attention_update(lses, outs, 1)
    close_attention(out, total[:, None], [t.flatten(0, 1) for t in want], v)
    alone = torch_npu.npu_attention_update(lses, outs, 0)
    assert torch.equal(alone[0], out) and alone[1] is None
    nothing = [torch.full_like(lses[0], torch.inf)] * 2
    out, total = torch_npu.npu_attention_update(nothing, outs[:2], 1)
    assert not out.any() and (total == torch.inf).all()


@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_ring_attention_update(layout, dtype):
    S, B, N, D = 5, 2, 4, 16

    def part():
        top, total = values(B, N, S), values(B, N, S).abs() + 0.5
        return values(S, B, N, D, dtype=dtype), top, total

    def laid(out, *statistics):
        statistics = [t[..., None].expand(B, N, S, 8) for t in statistics]
        if layout == "SBH":
            return out.flatten(2), *statistics
        return out.flatten(0, 1), *(t.permute(2, 0, 1, 3).flatten(0, 1) for t in statistics)

    (o1, m1, s1), (o2, m2, s2) = part(), part()
    named = {} if layout == "SBH" else {"input_layout": "TND", "input_softmax_layout": "TND",
                                        "actual_seq_qlen": torch.tensor([4, S * B])}
    found = torch_npu.npu_ring_attention_update(*laid(o1, m1, s1), *laid(o2, m2, s2), **named)
    top = m1.maximum(m2)
    a, b = (s.double() * (m - top).double().exp() for m, s in ((m1, s1), (m2, s2)))
    weights = [(w / (a + b)).permute(2, 0, 1)[..., None] for w in (a, b)]
    want = laid(o1.double() * weights[0] + o2.double() * weights[1], top, a + b)
    close(found[0], want[0], 0 if dtype is f32 else 1, 4e-6)
    assert found[0].dtype is dtype and torch.equal(found[1], want[1]) and found[1].shape == want[1].shape
    close(found[2], want[2], 4)


# ---- activations ----


@pytest.mark.parametrize("shape, dim", [((7, 30), -1), ((3, 8, 5), 1), ((2, 1, 2, 3, 1, 8), -1), ((2, 1, 6, 3, 1, 8), 2)])
def test_activations(shape, dim):
    x = values(*shape)
    wide = x.double()
    a, b = wide.chunk(2, dim)
    close(torch_npu.npu_swiglu(x, dim=dim), F.silu(a) * b, 5, 1e-6)
    for approximate, name in ((0, "none"), (1, "tanh")):
        out, gelu = torch_npu.npu_geglu(x, dim, approximate)
        close(gelu, F.gelu(b, approximate=name), 4, 1e-7)
        close(out, F.gelu(b, approximate=name) * a, 5, 1e-6)
        close(torch_npu.npu_gelu(x, approximate=name), F.gelu(wide, approximate=name), 4, 1e-7)
    close(torch_npu.npu_geglu(x, dim, activate_left=True)[0], F.gelu(a, approximate="tanh") * b, 5, 1e-6)
    close(torch_npu.npu_fast_gelu(x), wide * torch.sigmoid(1.702 * wide), 4, 1e-7)
    close(torch_npu.npu_silu(input=x), F.silu(wide), 4, 1e-7)


# ---- refusals ----


def test_what_is_not_supported_is_refused_by_name():
    x, gamma = values(3, 32), values(32)
    q, one = values(1, 7, 32), torch.ones(1)
    attention = torch_npu.npu_fused_infer_attention_score, (q, q, q)
    newer = torch_npu.npu_fused_infer_attention_score_v2, (q, q, q)
    heads = values(1, 7, 2, 32)
    tens = tables(1, 7, 1, 32)
    product = torch_npu.npu_quant_matmul, (integers(3, 32), integers(32, 4), values(4))
    for (function, args), named in [
        *((attention, {name: one}) for name, default in torch_npu._REFUSED.items() if default is None),
        *((attention, {name: 1}) for name, default in torch_npu._REFUSED.items() if default == 0),
        *((newer, {name: one}) for name, default in torch_npu._REFUSED_V2.items() if default is None),
        (newer, {"query_quant_mode": 1}),
        (attention, {"input_layout": "SBH"}),
        (attention, {"sparse_mode": 5}),
        (attention, {"inner_precise": 4}),
        (attention, {"num_heads": 0}),
        ((torch_npu.npu_fused_infer_attention_score, (heads,) * 3), {"input_layout": "BSND", "num_heads": 1}),
        ((torch_npu.npu_dynamic_quant, (x,)), {"group_index": one}),
        ((torch_npu.npu_dynamic_quant, (x,)), {"dst_type": torch.quint4x2}),
        ((torch_npu.npu_dynamic_quant, (x,)), {"quant_mode": "pertensor"}),
        ((torch_npu.npu_dynamic_quant, (x,)), {"dst_type_max": 1.0}),
        *((product, {name: one}) for name in ("x1_dtype", "x2_dtype", "pertoken_scale_dtype", "scale_dtype", "group_sizes",
                                             "y_scale")),
        (product, {"output_dtype": torch.int32}),
        (product, {"offset": one, "output_dtype": f16}),
        (product, {"offset": one, "pertoken_scale": values(3)}),
        ((torch_npu.npu_rotary_mul, (heads, *tens)), {"rotate": torch.eye(32)}),
        ((torch_npu.npu_rotary_mul, (heads, *tens)), {"rotary_mode": "interleave-half"}),
        ((torch_npu.npu_apply_rotary_pos_emb, (heads, heads, *tens)), {"layout": "BSH"}),
        ((torch_npu.npu_add_rms_norm_quant, (x, x, gamma, gamma, None)), {"axis": 0}),
        ((torch_npu.npu_add_rms_norm_quant, (x, x, gamma, gamma, None)), {"zero_points2": gamma}),
        ((torch_npu.npu_add_rms_norm_dynamic_quant, (x, x, gamma)), {"output_mask": [False, False]}),
        ((torch_npu.npu_add_rms_norm_dynamic_quant, (x, x, gamma)),
         {"smooth_scale2": gamma, "output_mask": [True, False]}),
        ((torch_npu.npu_rms_norm_quant, (x, gamma, gamma, one, one)), {"dst_dtype": torch.float8_e4m3fn}),
        ((torch_npu.npu_gelu, (x,)), {"approximate": "fast"}),
        ((torch_npu.npu_geglu, (x,)), {"approximate": 2}),
        ((torch_npu.npu_swiglu, (x,)), {"dim": 2}),
        ((torch_npu.npu_attention_update, ([one], [one[None]])), {"update_type": 2}),
        ((torch_npu.npu_ring_attention_update, (q, *(values(7, 1, 1, 8),) * 2) * 2), {"input_layout": "BSH"}),
        ((torch_npu.npu_ring_attention_update, (q, *(values(7, 1, 8),) * 2) * 2), {"input_layout": "TND"}),
    ]:
        argument = "num_heads" if "num_heads" in named else list(named)[0]
        argument = "actual_seq_qlen" if named.get("input_layout") == "TND" else argument
        with pytest.raises(zoetrope.Error, match=rf"^{function.__name__}: {argument} is .*(wanted|but query is)"):
            function(*args, **named)
    with pytest.raises(TypeError, match="unexpected keyword argument 'head_dim'"):
        torch_npu.npu_fused_infer_attention_score(q, q, q, head_dim=32)
    with pytest.raises(TypeError, match="unexpected keyword argument 'eps'"):
        torch_npu.npu_rms_norm(x, gamma, eps=1e-6)


def test_shapes_and_types_that_torch_npu_refuses():
    x, gamma, npu = values(3, 4, 32), values(32), torch_npu
    heads = values(1, 7, 2, 32)
    cos, sin = tables(1, 7, 1, 32)
    statistics, one = values(1, 2, 7, 8), torch.ones(1)
    for call, sentence in [
        (lambda: npu.npu_rms_norm(x, gamma[1:]), r"gamma is \[31\], wanted the last axes of self, \[3, 4, 32\]"),
        (lambda: npu.npu_rms_norm(x, gamma[:0].sum()), "gamma is"),
        (lambda: npu.npu_rms_norm(x, gamma.to(bf16)), "gamma is torch.bfloat16, wanted torch.float32"),
        (lambda: npu.npu_add_rms_norm(x, x[:1], gamma), r"x2 is torch.float32 \[1, 4, 32\], wanted"),
        (lambda: npu.npu_add_rms_norm(x.to(f16), x.to(f16), gamma), "gamma is torch.float32, wanted torch.float16"),
        (lambda: npu.npu_layer_norm_eval(x, [4]), r"normalized_shape is \[4\], wanted the last axes of input"),
        (lambda: npu.npu_layer_norm_eval(x, 32, gamma[:16]), r"weight is \[16\], wanted \[32\] as normalized_shape"),
        (lambda: npu.npu_layer_norm_eval(x, 32, None, gamma.to(f16)), "bias is torch.float16"),
        (lambda: npu.npu_rotary_mul(heads, cos[0], sin[0]), "r1 is .* wanted as many axes as self"),
        (lambda: npu.npu_rotary_mul(heads, cos, sin[..., :16]), "r2 is .* as r1"),
        (lambda: npu.npu_rotary_mul(heads, cos[:, :3], sin[:, :3]), "cos is .* wanted the axes of x"),
        (lambda: npu.npu_apply_rotary_pos_emb(heads, heads.to(bf16), cos, sin), "key is torch.bfloat16"),
        (lambda: npu.npu_apply_rotary_pos_emb(heads, heads[:, :3], cos, sin), "key is .* as query but for axis 2"),
        (lambda: npu.npu_apply_rotary_pos_emb(heads, heads, heads, heads), "cos is .* wanted 1 in axis 2"),
        (lambda: npu.npu_apply_rotary_pos_emb(heads[0], heads[0], cos[0], sin[0]), "query is .* wanted the axes BSND"),
        (lambda: npu.npu_attention_update([gamma], [], 0), "1 of lse and 0 of local_out"),
        (lambda: npu.npu_attention_update([gamma], [x], 0), "lse is .* but for the last axis"),
        (lambda: npu.npu_ring_attention_update(*(x, statistics[..., :4], statistics[..., :4]) * 2), "8 in the last axis"),
        (lambda: npu.npu_ring_attention_update(*(values(7, 1, 33), statistics, statistics) * 2), r"wanted \[1, heads, 7, 8\]"),
        (lambda: npu.npu_quant_matmul(integers(3, 8), integers(2, 8, 4), one), "without batches"),
        (lambda: npu.npu_quant_matmul(x[0], integers(32, 4), one), "x1 is torch.float32, wanted torch.int8"),
        (lambda: npu.npu_quant_matmul(integers(3, 8), integers(8, 4), one.long()), "scale is torch.int64"),
        (lambda: npu.npu_quant_matmul(integers(3, 8), integers(9, 4), one), "linear_int8"),
        (lambda: npu.npu_swiglu(values(3, 33)), "axis 1 of self has 33 elements, wanted an even number"),
        (lambda: npu.npu_fused_infer_attention_score(x, x, x, sparse_mode=1), "mask"),
        (lambda: npu.npu_fused_infer_attention_score(x, x, x, num_heads=4, num_key_value_heads=3), "heads"),
        (lambda: npu.npu_fused_infer_attention_score(*(x,) * 3, num_heads=4, input_layout="TND"), "q_lengths"),
        (lambda: npu.npu_rms_norm(x.double(), gamma.double()), "f64"),
    ]:
        with pytest.raises(RuntimeError, match=sentence):
            call()


# ---- compilation ----


def block(x, gamma, scale, shift, cos, sin):
    """A transformer's layer as torch_npu code has it."""
    y = torch_npu.npu_layer_norm_eval(x, [x.shape[-1]], weight=1 + scale, bias=shift, eps=1e-6)
    q = torch_npu.npu_rms_norm(y, gamma, epsilon=1e-6)[0].unflatten(-1, (4, 16))
    q = torch_npu.npu_rotary_mul(q, cos, sin, rotary_mode="interleave")
    k = q * 0.5
    torch_npu.npu_apply_rotary_pos_emb(q, k, cos.expand(q.shape[0], -1, -1, -1), sin.expand(q.shape[0], -1, -1, -1))
    o = torch_npu.npu_fused_infer_attention_score(
        q, k, k, num_heads=4, input_layout="BSND", scale=0.25, sparse_mode=3, actual_seq_lengths_kv=[4, 5])[0]
    y, _, x = torch_npu.npu_add_rms_norm(o.flatten(2), x, gamma)
    return x + torch_npu.npu_swiglu(torch.cat((y, y), -1))


def arguments(tokens=5):
    return values(2, tokens, 64), values(64), values(64), values(64), *tables(1, tokens, 1, 16)


def test_compiled_without_a_break():
    for dynamic in (False, True):
        args = arguments()
        compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        assert torch.equal(compiled(*args), block(*args))
    longer = arguments(9)
    assert torch.equal(compiled(*longer), block(*longer))


def test_tensors_without_values():
    args = arguments()
    found = block(*(t.to("meta") for t in args))
    assert found.device.type == "meta" and found.shape == block(*args).shape
    with torch._subclasses.FakeTensorMode() as mode:
        found = block(*(mode.from_tensor(t) for t in args))
        assert found.shape == args[0].shape


def test_gradients_reach_the_operators():
    x, gamma = values(3, 32).requires_grad_(), values(32).requires_grad_()
    torch_npu.npu_rms_norm(x, gamma)[0].square().sum().backward()
    wide = [t.detach().double().requires_grad_() for t in (x, gamma)]
    F.rms_norm(wide[0], (32,), wide[1], 1e-6).square().sum().backward()
    for found, want in zip((x, gamma), wide):
        close(found.grad, want.grad, 0, 1e-5 * float(want.grad.abs().max()))


# ---- where a call goes ----


class OnNpu(torch.Tensor):
    """A tensor that says it is on an NPU, and has nothing there."""

    device = types.SimpleNamespace(type="npu")

    @staticmethod
    def __new__(cls, *shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape, device="meta")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} was called for a tensor on an NPU")


@pytest.fixture
def stand_in(monkeypatch):
    """A module in place of torch_npu that notes its calls; its `available` says whether there is an NPU."""
    module = types.ModuleType("torch_npu")
    module.calls, module.available = [], True

    def npu_rms_norm(*args, **named):
        module.calls.append((args, named))
        return "y", "rstd"

    def npu_attention_update(*args, **named):
        module.calls.append((args, named))
        return "out", None

    module.npu_rms_norm, module.npu_attention_update = npu_rms_norm, npu_attention_update
    module.npu_format_cast = lambda x, form: (x, form)
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    monkeypatch.setattr(torch, "npu", types.SimpleNamespace(is_available=lambda: module.available), raising=False)
    return module


def test_tensors_on_an_npu_go_to_the_real_one(stand_in):
    x, gamma = OnNpu(3, 32), OnNpu(32)
    assert torch_npu.npu_rms_norm(x, gamma, epsilon=1e-5) == ("y", "rstd")
    (args, named), = stand_in.calls
    assert args[0] is x and args[1] is gamma and named == {"epsilon": 1e-5}
    assert torch_npu.npu_attention_update([gamma], [x], 0) == ("out", None)  # tensors in a list count
    assert stand_in.calls[1][0][1][0] is x
    with pytest.raises(zoetrope.Error, match="^npu_swiglu: .* the torch_npu of this machine has no such function$"):
        torch_npu.npu_swiglu(x)


def test_tensors_on_the_cpu_stay_with_us(stand_in):
    x, gamma = values(3, 32), values(32)
    y, rstd = torch_npu.npu_rms_norm(x, gamma)
    assert not stand_in.calls and y.shape == (3, 32) and rstd.shape == (3, 1)
    assert torch_npu.real() is stand_in
    assert torch_npu.npu_format_cast(x, 29) == (x, 29)  # what we do not have is the machine's
    with pytest.raises(AttributeError, match="npu_nothing"):
        torch_npu.npu_nothing


def test_without_an_npu_there_is_no_real_one(stand_in, monkeypatch):
    x, gamma = OnNpu(3, 32), values(32)
    for broken in ("no device", "no module", "ourselves"):
        if broken == "no device":
            stand_in.available = False
        else:
            stand_in.available = True
            monkeypatch.setitem(sys.modules, "torch_npu", None if broken == "no module" else torch_npu)
        assert torch_npu.real() is None
        with pytest.raises(zoetrope.Error, match="^npu_rms_norm: a tensor is on an NPU, but torch_npu cannot be imported"):
            torch_npu.npu_rms_norm(x, gamma)
        with pytest.raises(AttributeError, match="zoetrope.torch_npu has no npu_format_cast"):
            torch_npu.npu_format_cast
        assert torch_npu.npu_rms_norm(values(3, 32), gamma)[0].shape == (3, 32)
    assert not stand_in.calls


def test_other_devices_are_refused(monkeypatch):
    monkeypatch.setattr(OnNpu, "device", types.SimpleNamespace(type="cuda"))
    with pytest.raises(zoetrope.Error, match="^npu_rms_norm: a tensor is on cuda, wanted cpu or npu$"):
        torch_npu.npu_rms_norm(OnNpu(3, 32), values(32))


DEVICE = """
import sys, types, torch
import zoetrope.torch_npu as torch_npu
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", types.SimpleNamespace(is_available=lambda: True))
sys.modules["torch_npu"] = types.SimpleNamespace(npu_silu=lambda x: ("silu of", x))
class Empty(torch.Tensor):
    __torch_dispatch__ = None
x = torch.Tensor._make_wrapper_subclass(Empty, (3,), device="npu:0")
assert torch_npu.npu_silu(x) == ("silu of", x)
assert torch_npu.npu_silu(torch.zeros(3)).shape == (3,)
"""


def test_a_device_that_torch_knows_as_npu():
    """As torch_npu makes itself known. In a process of its own, for a device cannot be taken back."""
    subprocess.run([sys.executable, "-c", DEVICE], check=True, timeout=120)


def test_import_needs_no_torch_npu():
    code = "import sys, zoetrope.torch_npu as t; assert 'torch_npu' not in sys.modules; assert t.npu_silu"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
