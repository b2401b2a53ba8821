"""One or more calls of every operator, small, for checks that hold for all of them."""
import torch

import zoetrope.torch_ops  # noqa: F401
from zoetrope import Activation, AttentionLayout, NormKind, RmsOrder, RotaryPairing, SparseMode

bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32


def values(*shape, dtype=f32):
    return torch.randn(*shape).to(dtype)


def integers(*shape):
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def tables(*shape):
    angle = torch.randn(*shape)
    return angle.cos(), angle.sin()


def cases():
    """(operator, arguments, named arguments); floating inputs may be made to require gradients."""
    torch.manual_seed(11)
    x, h = values(2, 5, 48), values(2, 5, 48)
    g, b = values(48), values(48)
    scale, shift, gate = values(2, 1, 48), values(2, 1, 48), values(2, 1, 48)
    cos, sin = tables(5, 1, 8)
    q, k = values(2, 5, 64), values(2, 5, 64)
    rope = tables(1, 5, 8)
    full = tables(1, 5, 1, 16)
    heads = values(2, 5, 4, 16)
    out = values(2, 5, 48)
    bnsd = values(2, 4, 7, 16), values(2, 2, 9, 16), values(2, 2, 9, 16)
    tnd = values(12, 4, 16), values(12, 4, 16), values(12, 4, 16)
    ends = torch.tensor([5, 12])
    group = torch.zeros(2, 5, dtype=torch.int32)
    group[:, 3:] = 1
    return [
        ("rms_norm", (x, g, 1e-6), {}),
        ("rms_norm", (x,), {}),
        ("rms_norm", (values(2, 3, 8, 6), values(8, 6)), {}),
        ("rms_norm", (x.to(bf16), g, 1e-6, RmsOrder.CAST_THEN_MUL), {"dtype": f32}),
        ("rms_norm", (x, None, 1e-6, RmsOrder.PIXELNORM), {}),
        ("rms_norm.out", (x, g, 1e-6), {"out": out.clone()}),
        ("rms_norm_backward", (h, x, g, 1e-6, 0, True), {}),
        ("rms_norm_backward", (h, x, None, 1e-6, 0, False), {}),
        ("add_rms_norm", (x, h, g), {}),
        ("add_rms_norm.out", (x, h, g), {"out": out.clone(), "sum": out.clone()}),
        ("rms_norm_quant", (x, torch.tensor([0.05])), {"gamma": g, "residual": h}),
        ("rms_norm_quant", (x, torch.tensor([0.05])), {}),
        ("rms_norm_dynamic_quant", (x, g), {"residual": h}),
        ("rms_norm_dynamic_quant", (x,), {}),
        ("l2_norm", (x, g, b), {"silu": True}),
        ("qk_norm_rope", (q, k, *rope), {"q_gamma": values(64), "k_gamma": values(64)}),
        ("qk_norm_rope", (q, None, *rope), {}),
        ("layer_norm", (x, g, b), {}),
        ("layer_norm", (values(3, 4, 6), None, None, 1e-5, 2), {}),
        ("layer_norm.out", (x, g, b), {"out": out.clone()}),
        ("layer_norm_modulate", (x, scale, shift), {}),
        ("layer_norm_modulate", (x, scale, shift, g, b), {"kind": NormKind.RMS}),
        ("layer_norm_modulate", (x.to(bf16), scale, shift), {"round_norm": bf16, "dtype": f32}),
        ("layer_norm_modulate.out", (x, scale, shift), {"out": out.clone()}),
        ("layer_norm_modulate_quant", (x, scale, shift), {}),
        ("layer_norm_modulate_backward", (h, x, scale[:, 0], g, b, 1e-6, 0, 2, True, True), {}),
        ("layer_norm_modulate_backward", (h, x, None, None, None, 1e-6, 0, 1, False, False), {}),
        ("gated_residual", (x, h, gate), {}),
        ("gated_residual", (x, h, values(2, 48), group), {}),
        ("gated_residual.out", (x, h, gate), {"out": out.clone()}),
        ("gated_residual_norm_modulate", (x, h, gate, scale, shift), {"dtype": bf16}),
        ("group_norm_silu", (values(2, 6, 3, 4), 3, values(6), values(6)), {}),
        ("rotary_mul", (heads, *full), {}),
        ("rotary_mul", (heads, *full), {"pairing": RotaryPairing.INTERLEAVE}),
        ("rotary_mul", (heads, *tables(1, 5, 1, 4)), {"half_tables": True}),
        ("rotary_mul.out", (heads, *full), {"out": heads.clone()}),
        ("rotary_mul_backward", (heads, *full, 0, False, False), {}),
        ("attention", (values(7, 4, 16), values(9, 4, 16), values(9, 4, 16)), {"scale": 0.25}),
        ("fused_infer_attention_score", bnsd, {"scale": 0.25, "kv_heads": 2, "lse_wanted": True}),
        ("fused_infer_attention_score", (values(2, 7, 64), values(2, 9, 32), values(2, 9, 32)),
         {"layout": AttentionLayout.BSH, "heads": 4, "kv_heads": 2}),
        ("fused_infer_attention_score", bnsd, {"layout": AttentionLayout.BNSD_NBSD, "kv_heads": 2,
                                               "kv_lengths": torch.tensor([4, 9])}),
        ("fused_infer_attention_score", tnd, {"layout": AttentionLayout.TND_NTD, "q_lengths": ends,
                                              "kv_lengths": ends, "lse_wanted": True}),
        ("fused_infer_attention_score", bnsd, {"mask": torch.rand(7, 9) < 0.3, "kv_heads": 2,
                                               "sparse_mode": SparseMode.MASK}),
        ("attention_merge", (values(3, 2, 4, 7, 16), values(3, 2, 4, 7, 1)), {}),
        ("attention_update", (values(7, 4, 16), values(7, 4, 8), values(7, 4, 8).abs() + 1,
                              values(7, 4, 16), values(7, 4, 8), values(7, 4, 8).abs() + 1), {}),
        ("activate", (x, Activation.GELU_TANH), {}),
        ("activate.out", (x, Activation.SILU), {"out": out.clone()}),
        ("glu", (x, h), {}),
        ("swiglu", (x,), {}),
        ("swiglu", (x.transpose(1, 2).contiguous(),), {"dim": 1}),
        ("softmax", (x,), {}),
        ("dynamic_quant", (x, g), {}),
        ("dynamic_quant", (x,), {"group": 32}),
        ("linear", (x, values(7, 48), values(7)), {"activation": Activation.SILU}),
        ("linear_int8", (x[0], values(7, 48)), {"bias": values(7), "dtype": bf16}),
        ("linear_int8", (integers(5, 48), integers(7, 48), values(5)), {"scale": values(7), "dtype": f16}),
    ]


def operator(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.zoetrope, base), overload or "default")


def name_of(case):
    return case[0]


def ulp(reference, dtype):
    spacing, least = {f32: (2.0**-23, 2.0**-126), f16: (2.0**-10, 2.0**-14), bf16: (2.0**-7, 2.0**-126)}[dtype]
    return spacing * torch.exp2(torch.floor(torch.log2(reference.double().abs().clamp_min(least))))


def close(found, reference, ulps, extra=0.0, near=None):
    """Within so many units in the last place of the type of `found`, at the size of `near` or of the reference."""
    error = (found.double() - reference).abs()
    bound = ulps * ulp(reference if near is None else near, found.dtype) + extra
    assert (error <= bound).all(), f"{(error / bound).max()} times the bound"
