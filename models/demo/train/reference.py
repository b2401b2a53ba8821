"""Image-to-video with the exported checkpoint in PyTorch, as the engine does it: UniPC in the official form, shift 5,
two experts, guidance against the official negative prompt. For checking a checkpoint without the engine.

    python reference.py --checkpoint .. --image in.png --prompt "a red circle moves left fast" --out sheet.png
"""
import argparse
import os

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from dit import WanDiT
from t5 import T5Encoder
from text import NEGATIVE, Tokenizer
from vae import OFFICIAL_MEAN, OFFICIAL_STD, WanVAE

BOUNDARY = 900


def schedule(steps, shift=5.0):
    s = np.linspace(np.float32(0.999), 0.0, steps + 1)[:-1]
    sigma = shift * s / (1 + (shift - 1) * s)
    return np.append(sigma, 0.0).astype(np.float32).astype(np.float64), (sigma * 1000).astype(np.int64)


class UniPC:
    """Second-order UniPC (bh2) on flow sigmas, with corrector."""

    def __init__(self, sigma):
        self.sigma, self.n = sigma, len(sigma) - 1
        self.alpha = 1 - sigma
        with np.errstate(divide="ignore"):
            self.lam = np.log(self.alpha) - np.log(sigma)
        self.x0, self.last, self.order = [], None, 0

    def step(self, i, v, x):
        sigma, alpha, lam = self.sigma, self.alpha, self.lam
        m = x - sigma[i] * v
        if i > 0:
            h = lam[i] - lam[i - 1]
            phi = np.expm1(-h)
            m0 = self.x0[-1]
            if self.order == 1:
                c = 0.5 * (m - m0)
            else:
                r = (lam[i - 2] - lam[i - 1]) / h
                a = phi / -h - 1
                b1, b2 = a / phi, 2 * (a / -h - 0.5) / phi
                rho = (b1 - b2) / (1 - r)
                c = rho * (self.x0[-2] - m0) / r + (b1 - rho) * (m - m0)
            x = sigma[i] / sigma[i - 1] * self.last - alpha[i] * phi * (m0 + c)
        self.x0 = self.x0[-1:] + [m]
        self.last = x
        self.order = min(2, self.n - i, i + 1)
        if i + 1 == self.n:
            return m
        h = lam[i + 1] - lam[i]
        phi = np.expm1(-h)
        y = sigma[i + 1] / sigma[i] * x - alpha[i + 1] * phi * m
        if self.order == 2:
            r = (lam[i - 1] - lam[i]) / h
            y = y - alpha[i + 1] * phi * 0.5 * (self.x0[-2] - m) / r
        return y


class Pipeline:
    def __init__(self, folder):
        f32 = lambda d: {k: v.float() for k, v in d.items()}
        self.tok = Tokenizer(os.path.join(folder, "google/umt5-xxl/spiece.model"))
        self.t5 = T5Encoder(len(self.tok))
        self.t5.load_state_dict(f32(torch.load(os.path.join(folder, "models_t5_umt5-xxl-enc-bf16.pth"))))
        self.vae = WanVAE()
        self.vae.load_state_dict(f32(torch.load(os.path.join(folder, "Wan2.1_VAE.pth"))))
        self.experts = []
        for name in ("high_noise_model", "low_noise_model"):
            dit = WanDiT(text_len=self.tok.text_len)
            dit.load_state_dict(f32(load_file(os.path.join(folder, name, "diffusion_pytorch_model.safetensors"))))
            self.experts.append(dit)
        self.mean = torch.tensor(OFFICIAL_MEAN).view(1, -1, 1, 1, 1)
        self.std = torch.tensor(OFFICIAL_STD).view(1, -1, 1, 1, 1)

    def encode(self, video):
        return (self.vae.encode(video) - self.mean) / self.std

    def decode(self, z):
        return self.vae.decode(z * self.std + self.mean).clamp(-1, 1)

    @torch.no_grad()
    def __call__(self, images, prompts, seeds, negative="", steps=20, guidance=3.5, frames=17):
        """images [b,3,h,w] in [-1,1] -> video [b,3,frames,h,w]."""
        b, _, h, w = images.shape
        video = torch.zeros(b, 3, frames, h, w)
        video[:, :, 0] = images
        y = self.encode(video)
        mask = torch.zeros(b, 4, *y.shape[2:])
        mask[:, :, 0] = 1
        y = torch.cat([mask, y], 1)
        x = torch.stack([torch.randn(y[0, :16].shape, generator=torch.Generator().manual_seed(s)) for s in seeds])
        ids, m, length = self.tok.batch([self.tok.ids(p) for p in prompts])
        cond = self.t5(ids, m)
        ids, m, nlength = self.tok.batch([self.tok.ids(negative or NEGATIVE)] * b)
        uncond = self.t5(ids, m)
        sigma, times = schedule(steps)
        solver = UniPC(sigma)
        for i, t in enumerate(times):
            dit = self.experts[0 if t >= BOUNDARY else 1]
            tt = torch.full((b,), float(t))
            vc, vu = dit(x, y, tt, cond, length), dit(x, y, tt, uncond, nlength)
            x = solver.step(i, vu + guidance * (vc - vu), x)
        return self.decode(x.float())


def read_image(path):
    return torch.from_numpy(np.asarray(Image.open(path).convert("RGB"))).permute(2, 0, 1).float() / 127.5 - 1


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", required=True)
    ap.add_argument("--image", required=True)
    ap.add_argument("--prompt", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--guidance", type=float, default=3.5)
    a = ap.parse_args()
    out = Pipeline(a.checkpoint)(read_image(a.image)[None], [a.prompt], [a.seed], steps=a.steps, guidance=a.guidance)[0]
    sheet = ((out[:, ::2].permute(2, 1, 3, 0).flatten(1, 2) + 1) * 127.5).clamp(0, 255).byte().numpy()
    Image.fromarray(sheet).save(a.out)


if __name__ == "__main__":
    main()
