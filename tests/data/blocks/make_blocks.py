"""Makes the files here with the gguf package: one a type, random blocks, then the values that the package gives them.

    python make_blocks.py [OUT [COUNT [SEED]]]

Among the scales are zeros of both signs, subnormals, the largest, infinity and NaN. The tests do not need Python."""

import pathlib
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# type: places of its f16 fields
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
ODD = [0x7C00, 0x8000, 0x0001, 0x7E00, 0x7BFF, 0x83FF, 0xFC00, 0x0000]

out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
random = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
for name, places in HALVES.items():
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    n = count or (12 if elements == 32 else 6)
    blocks = random.integers(0, 256, (n, size), dtype=np.uint8)
    for b in range(n):
        for place in places:
            half = np.float16(random.normal() * 2.0 ** random.integers(-12, 2)).view(np.uint16)
            if b % 3 == 2:
                half = np.uint16(ODD[b // 3 % len(ODD)])
            blocks[b, place : place + 2] = [half & 255, half >> 8]
    with np.errstate(all="ignore"):
        values = np.concatenate([dequantize(block, kind).astype("<f4").ravel() for block in blocks])
    (out / name.lower()).write_bytes(blocks.tobytes() + values.tobytes())
