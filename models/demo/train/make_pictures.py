"""Draws 48 first frames for `zoe preview-fit`: python make_pictures.py FOLDER"""
import os
import sys

import numpy as np
from PIL import Image

import clips

COUNT, SEED = 48, 4100


def main(out):
    os.makedirs(out, exist_ok=True)
    scenes = clips.make_scenes(COUNT, np.random.default_rng(SEED))
    frames = clips.render(scenes, [(i, "still", "slow") for i in range(COUNT)], times=[0])
    for i, v in enumerate(frames[:, :, 0].transpose(0, 2, 3, 1)):
        Image.fromarray(((v + 1) * 127.5 + 0.5).clip(0, 255).astype(np.uint8)).save(
            os.path.join(out, f"{i:02d}.png"))


if __name__ == "__main__":
    main(sys.argv[1])
