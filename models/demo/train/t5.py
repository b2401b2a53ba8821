"""The umT5 text encoder (official tensor names): a relative position table per layer, no 1/sqrt(d) in attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class T5Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def bucket(relative):
    """Bucket (of 32) of key position minus query position."""
    base = (relative > 0).long() * 16
    n = relative.abs()
    far = 8 + (torch.log(n.clamp(min=1).float() / 8) / math.log(16) * 8).long()
    return base + torch.where(n < 8, n, far.clamp(max=15))


class RelativePositions(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.embedding = nn.Embedding(32, heads)

    def forward(self, n):
        at = torch.arange(n)
        return self.embedding(bucket(at[None, :] - at[:, None])).permute(2, 0, 1)[None]


class T5Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        for name in "qkvo":
            setattr(self, name, nn.Linear(dim, dim, bias=False))
        nn.init.normal_(self.q.weight, std=(dim * dim // heads) ** -0.5)
        for name in "kvo":
            nn.init.normal_(getattr(self, name).weight, std=dim ** -0.5)

    def forward(self, x, bias):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return self.o(y.transpose(1, 2).reshape(b, n, c))


class T5FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.GELU("tanh"))
        self.fc1 = nn.Linear(dim, hidden, bias=False)
        self.fc2 = nn.Linear(hidden, dim, bias=False)
        for m in (self.gate[0], self.fc1, self.fc2):
            nn.init.normal_(m.weight, std=m.weight.shape[1] ** -0.5)

    def forward(self, x):
        return self.fc2(self.fc1(x) * self.gate(x))


class T5Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = T5Norm(dim)
        self.attn = T5Attention(dim, heads)
        self.norm2 = T5Norm(dim)
        self.ffn = T5FeedForward(dim, hidden)
        self.pos_embedding = RelativePositions(heads)

    def forward(self, x, mask):
        bias = self.pos_embedding(x.shape[1]).masked_fill(~mask[:, None, None, :], torch.finfo(x.dtype).min)
        x = x + self.attn(self.norm1(x), bias)
        return x + self.ffn(self.norm2(x))


class T5Encoder(nn.Module):
    def __init__(self, vocab, dim=64, heads=2, hidden=128, layers=2):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(T5Block(dim, heads, hidden) for _ in range(layers))
        self.norm = T5Norm(dim)

    def forward(self, ids, mask):
        """ids, mask [b, n] (mask true for real tokens); rows behind the end come out as zeros."""
        x = self.token_embedding(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) * mask[..., None]
