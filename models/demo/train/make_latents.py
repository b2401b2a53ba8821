"""Encodes clips for the training of the DiT with a trained VAE, a shard at a time.

    python make_latents.py --vae vae.pt --out latents --scenes 1152 --per-scene 4
    python make_latents.py --vae vae.pt --out latents --spin --scenes 576 --seed 9000

The first makes clips of every motion but spinning, with shapes at any angle; the second upright shapes that spin.

Each shard holds, for 48 scenes: y [48,16,5,8,8], the latents of the first frame followed by 16 zero frames (the
condition an image-to-video engine builds), and for every clip z [16,5,8,8], its scene and its motion. Training may
start on the first shards while later ones are being made; existing shards are kept.
"""
import argparse
import os
import random

import numpy as np
import torch

import clips
from vae import WanVAE

SHARD = 48


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--vae", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--scenes", type=int, default=1152)
    ap.add_argument("--per-scene", type=int, default=4)
    ap.add_argument("--spin", action="store_true", help="upright shapes that spin (both speeds), one other motion each")
    ap.add_argument("--seed", type=int, default=7000)
    ap.add_argument("--part", default="0/1", help="make every n-th shard only, from the i-th: i/n")
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    vae = WanVAE()
    vae.load_state_dict(torch.load(a.vae)["vae"])
    vae.eval()
    os.makedirs(a.out, exist_ok=True)
    i, n = map(int, a.part.split("/"))
    for k in range(i, (a.scenes + SHARD - 1) // SHARD, n):
        path = os.path.join(a.out, f"{'s' if a.spin else ''}{k:04d}.pt")
        if os.path.exists(path):
            continue
        g, rng = np.random.default_rng(a.seed + k), random.Random(a.seed + k)
        if a.spin:
            scenes = clips.make_scenes(SHARD, g, True, ("square", "triangle", "star", "cross"))
            picked = [(j, "spin", s) for j in range(SHARD) for s in clips.SPEEDS]
            picked += [c for c in clips.pick_motions(scenes, 1, rng) if c[1] != "spin"]
        else:
            scenes = clips.make_scenes(SHARD, g)
            picked = [c for c in clips.pick_motions(scenes, a.per_scene, rng) if c[1] != "spin"]
        z = torch.cat([vae.encode(torch.from_numpy(clips.render(scenes, picked[i:i + 8]))) for i in range(0, len(picked), 8)])
        y = []
        for i in range(0, SHARD, 8):
            first = clips.render(scenes, [(j, "still", "slow") for j in range(i, i + 8)], times=[0])
            y.append(vae.encode(torch.cat([torch.from_numpy(first), torch.zeros(8, 3, 16, 64, 64)], 2)))
        labels = [(*clips.names(scenes, c[0]), c[1], c[2]) for c in picked]
        torch.save(dict(z=z, y=torch.cat(y), scene=torch.tensor([c[0] for c in picked]), labels=labels), path + ".tmp")
        os.replace(path + ".tmp", path)
        print(path, len(picked), flush=True)


if __name__ == "__main__":
    main()
