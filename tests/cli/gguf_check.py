"""What tests/cli/gguf.sh asks of the gguf package.

    gguf_check.py check FILE.gguf VALUES.safetensors TYPE      the package reads the values that stand in VALUES (f32), bit for
                                                         bit, and the matrices of the blocks have the type
    gguf_check.py same FILE.gguf VALUES.safetensors            the same where the two have different names for the tensors
    gguf_check.py write IN.safetensors OUT.gguf VALUES.safetensors TYPE
                                                         random blocks with the names and shapes of IN, as the package
                                                         writes them, and the values that the package gives them
"""

import hashlib
import json
import struct
import sys

import numpy as np
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Places of the f16 fields of a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}


def read_safetensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", (name, entry["dtype"])
        values = np.frombuffer(data[8 + size + begin : 8 + size + end], "<f4")
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            out.write(np.ascontiguousarray(values, "<f4").tobytes())


def values_of(tensor):
    shape = [int(n) for n in reversed(tensor.shape)]
    return dequantize(tensor.data, tensor.tensor_type).astype("<f4").reshape(shape)


def check(path, reference, kind):
    wanted, of_kind = read_safetensors(reference), 0
    tensors = GGUFReader(path).tensors
    assert sorted(t.name for t in tensors) == sorted(wanted), "names differ"
    for t in tensors:
        got = values_of(t)
        assert got.shape == wanted[t.name].shape, (t.name, got.shape, wanted[t.name].shape)
        assert got.tobytes() == wanted[t.name].tobytes(), (t.name, "values differ")
        if t.name.startswith("blocks.") and got.ndim == 2:
            assert t.tensor_type.name == kind, (t.name, t.tensor_type.name)
            of_kind += 1
    assert of_kind == 10, of_kind


def same(path, reference):
    def digests(arrays):
        return sorted((a.shape, hashlib.sha256(a.tobytes()).hexdigest()) for a in arrays)

    got = digests(values_of(t) for t in GGUFReader(path).tensors)
    assert got == digests(read_safetensors(reference).values()), "values differ"
    assert len(got) > 10, len(got)


def random_blocks(random, kind, shape):
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (int(np.prod(shape)) // elements, size), dtype=np.uint8)
    for place in HALVES[kind]:
        halves = (random.normal(size=len(blocks)) * 2.0 ** random.integers(-12, 2, len(blocks))).astype("<f2")
        blocks[:, place : place + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(shape[0], -1)


def write(source, path, reference, kind):
    random = np.random.default_rng(1)
    writer, values = GGUFWriter(path, "wan"), {}
    for name, tensor in read_safetensors(source).items():
        if kind in HALVES and name.startswith("blocks.") and tensor.ndim == 2:
            raw = random_blocks(random, kind, tensor.shape)
            writer.add_tensor(name, raw, raw_dtype=GGMLQuantizationType[kind])
            values[name] = dequantize(raw, GGMLQuantizationType[kind]).astype("<f4").reshape(tensor.shape)
        elif kind == "F16" and tensor.ndim > 1:
            raw = tensor.astype("<f2")
            writer.add_tensor(name, raw)
            values[name] = raw.astype("<f4")
        elif kind == "BF16" and tensor.ndim > 1:
            raw = (np.ascontiguousarray(tensor).view("<u4") >> 16).astype("<u2")
            writer.add_tensor(name, raw.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
            values[name] = (raw.astype("<u4") << 16).view("<f4")
        else:
            writer.add_tensor(name, np.ascontiguousarray(tensor))
            values[name] = tensor
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_safetensors(reference, values)


{"check": check, "same": same, "write": write}[sys.argv[1]](*sys.argv[2:])
