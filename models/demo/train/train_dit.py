"""Trains the text encoder and the diffusion transformer together on latents made by make_latents.py.

    python train_dit.py --latents latents --tokenizer ../google/umt5-xxl/spiece.model --out dit.pt --minutes 60
    python train_dit.py ... --init dit.pt --out high.pt --range high --minutes 12 --lr 4e-4   (text encoder frozen)
    python train_dit.py ... --init dit.pt --out low.pt  --range low  --minutes 12 --lr 4e-4

Flow matching: sigma = 5u/(1+4u), target noise - latent. --range restricts training to timesteps from 900 (high) or
below 900 (low), for the two experts. An average of the weights (EMA) is kept: it is what gets exported and what
--init takes. Snapshots every 2 minutes; --resume continues from --out.
"""
import argparse
import copy
import glob
import math
import os
import random
import time

import torch

import clips
from dit import WanDiT
from t5 import T5Encoder
from text import Tokenizer

BOUNDARY, SHIFT = 0.9, 5.0


class Latents:
    """All shards present in a folder; `scan` picks up new ones."""

    def __init__(self, folder):
        self.folder, self.seen = folder, set()
        self.z, self.y, self.scene, self.labels = torch.empty(0), torch.empty(0), torch.empty(0, dtype=torch.long), []

    def weigh(self, favour):
        return torch.tensor([favour.get(label[2], 1.0) for label in self.labels])

    def scan(self):
        new = [p for p in sorted(glob.glob(os.path.join(self.folder, "*.pt"))) if p not in self.seen]
        if not new:
            return
        base, zs, ys, scenes = len(self.y), [self.z], [self.y], [self.scene]
        for p in new:
            s = torch.load(p)
            zs.append(s["z"])
            ys.append(s["y"])
            scenes.append(s["scene"] + base)
            base += len(s["y"])
            self.labels += s["labels"]
            self.seen.add(p)
        self.z, self.y, self.scene = torch.cat(zs), torch.cat(ys), torch.cat(scenes)


def sigma_of(u):
    return SHIFT * u / (1 + (SHIFT - 1) * u)


def u_of(sigma):
    return sigma / (SHIFT - (SHIFT - 1) * sigma)


def condition(y):
    """The 20 extra channels: a mask that marks the first latent frame, and the image latents."""
    mask = torch.zeros(y.shape[0], 4, *y.shape[2:])
    mask[:, :, 0] = 1
    return torch.cat([mask, y], 1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--latents", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--init")
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--range", choices=("all", "high", "low"), default="all")
    ap.add_argument("--minutes", type=float, required=True)
    ap.add_argument("--lr", type=float, default=1.5e-3)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--drop", type=float, default=0.12)
    ap.add_argument("--favour", default="", help="motions to show more often, e.g. spin=4,shrink=1.5")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed)

    tok = Tokenizer(a.tokenizer)
    data = Latents(a.latents)
    data.scan()
    favour = {k: float(v) for k, v in (pair.split("=") for pair in a.favour.split(",") if pair)}
    weights = data.weigh(favour)
    model = torch.nn.ModuleDict(dict(dit=WanDiT(text_len=tok.text_len), t5=T5Encoder(len(tok))))
    mean, std = data.z.mean((0, 2, 3, 4), keepdim=True), data.z.std((0, 2, 3, 4), keepdim=True)
    step, spent, saved = 0, 0.0, None
    if a.resume and os.path.exists(a.out):
        saved = torch.load(a.out)
        step, spent = saved["step"], saved["spent"]
        torch.manual_seed(a.seed + step)
        rng.seed(a.seed + step)
        model.load_state_dict(saved["model"])
    elif a.init:
        init = torch.load(a.init)
        model.load_state_dict(init["ema"])
        mean, std = init["mean"], init["std"]
    ema = copy.deepcopy(model).requires_grad_(False)
    if saved:
        mean, std = saved["mean"], saved["std"]
        ema.load_state_dict(saved["ema"])
    if a.range != "all":
        model.t5.requires_grad_(False)      # both experts read the same text encoder
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=a.lr, betas=(0.9, 0.98), weight_decay=0.01)
    if saved:
        opt.load_state_dict(saved["opt"])
    low_u, high_u = {"all": (0, 1), "high": (u_of(BOUNDARY), 1), "low": (0, u_of(BOUNDARY))}[a.range]
    print(f"{sum(p.numel() for p in params) / 1e6:.2f} M parameters, {len(data.z)} clips", flush=True)
    t0 = time.time() - spent
    last_save, average = time.time(), None

    def save():
        torch.save(dict(model=model.state_dict(), ema=ema.state_dict(), opt=opt.state_dict(), mean=mean, std=std,
                        step=step, spent=time.time() - t0, config=model.dit.config), a.out + ".tmp")
        os.replace(a.out + ".tmp", a.out)

    while True:
        progress = (time.time() - t0) / 60 / a.minutes
        if progress >= 1:
            break
        at = torch.multinomial(weights, a.batch)
        z = (data.z[at] - mean) / std
        y = (data.y[data.scene[at]] - mean) / std
        long = rng.random() < 0.4
        rows = [tok.unconditional(rng, long) if rng.random() < a.drop else
                tok.ids(clips.caption(rng, *data.labels[i])) for i in at.tolist()]
        ids, mask, lengths = tok.batch(rows)
        u = (torch.arange(a.batch) + torch.rand(a.batch)) / a.batch        # spread evenly over the noise levels
        sigma = sigma_of(low_u + (high_u - low_u) * u)
        s = sigma.view(-1, 1, 1, 1, 1)
        noise = torch.randn_like(z)
        v = model.dit((1 - s) * z + s * noise, condition(y), (sigma * 1000).floor(), model.t5(ids, mask), lengths)
        loss = (v - (noise - z)).square().mean()
        lr = a.lr * min(1, (step + 1) / 200) * max(0.02, 0.5 * (1 + math.cos(math.pi * progress)))
        for group in opt.param_groups:
            group["lr"] = lr
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        decay = min(0.998, (1 + step) / (20 + step))
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - decay)
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"{a.range} {step} loss {average:.4f} lr {lr:.2e} clips {len(data.z)} t {time.time() - t0:.0f}",
                  flush=True)
            data.scan()
            weights = data.weigh(favour)
        step += 1
        if time.time() - last_save > 120:
            save()
            last_save = time.time()
    save()


if __name__ == "__main__":
    main()
