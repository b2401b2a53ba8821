#!/usr/bin/env python3
"""PyTorch as a peer of `zoe bench`; see README.md. Each operator is a function that makes operands once and returns
what is timed. Results are preallocated where torch has a form for that."""
import json
import math
import os
import signal
import sys
import time
import warnings

signal.signal(signal.SIGINT, signal.SIG_DFL)
OUT = os.fdopen(os.dup(1), "w")  # what a library prints must not be taken for an answer
os.dup2(2, 1)
warnings.filterwarnings("ignore")


def answer(**members):
    OUT.write(json.dumps(members) + "\n")
    OUT.flush()


try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(1)  # the other side says what to do

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EPS = 1e-6


class Unsupported(Exception):
    pass


def type_of(name):
    if name not in TYPES:
        raise Unsupported(f"it has no such operator for {name}")
    return TYPES[name]


def values(dtype, *shape):
    return (torch.rand(*shape) * 2 - 1).to(dtype)


def int8(*shape):
    return torch.randint(-127, 128, shape, dtype=torch.int8)


# ---- products, in the type of the weights ----


def product(c):
    m, n, k = c.shape
    c.dtype = c.w
    dtype = type_of(c.w)
    x, w, bias, y = values(dtype, m, k), values(dtype, n, k), values(dtype, n), values(dtype, m, n)
    return x, w.t(), bias, y


def linear(c):
    x, w, bias, y = product(c)
    return lambda: torch.addmm(bias, x, w, out=y)


def linear_gelu(c):
    x, w, bias, y = product(c)

    def run():
        torch.addmm(bias, x, w, out=y)
        torch.ops.aten.gelu_(y, approximate="tanh")

    return run


def linear_gated(c):
    x, w, bias, y = product(c)
    stream, gate = values(torch.float32, *y.shape), values(torch.float32, y.shape[1])

    def run():
        torch.addmm(bias, x, w, out=y)
        stream.add_(y * gate)

    return run


def linear_qkv(c):
    parts = [product(c) for _ in range(3)]
    x = parts[0][0]

    def run():
        for _, w, bias, y in parts:
            torch.addmm(bias, x, w, out=y)

    return run


def linear_int8(c):
    m, n, k = c.shape
    if c.x != "i8":
        raise Unsupported("it has no product that quantises within")
    x, w, scale, rows = int8(m, k), int8(n, k).t(), values(torch.float32, n), values(torch.float32, m, 1)
    bias = values(torch.float32, n)
    return lambda: torch._int_mm(x, w).float().mul_(rows).mul_(scale).add_(bias)


# ---- attention ----


def attention(c):
    lq, lk, heads, width = c.shape
    dtype = type_of(c.x)
    q, k, v = (values(dtype, 1, rows, heads, width).transpose(1, 2) for rows in (lq, lk, lk))
    return lambda: F.scaled_dot_product_attention(q, k, v)


def fused_attention(causal):
    def make(c):
        lq, lk, heads, width, kv_heads = c.shape
        dtype = type_of(c.x)
        q, k, v = (values(dtype, 1, n, l, width) for n, l in ((heads, lq), (kv_heads, lk), (kv_heads, lk)))
        gqa = heads != kv_heads
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

    return make


def attention_merge(c):
    rows, heads, width = c.shape
    dtype = type_of(c.x)
    outs = [values(dtype, rows, heads, width) for _ in range(2)]
    sums = [values(torch.float32, rows, heads, 1) for _ in range(2)]

    def run():
        total = torch.logaddexp(*sums)
        return sum(o * torch.exp(s - total) for o, s in zip(outs, sums)).to(dtype), total

    return run


# ---- norms ----


def matrix(c, dtype=None):
    return values(type_of(dtype or c.x), *c.shape[:2])


def vector(c, dtype=None):
    return values(type_of(dtype or c.x), c.shape[1])


def rms_norm(c):
    x, gamma = matrix(c), vector(c)
    return lambda: F.rms_norm(x, (x.shape[1],), gamma, EPS)


