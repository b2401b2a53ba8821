"""Draws the example pictures: python make_examples.py ../../../examples

Each is written at 64x64 (what the demo model is trained for) and at 256x256 (the same picture, finer)."""
import math
import os
import sys

import numpy as np
from PIL import Image

import clips

# file name, colour, shape, background colours, gradient angle, x, y, radius, angle
PICTURES = (
    ("red-circle", "red", "circle", (0.05, 0.10, 0.30), (0.20, 0.42, 0.40), 0.9, 0.35, 0.05, 0.34, 0.0),
    ("yellow-star", "yellow", "star", (0.30, 0.08, 0.35), (0.08, 0.10, 0.28), 2.2, 0.0, 0.35, 0.36, 0.0),
    ("cyan-square", "cyan", "square", (0.35, 0.22, 0.10), (0.12, 0.10, 0.12), 4.0, -0.35, -0.3, 0.33, 0.02),
)


def main(out):
    os.makedirs(out, exist_ok=True)
    for name, color, shape, bg0, bg1, bg_angle, x, y, r, angle in PICTURES:
        one = lambda v: np.array([v], np.float32)
        scene = dict(color=np.array([list(clips.COLORS).index(color)]), shape=np.array([clips.SHAPES.index(shape)]),
                     bg0=one(bg0), bg1=one(bg1), bg_angle=one(bg_angle), x=one(x), y=one(y), r=one(r),
                     angle=one(angle * math.pi))
        for size, suffix in ((64, ""), (256, "-256")):
            v = clips.render(scene, [(0, "still", "slow")], times=[0], size=size)[0, :, 0].transpose(1, 2, 0)
            Image.fromarray(((v + 1) * 127.5 + 0.5).clip(0, 255).astype(np.uint8)).save(
                os.path.join(out, name + suffix + ".png"))


if __name__ == "__main__":
    main(sys.argv[1])
