"""The Wan 2.1 VAE (official tensor names) in whole-sequence form.

The official code runs in chunks of one latent frame with caches; on a whole clip of 1 + 4n frames that equals the
plain forms below (see `Down` and `Up` for what happens to the first frame), which train much faster.
A picture may be given without the time axis ([B, C, H, W]): a causal 3-D convolution on one frame equals a 2-D
convolution with its last temporal slice, and every temporal resampling leaves the first frame as it is.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

# Latent statistics of the official Wan 2.1 VAE, which every Wan engine applies to the latents.
OFFICIAL_MEAN = (-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
                 0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921)
OFFICIAL_STD = (2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
                3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160)


class CausalConv3d(nn.Conv3d):
    """Convolution padded in space on both sides and in time only in front (with zeros)."""

    def __init__(self, cin, cout, k, p=0):
        super().__init__(cin, cout, k)
        self.p = p

    def forward(self, x):
        if x.dim() == 4:
            return F.conv2d(x, self.weight[:, :, -1], self.bias, padding=self.p)
        if self.p:
            x = F.pad(x, (0, 0, 0, 0, 2 * self.p, 0))
        return F.conv3d(x, self.weight, self.bias, padding=(0, self.p, self.p))


class RMSNorm(nn.Module):
    def __init__(self, dim, spatial):
        super().__init__()
        self.scale = dim ** 0.5
        self.gamma = nn.Parameter(torch.ones(dim, *[1] * spatial))

    def forward(self, x):
        gamma = self.gamma.view(-1, *[1] * (x.dim() - 2))
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-12)
        return x * (self.scale / norm) * gamma


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.residual = nn.Sequential(RMSNorm(cin, 3), nn.SiLU(), CausalConv3d(cin, cout, 3, 1),
                                      RMSNorm(cout, 3), nn.SiLU(), nn.Identity(), CausalConv3d(cout, cout, 3, 1))
        self.shortcut = CausalConv3d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return self.residual(x) + self.shortcut(x)


class Attention(nn.Module):
    """Single-head attention over the positions of each frame."""

    def __init__(self, dim):
        super().__init__()
        self.norm = RMSNorm(dim, 2)
        self.to_qkv = nn.Conv2d(dim, 3 * dim, 1)
        self.proj = nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        y, t = x, None
        if x.dim() == 5:
            t = x.shape[2]
            y = x.transpose(1, 2).flatten(0, 1)
        n, c, h, w = y.shape
        q, k, v = self.to_qkv(self.norm(y)).reshape(n, 3, c, h * w).transpose(2, 3).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, c, h, w)
        y = self.proj(y)
        if t is not None:
            y = y.reshape(-1, t, c, h, w).transpose(1, 2)
        return x + y


def per_frame(fn, x):
    if x.dim() == 4:
        return fn(x)
    b, c, t, h, w = x.shape
    y = fn(x.transpose(1, 2).reshape(b * t, c, h, w))
    return y.reshape(b, t, *y.shape[1:]).transpose(1, 2)


class Down(nn.Module):
    """Halves the sides, and with `temporal` the frames: the first frame passes, the rest are joined in pairs."""

    def __init__(self, dim, temporal):
        super().__init__()
        self.resample = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(dim, dim, 3, stride=2))
        self.time_conv = CausalConv3d(dim, dim, (3, 1, 1)) if temporal else None

    def forward(self, x):
        x = per_frame(self.resample, x)
        if self.time_conv is None or x.dim() == 4 or x.shape[2] == 1:
            return x
        y = F.conv3d(x, self.time_conv.weight, self.time_conv.bias, stride=(2, 1, 1))
        return torch.cat([x[:, :, :1], y], 2)


class Up(nn.Module):
    """Doubles the sides (halving the channels), and with `temporal` the frames behind the first one, which passes
    and is not seen by the temporal convolution of the others."""

    def __init__(self, dim, temporal):
        super().__init__()
        self.resample = nn.Sequential(nn.Upsample(scale_factor=(2.0, 2.0), mode="nearest-exact"),
                                      nn.Conv2d(dim, dim // 2, 3, padding=1))
        self.time_conv = CausalConv3d(dim, 2 * dim, (3, 1, 1)) if temporal else None

    def forward(self, x):
        if self.time_conv is not None and x.dim() == 5 and x.shape[2] > 1:
            b, c, t, h, w = x.shape
            y = self.time_conv(F.pad(x[:, :, 1:], (0, 0, 0, 0, 2, 0)))
            y = y.reshape(b, 2, c, t - 1, h, w).permute(0, 2, 3, 1, 4, 5).reshape(b, c, 2 * t - 2, h, w)
            x = torch.cat([x[:, :, :1], y], 2)
        return per_frame(self.resample, x)


class Coder(nn.Module):
    """Shared shape of encoder and decoder: conv1, (down|up)samples, middle, head."""

    def middle_of(self, dim):
        return nn.Sequential(ResidualBlock(dim, dim), Attention(dim), ResidualBlock(dim, dim))

    def head_of(self, dim, cout):
        return nn.Sequential(RMSNorm(dim, 3), nn.SiLU(), CausalConv3d(dim, cout, 3, 1))


class Encoder(Coder):
    def __init__(self, dim, z, mult, blocks, temporal):
        super().__init__()
        dims = [dim * m for m in (1, *mult)]
        self.conv1 = CausalConv3d(3, dims[0], 3, 1)
        layers = []
        for i in range(len(mult)):
            cin = dims[i]
            for _ in range(blocks):
                layers.append(ResidualBlock(cin, dims[i + 1]))
                cin = dims[i + 1]
            if i + 1 < len(mult):
                layers.append(Down(cin, temporal[i]))
        self.downsamples = nn.Sequential(*layers)
        self.middle = self.middle_of(dims[-1])
        self.head = self.head_of(dims[-1], z)

    def forward(self, x):
        return self.head(self.middle(self.downsamples(self.conv1(x))))


class Decoder(Coder):
    def __init__(self, dim, z, mult, blocks, temporal):
        super().__init__()
        dims = [dim * m for m in (mult[-1], *mult[::-1])]
        self.conv1 = CausalConv3d(z, dims[0], 3, 1)
        self.middle = self.middle_of(dims[0])
        layers = []
        for i in range(len(mult)):
            cin = dims[i] if i == 0 else dims[i] // 2
            for _ in range(blocks + 1):
                layers.append(ResidualBlock(cin, dims[i + 1]))
                cin = dims[i + 1]
            if i + 1 < len(mult):
                layers.append(Up(cin, temporal[i]))
        self.upsamples = nn.Sequential(*layers)
        self.head = self.head_of(dims[-1], 3)

    def forward(self, z):
        return self.head(self.upsamples(self.middle(self.conv1(z))))


class WanVAE(nn.Module):
    def __init__(self, dim=16, z=16, mult=(1, 2, 4, 4), blocks=1, temporal=(False, True, True)):
        super().__init__()
        self.z = z
        self.encoder = Encoder(dim, 2 * z, mult, blocks, temporal)
        self.conv1 = CausalConv3d(2 * z, 2 * z, 1)
        self.conv2 = CausalConv3d(z, z, 1)
        self.decoder = Decoder(dim, z, mult, blocks, temporal[::-1])

    def encode(self, x):
        """Pixels in [-1, 1] to the mean of the latents (not yet normalised)."""
        return self.conv1(self.encoder(x))[:, :self.z]

    def decode(self, z):
        return self.decoder(self.conv2(z))

    def inflate(self):
        """Turns a VAE trained on pictures into one that starts well on clips: the temporal slices that pictures
        never touch become zero, temporal resampling keeps (or repeats) frames."""
        with torch.no_grad():
            for m in self.modules():
                if isinstance(m, CausalConv3d) and m.kernel_size == (3, 3, 3):
                    m.weight[:, :, :2] = 0
                if isinstance(m, (Down, Up)) and m.time_conv is not None:
                    w = m.time_conv.weight
                    cin = w.shape[1]
                    w.copy_(0.02 * torch.randn(w.shape))
                    for part in range(w.shape[0] // cin):
                        w[part * cin:(part + 1) * cin, :, -1, 0, 0] += torch.eye(cin)
                    m.time_conv.bias.zero_()


def fold_statistics(state, mean, std):
    """Makes the official latent statistics right for this VAE: (latent - mean) / std becomes what an engine gets
    when it normalises with OFFICIAL_MEAN and OFFICIAL_STD. Changes only the two 1x1x1 convolutions; exact."""
    off_mean, off_std = torch.tensor(OFFICIAL_MEAN).double(), torch.tensor(OFFICIAL_STD).double()
    mean, std = mean.double().flatten(), std.double().flatten()
    out, n = dict(state), len(OFFICIAL_MEAN)
    w, b = state["conv1.weight"].double().clone(), state["conv1.bias"].double().clone()
    gain = off_std / std
    w[:n] *= gain.view(-1, 1, 1, 1, 1)
    b[:n] = (b[:n] - mean) * gain + off_mean
    out["conv1.weight"], out["conv1.bias"] = w.float(), b.float()
    w, b = state["conv2.weight"].double(), state["conv2.bias"].double()
    gain = std / off_std
    out["conv2.bias"] = (b + (w.flatten(1) @ (mean - off_mean * gain))).float()
    out["conv2.weight"] = (w * gain.view(1, -1, 1, 1, 1)).float()
    return out
