"""The Wan 2.2 I2V diffusion transformer (official tensor names), compact and for training on a CPU."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rope_table(frames, rows, cols, head_dim):
    """(cos, sin) [1, 1, tokens, head_dim / 2]; frames get the larger part of the pairs, rows and columns a third."""
    pairs = head_dim // 2
    parts = (pairs - 2 * (pairs // 3), pairs // 3, pairs // 3)
    grid = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (frames, rows, cols)), indexing="ij")
    angles = [pos.reshape(-1, 1) * 10000 ** (-torch.arange(n, dtype=torch.float64) / n) for pos, n in zip(grid, parts)]
    a = torch.cat(angles, 1)[None, None]
    return a.cos().float(), a.sin().float()


def rotate(x, table):
    cos, sin = table
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class DiTAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        for name in "qkvo":
            setattr(self, name, nn.Linear(dim, dim))
        self.norm_q, self.norm_k = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x, context=None, table=None, bias=None):
        context = x if context is None else context
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.norm_q(self.q(x))), split(self.norm_k(self.k(context))), split(self.v(context))
        if table is not None:
            q, k = rotate(q, table), rotate(k, table)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.o(y.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.dim = dim
        self.self_attn = DiTAttention(dim, heads)
        self.norm3 = nn.LayerNorm(dim, eps=1e-6)
        self.cross_attn = DiTAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, hidden), nn.GELU("tanh"), nn.Linear(hidden, dim))
        self.modulation = nn.Parameter(torch.randn(1, 6, dim) / dim ** 0.5)

    def forward(self, x, e0, context, table, bias):
        m = (self.modulation + e0).unsqueeze(2).unbind(1)
        norm = lambda t: F.layer_norm(t, (self.dim,), eps=1e-6)
        x = x + self.self_attn(norm(x) * (1 + m[1]) + m[0], table=table) * m[2]
        x = x + self.cross_attn(self.norm3(x), context, bias=bias)
        return x + self.ffn(norm(x) * (1 + m[4]) + m[3]) * m[5]


class Head(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.head = nn.Linear(dim, out)
        self.modulation = nn.Parameter(torch.randn(1, 2, dim) / dim ** 0.5)

    def forward(self, x, e):
        m = (self.modulation + e[:, None]).unsqueeze(2).unbind(1)
        return self.head(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + m[1]) + m[0])


class WanDiT(nn.Module):
    def __init__(self, dim=192, heads=3, hidden=352, layers=5, text_dim=64, text_len=64, in_dim=36, out_dim=16,
                 freq_dim=256):
        super().__init__()
        self.config = dict(dim=dim, eps=1e-6, ffn_dim=hidden, freq_dim=freq_dim, in_dim=in_dim, model_type="i2v",
                           num_heads=heads, num_layers=layers, out_dim=out_dim, text_len=text_len)
        self.dim, self.heads, self.text_len, self.out_dim, self.freq_dim = dim, heads, text_len, out_dim, freq_dim
        self.patch_embedding = nn.Conv3d(in_dim, dim, (1, 2, 2), stride=(1, 2, 2))
        self.text_embedding = nn.Sequential(nn.Linear(text_dim, dim), nn.GELU("tanh"), nn.Linear(dim, dim))
        self.time_embedding = nn.Sequential(nn.Linear(freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.blocks = nn.ModuleList(Block(dim, heads, hidden) for _ in range(layers))
        self.head = Head(dim, out_dim * 4)
        self.tables = {}
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)
        nn.init.xavier_uniform_(self.patch_embedding.weight.flatten(1))
        nn.init.zeros_(self.head.head.weight)

    def forward(self, x, y, t, context, lengths):
        """x [b,16,f,h,w] noisy latent, y [b,20,f,h,w] condition, t [b] in 0..1000, context [b,n,text_dim] with zero
        rows from lengths[b] on, at least one of them where lengths[b] < text_len. The model sees text_len rows: the
        zero rows are all alike, so a few of them stand for all, their weight in attention raised to match."""
        b, _, f, h, w = x.shape
        half = self.freq_dim // 2
        freq = 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
        a = t.double()[:, None] * freq
        e = self.time_embedding(torch.cat([a.cos(), a.sin()], 1).float())
        e0 = self.time_projection(e).unflatten(1, (6, self.dim))
        n = context.shape[1]
        zeros = (n - lengths).clamp(min=1).double()
        weight = torch.log((self.text_len - lengths).double().clamp(min=1e-12) / zeros).float()
        at = torch.arange(n)[None]
        bias = torch.where(at < lengths[:, None], 0.0, weight[:, None])[:, None, None, :]
        ctx = self.text_embedding(context)
        key = (f, h // 2, w // 2)
        if key not in self.tables:
            self.tables[key] = rope_table(*key, self.dim // self.heads)
        # Patch embedding as a matrix product: 2x2 patches, channel slowest.
        u = torch.cat([x, y], 1).reshape(b, -1, f, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).flatten(4)
        u = F.linear(u.flatten(1, 3), self.patch_embedding.weight.flatten(1), self.patch_embedding.bias)
        for block in self.blocks:
            u = block(u, e0, ctx, self.tables[key], bias)
        v = self.head(u, e).reshape(b, f, h // 2, w // 2, 2, 2, self.out_dim)
        return v.permute(0, 6, 1, 2, 4, 3, 5).reshape(b, self.out_dim, f, h, w)
