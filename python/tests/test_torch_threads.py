"""Threads are torch's: as many as it says, and none of our own."""
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from cases import cases, name_of, operator, values


def tensors_of(result):
    result = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in result if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("case", [c for c in cases() if "." not in c[0]], ids=name_of)
def test_same_bytes_for_one_and_for_two(case, threads):
    name, args, named = case
    results = []
    for n in (1, 2):
        threads(n)
        results.append(tensors_of(operator(name)(*args, **named)))
    for one, two in zip(*results):
        assert one.flatten().view(torch.uint8).equal(two.flatten().view(torch.uint8))


def test_large_ones_too(threads):
    x, gamma = values(1024, 1024), values(1024)
    results = []
    for n in (1, 2, 3):
        threads(n)
        results.append(torch.ops.zoetrope.rms_norm(x, gamma)[0])
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


PROGRAM = textwrap.dedent("""
    import os, sys, torch, zoetrope.torch_ops
    def threads_now():
        return len(os.listdir("/proc/self/task"))
    torch.set_num_threads(int(sys.argv[1]))
    x, gamma = torch.randn(2048, 1024), torch.randn(1024)
    before = threads_now()
    torch.ops.zoetrope.rms_norm(x, gamma)
    ours = threads_now() - before
    (x * 2.0).sum()
    torch.ops.zoetrope.rms_norm(x, gamma)
    print(ours, threads_now() - before)
""")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
@pytest.mark.parametrize("n", [1, 3])
def test_the_number_of_threads_is_torchs(n):
    """A call brings into being the threads that torch's own operators use, and not one more."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run([sys.executable, "-c", PROGRAM, str(n)], env=environment, check=True, capture_output=True,
                         text=True).stdout.split()
    assert [int(v) for v in out] == [n - 1, n - 1]