def rms_norm_no_gamma(c):
    x = matrix(c)
    return lambda: F.rms_norm(x, (x.shape[1],), None, EPS)


def rms_norm_steps(c):
    """As models without the operator write it: power, mean, root, two products."""
    x, gamma = matrix(c), vector(c)
    return lambda: (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * gamma


def wan_rms_norm(x, gamma):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + EPS)).type_as(x) * gamma


def rms_norm_cast(c):
    x, gamma = matrix(c), vector(c)
    return lambda: wan_rms_norm(x, gamma)


def add_rms_norm(c):
    x, residual, total, gamma = matrix(c), matrix(c), matrix(c), vector(c)

    def run():
        torch.add(x, residual, out=total)
        return F.rms_norm(total, (x.shape[1],), gamma, EPS)

    return run


def rms_norm_quant(c):
    x, gamma, scale = matrix(c), vector(c), vector(c)
    return lambda: (
        torch.round(F.rms_norm(x, (x.shape[1],), gamma, EPS).float() / scale).clamp_(-128, 127).to(torch.int8)
    )


def dynamic_quant_of(v):
    scale = v.abs().amax(-1, keepdim=True) / 127
    return torch.round(v / scale).to(torch.int8), scale


def rms_norm_dynamic_quant(c):
    x, gamma = matrix(c), vector(c)
    return lambda: dynamic_quant_of(F.rms_norm(x, (x.shape[1],), gamma, EPS).float())


def dynamic_quant(c):
    x = matrix(c)
    return lambda: dynamic_quant_of(x.float())


def l2_norm_silu(c):
    x, gamma = matrix(c), vector(c)
    return lambda: F.silu(F.normalize(x, dim=-1) * math.sqrt(x.shape[1]) * gamma)


def layer_norm(c):
    x, gamma, beta = matrix(c), vector(c), vector(c)
    return lambda: F.layer_norm(x, (x.shape[1],), gamma, beta, EPS)


def modulate(x, scale, shift, dtype):
    """The official order: the norm in f32, back to the type of x, then in f32."""
    n = F.layer_norm(x.float(), (x.shape[-1],), None, None, EPS).type_as(x)
    return (n.float() * (1 + scale) + shift).to(dtype)


def layer_norm_modulate(c):
    x, scale, shift = matrix(c), vector(c, "f32"), vector(c, "f32")
    return lambda: modulate(x, scale, shift, type_of(c.y))


def gated_residual(c):
    x, h, gate = matrix(c), matrix(c, c.y), vector(c, "f32")
    return lambda: (x + h * gate).to(x.dtype)


def gated_residual_norm_modulate(c):
    x, h = matrix(c), matrix(c, c.y)
    gate, scale, shift = (vector(c, "f32") for _ in range(3))

    def run():
        stream = (x + h * gate).to(x.dtype)
        return modulate(stream, scale, shift, type_of(c.y))

    return run


def group_norm_silu(c):
    channels, positions, groups = c.shape
    dtype = type_of(c.x)
    x, weight, bias = values(dtype, 1, channels, positions), values(dtype, channels), values(dtype, channels)
    return lambda: F.silu(F.group_norm(x, groups, weight, bias, EPS))


# ---- rotary embedding, as the complex product of the official code, in complex64 ----


def rope(x, table):
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * table).flatten(-2).type_as(x)


