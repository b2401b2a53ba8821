"""Trains the VAE, one phase a call (see README.md for the sequence of calls).

    python train_vae.py images  --out a.pt --steps 3500
    python train_vae.py clips   --out b.pt --init a.pt --inflate --minutes 20 --frames 9,17,5,17 --batch 5,3,8,3
    python train_vae.py decoder --out c.pt --init b.pt --minutes 30 --frames 17 --batch 3

`images` learns single frames with 2-D convolutions, `clips` whole clips, `decoder` clips with a frozen encoder.
Snapshots are written to --out every 2 minutes; --resume continues from one with optimiser and step count.
"""
import argparse
import math
import os
import random
import time

import numpy as np
import torch

import clips
from vae import WanVAE


def make_batch(mode, n, frames, crop, g, rng):
    scenes = clips.make_scenes(n, g)
    picked = clips.pick_motions(scenes, 1, rng)
    moments = np.linspace(0, 1, 17)
    start = rng.randrange(0, 17 - frames + 1)
    window = (rng.randrange(0, 65 - crop), rng.randrange(0, 65 - crop), crop)
    video = torch.from_numpy(clips.render(scenes, picked, times=moments[start:start + frames], crop=window))
    return video[:, :, 0] if mode == "images" else video


def gradient_loss(y, v):
    d = y - v
    return d.diff(dim=-1).abs().mean() + d.diff(dim=-2).abs().mean()


def psnr(a, b, dims=None):
    e = (a.clamp(-1, 1) - b).square()
    return 10 * torch.log10(4 / (e.mean() if dims is None else e.mean(dims)))


@torch.no_grad()
def evaluate(vae, n=6, seed=10 ** 9):
    """PSNR over whole unseen 64x64 clips of 17 frames: mean, and per frame."""
    g, rng = np.random.default_rng(seed), random.Random(seed)
    scenes = clips.make_scenes(n, g)
    v = torch.from_numpy(clips.render(scenes, clips.pick_motions(scenes, 1, rng)))
    y = vae.decode(vae.encode(v))
    return psnr(y, v).item(), psnr(y, v, (0, 1, 3, 4)).tolist()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("mode", choices=("images", "clips", "decoder"))
    ap.add_argument("--out", required=True)
    ap.add_argument("--init")
    ap.add_argument("--inflate", action="store_true")
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--steps", type=int)
    ap.add_argument("--minutes", type=float)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--frames", default="1")
    ap.add_argument("--batch", default="16")
    ap.add_argument("--crop", type=int, default=32)
    ap.add_argument("--noise", type=float, default=0.02, help="added to the latents, so that near ones decode alike")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    g, rng = np.random.default_rng(a.seed), random.Random(a.seed)

    vae = WanVAE()
    step, spent = 0, 0.0
    saved = None
    if a.resume and os.path.exists(a.out):
        saved = torch.load(a.out)
        vae.load_state_dict(saved["vae"])
        step, spent = saved["step"], saved["spent"]
        g = np.random.default_rng(a.seed + step)
        rng.seed(a.seed + step)
    elif a.init:
        vae.load_state_dict(torch.load(a.init)["vae"])
        if a.inflate:
            vae.inflate()
    if a.mode == "decoder":
        vae.encoder.requires_grad_(False)
        vae.conv1.requires_grad_(False)
    params = [p for p in vae.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=a.lr, betas=(0.9, 0.95), weight_decay=0.0)
    if saved:
        opt.load_state_dict(saved["opt"])
    kinds = list(zip(map(int, a.frames.split(",")), map(int, a.batch.split(","))))
    t0 = time.time() - spent
    last_save = time.time()
    mean_l2 = None

    def save():
        torch.save(dict(vae=vae.state_dict(), opt=opt.state_dict(), step=step, spent=time.time() - t0), a.out + ".tmp")
        os.replace(a.out + ".tmp", a.out)

    while True:
        progress = max(step / a.steps if a.steps else 0, (time.time() - t0) / 60 / a.minutes if a.minutes else 0)
        if progress >= 1:
            break
        frames, n = kinds[step % len(kinds)]
        v = make_batch(a.mode, n, frames, a.crop, g, rng)
        if v.dim() == 4:
            v = v.contiguous(memory_format=torch.channels_last)
        with torch.set_grad_enabled(a.mode != "decoder"):
            m = vae.encode(v)
        y = vae.decode(m + a.noise * torch.randn_like(m))
        l2 = (y - v).square().mean()
        loss = (y - v).abs().mean() + l2 + 0.5 * gradient_loss(y, v)
        loss = loss + 1e-4 * (m.abs() - 3).clamp(min=0).square().mean()
        lr = a.lr * min(1, (step + 1) / 100) * max(0.02, 0.5 * (1 + math.cos(math.pi * progress)))
        for group in opt.param_groups:
            group["lr"] = lr
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        mean_l2 = l2.item() if mean_l2 is None else 0.97 * mean_l2 + 0.03 * l2.item()
        if step % 50 == 0:
            print(f"{a.mode} {step} frames {frames} psnr {10 * math.log10(4 / mean_l2):.2f} latent std {m.std():.3f} "
                  f"lr {lr:.2e} t {time.time() - t0:.0f}", flush=True)
        step += 1
        if time.time() - last_save > 120:
            save()
            last_save = time.time()
            if a.mode != "images":
                total, per = evaluate(vae)
                print(f"eval {step} {total:.2f} dB, frames " + " ".join(f"{p:.1f}" for p in per), flush=True)
    save()
    if a.mode != "images":
        total, per = evaluate(vae, 24)
        print(f"final {step} {total:.2f} dB, frames " + " ".join(f"{p:.1f}" for p in per), flush=True)


if __name__ == "__main__":
    main()
