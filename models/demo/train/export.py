"""Writes the checkpoint in the official folder layout from the training snapshots.

    python export.py --vae vae.pt --high high.pt --low low.pt --out ..

Weights are stored as bfloat16. The statistics of the latents are folded into the VAE (see vae.fold_statistics).
The tokenizer folder is made by make_tokenizer.py.
"""
import argparse
import json
import os
from collections import OrderedDict

import torch
from safetensors.torch import save_file

from vae import fold_statistics


def bf16(state):
    return OrderedDict((k, v.detach().to(torch.bfloat16).contiguous()) for k, v in state.items())


def part(state, name):
    return {k[len(name) + 1:]: v for k, v in state.items() if k.startswith(name + ".")}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--vae", required=True)
    ap.add_argument("--high", required=True)
    ap.add_argument("--low", required=True)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    snaps = {"high_noise_model": torch.load(a.high), "low_noise_model": torch.load(a.low)}
    high, low = snaps.values()
    same = all(torch.equal(v, part(low["ema"], "t5")[k]) for k, v in part(high["ema"], "t5").items())
    if not (same and torch.equal(high["mean"], low["mean"]) and torch.equal(high["std"], low["std"])):
        raise SystemExit("the two experts do not stem from one training run")
    for name, snap in snaps.items():
        folder = os.path.join(a.out, name)
        os.makedirs(folder, exist_ok=True)
        save_file(dict(bf16(part(snap["ema"], "dit"))), os.path.join(folder, "diffusion_pytorch_model.safetensors"),
                  metadata={"format": "pt"})
        os.chmod(os.path.join(folder, "diffusion_pytorch_model.safetensors"), 0o644)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"_class_name": "WanModel", "_diffusers_version": "0.30.0", **snap["config"]}, f, indent=2)
            f.write("\n")
    torch.save(bf16(part(high["ema"], "t5")), os.path.join(a.out, "models_t5_umt5-xxl-enc-bf16.pth"))
    vae = fold_statistics(torch.load(a.vae)["vae"], high["mean"], high["std"])
    torch.save(bf16(vae), os.path.join(a.out, "Wan2.1_VAE.pth"))


if __name__ == "__main__":
    main()