def table_of(rows, width):
    return torch.polar(torch.ones(rows, 1, width // 2), values(torch.float32, rows, 1, width // 2))


def rotary_mul(c):
    rows, heads, width = c.shape
    x, table = values(type_of(c.x), rows, heads, width), table_of(rows, width)
    return lambda: rope(x, table)


def rotary_mul_half(c):
    rows, heads, width = c.shape
    dtype = type_of(c.x)
    x, cos, sin = values(dtype, rows, heads, width), values(dtype, rows, 1, width), values(dtype, rows, 1, width)

    def run():
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    return run


def qk_norm_rope(c):
    rows, heads, width = c.shape
    dtype, table = type_of(c.x), table_of(rows, width)
    q, k = values(dtype, rows, heads * width), values(dtype, rows, heads * width)
    gammas = values(dtype, heads * width), values(dtype, heads * width)
    return lambda: [rope(wan_rms_norm(x, g).unflatten(-1, (heads, width)), table) for x, g in zip((q, k), gammas)]


# ---- element by element ----


def silu(c):
    x, y = matrix(c), matrix(c, c.y)
    return lambda: torch._C._nn.silu(x, out=y)


def gelu(kind):
    def make(c):
        x, y = matrix(c), matrix(c, c.y)
        return lambda: torch._C._nn.gelu(x, approximate=kind, out=y)

    return make


def geglu(c):
    gate, up, y = matrix(c), matrix(c), matrix(c, c.y)
    return lambda: torch.mul(F.gelu(gate, approximate="tanh"), up, out=y)


def swiglu(c):
    gate, up, y = matrix(c), matrix(c), matrix(c, c.y)
    return lambda: torch.mul(F.silu(gate), up, out=y)


def softmax(c):
    x, y = matrix(c), matrix(c, c.y)
    return lambda: torch.ops.aten._softmax.out(x, -1, False, out=y)


def add(c):
    a, b, y = matrix(c), matrix(c), matrix(c, c.y)
    return lambda: torch.add(a, b, out=y)


def cast(c):
    x, y = matrix(c), matrix(c, c.y)
    return lambda: y.copy_(x)


# ---- convolutions, channels first as torch's models have them; the frames before are part of the input ----


def conv3d(way):
    def make(c):
        frames, height, width, cin, cout, kt, kh, kw = c.shape
        dtype = type_of(c.x)
        x = values(dtype, 1, cin, frames + kt - 1, height, width)
        w, bias = values(dtype, cout, cin, kt, kh, kw), values(dtype, cout)
        pad = (0, kh // 2, kw // 2)
        if way == "upsample":
            return lambda: F.conv3d(F.interpolate(x, scale_factor=(1, 2, 2), mode="nearest-exact"), w, bias, 1, pad)
        if way == "downsample":
            return lambda: F.conv3d(F.pad(x, (0, 1, 0, 1)), w, bias, (1, 2, 2))
        if way == "add":
            residual = values(dtype, 1, cout, frames, height, width)
            return lambda: F.conv3d(x, w, bias, 1, pad).add_(residual)
        return lambda: F.conv3d(x, w, bias, 1, pad)

    return make


def conv2d(c):
    batch, height, width, cin, cout, kh, kw = c.shape
    dtype = type_of(c.x)
    x, w, bias = values(dtype, batch, cin, height, width), values(dtype, cout, cin, kh, kw), values(dtype, cout)
    return lambda: F.conv2d(x, w, bias, 1, (kh // 2, kw // 2))


# ---- models, by diffusers, with random weights, in the type of the activations ----


def diffusers():
    try:
        import diffusers as package
    except ImportError:
        raise Unsupported("diffusers is not installed for this python") from None
    package.utils.logging.set_verbosity_error()
    return package


def step(c):
    """Seconds of a whole pass from passes of one and of three blocks."""
    dim, ffn_dim, layers, in_dim, out_dim, f, h, w = c.shape
    dtype = type_of(c.x)
    models = [
        diffusers()
        .WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=dim // 128,
            attention_head_dim=128,
            in_channels=in_dim,
            out_channels=out_dim,
            text_dim=4096,
            freq_dim=256,
            ffn_dim=ffn_dim,
            num_layers=n,
            cross_attn_norm=True,
            qk_norm="rms_norm_across_heads",
            eps=EPS,
        )
        .to(dtype)
        .eval()
        for n in (1, 3)
    ]
    latent, context = values(dtype, 1, in_dim, f, h, w), values(dtype, 1, 512, 4096)
    moment = torch.tensor([500.0])

    def seconds(clock):
        times = []
        for model in models:
            begin = clock()
            model(hidden_states=latent, timestep=moment, encoder_hidden_states=context, return_dict=False)
            times.append(clock() - begin)
        return times[0] + (layers - 1) * (times[1] - times[0]) / 2

    seconds.whole = True
    return seconds


def autoencoder(encode):
    def make(c):
        frames, height, width, unit = c.shape
        model = diffusers().AutoencoderKLWan(base_dim=unit).eval()
        if encode:
            x = values(torch.float32, 1, 3, frames, height, width)
            return lambda: model.encode(x, return_dict=False)
        z = values(torch.float32, 1, 16, (frames + 3) // 4, height // 8, width // 8)
        return lambda: model.decode(z, return_dict=False)

    return make


MAKERS = {
    "linear": linear, "linear_tiny": linear, "linear_gelu": linear_gelu, "linear_gated": linear_gated,
    "linear_qkv": linear_qkv, "fused_attention": fused_attention(False),
    "fused_attention_causal": fused_attention(True), "attention_merge": attention_merge, "conv2d": conv2d,
    "linear_int8": linear_int8, "dynamic_quant": dynamic_quant, "attention": attention,
    "rms_norm": rms_norm, "rms_norm_steps": rms_norm_steps, "rms_norm_cast": rms_norm_cast,
    "rms_norm_no_gamma": rms_norm_no_gamma, "add_rms_norm": add_rms_norm, "rms_norm_quant": rms_norm_quant,
    "rms_norm_dynamic_quant": rms_norm_dynamic_quant, "l2_norm_silu": l2_norm_silu, "layer_norm": layer_norm,
    "layer_norm_modulate": layer_norm_modulate, "gated_residual": gated_residual,
    "gated_residual_mixed": gated_residual, "gated_residual_norm_modulate": gated_residual_norm_modulate,
    "group_norm_silu": group_norm_silu, "rotary_mul": rotary_mul, "rotary_mul_half": rotary_mul_half,
    "qk_norm_rope": qk_norm_rope, "silu": silu, "silu_tiny": silu, "gelu_tanh": gelu("tanh"),
    "gelu_erf": gelu("none"), "geglu": geglu, "swiglu": swiglu, "softmax": softmax, "add": add, "cast": cast,
    "conv3d": conv3d(""), "conv3d_first": conv3d(""), "conv3d_add": conv3d("add"),
    "conv3d_upsample": conv3d("upsample"), "conv3d_downsample": conv3d("downsample"),
    "step_1.3b": step, "step_5b": step, "step_14b": step, "step_tiny": step,
    "vae_decode": autoencoder(False), "vae_tiny": autoencoder(False),
    "vae_encode": autoencoder(True), "vae_tiny_encode": autoencoder(True),
}  # fmt: skip


class Case:
    def __init__(self, question):
        self.op, self.x, self.w, self.y = (question[key] for key in ("op", "x", "w", "y"))
        self.shape, self.dtype = question["shape"], self.x
        self.clock = time.process_time if question["clock"] == "cpu" else time.perf_counter
        if self.op not in MAKERS:
            raise Unsupported("it has no such operator")
        self.run = MAKERS[self.op](self)

    def seconds(self, calls):
        if hasattr(self.run, "whole"):
            return sum(self.run(self.clock) for _ in range(calls))
        begin = self.clock()
        for _ in range(calls):
            self.run()
        return self.clock() - begin


def memory_reset():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # then the peak is that of the process's life


def memory_peak():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def serve():
    case = None
    answer(ready=f"torch {torch.__version__}")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["do"] == "prepare":
                case = None
                torch.set_num_threads(question["threads"])
                torch.manual_seed(1)
                memory_reset()
                case = Case(question)
                answer(ok=True, dtype=case.dtype)
            elif question["do"] == "run":
                answer(seconds=case.seconds(question["calls"]))
            else:
                case = None
                answer(ok=True, peak_bytes=memory_peak())
        except Unsupported as reason:
            answer(unsupported=str(reason))
        except (RuntimeError, TypeError, ValueError) as error:  # torch's ways of saying no
            case = None
            answer(unsupported=str(error).split("\n")[0][:200])


if __name__ == "__main__":
    with torch.inference_mode():
        serve()
