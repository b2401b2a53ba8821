"""Compares a patched module with the original: how far apart, how far each is from float64, and how long they take.

The module comes from a sample (rule.py) with random weights. Three runs on the same inputs are compared: the original,
the patched one, and the original in float64. Then both are run in turns for the time, and again with a clock around
each of torch's operators, which tells products, attention and the rest apart. (Torch's profiler knows no processor
time: on a machine with other work it would split what others took.)
"""
import copy
import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import statistics
import sys
import time

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import rule
from .report import REPLACED

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOKENS = {"real": (1536, 4096), "tiny": (24, 57)}
# The smallest cosine, and how many times the original's own distance from f64 the patched one may be from the original.
# In f16 and bf16 each has that distance of its own.
BOUNDS = {"f32": (0.999999, 10), "bf16": (0.9999, 2), "f16": (0.9999, 2)}
# So that torch's results are not mapped and cleared anew in every call.
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_TOP_PAD_": "268435456"}

PRODUCTS, ATTENTION, REST = "products", "attention", "the rest"
_PRODUCTS = {"linear", "addmm", "mm", "matmul", "addmv", "mv", "baddbmm", "convolution", "conv", "conv1d", "conv2d",
             "conv3d", "einsum"}
_ATTENTION = ("attention", "sdpa", "softmax", "bmm", "fused_infer")


class CheckError(RuntimeError):
    """The check cannot be made: no such class, no package, no room."""


class Result:
    """One comparison. Times are in seconds: `original`, `patched` of a call, `ratio` of the first to the second;
    `before`, `after`: the same by kind of operator."""

    def __init__(self, name, size, tokens, dtype):
        self.name, self.size, self.tokens, self.dtype = name, size, tokens, dtype

    @property
    def bound(self):
        """How far the patched one may be from the original."""
        return max(BOUNDS[self.dtype][1] * self.original_error, self.unit)

    @property
    def kept(self):
        return self.cosine >= BOUNDS[self.dtype][0] and self.difference <= self.bound

    def __str__(self):
        cosine, times = BOUNDS[self.dtype]
        lines = [f"{self.name}, {self.size}, {self.tokens} tokens, {self.dtype}", *self.replaced,
                 f"  patched against original: cosine {self.cosine:.9f} (at least {cosine}), largest difference "
                 f"{self.difference:.2e} (at most {self.bound:.2e}, {times} times the original's own from f64), "
                 f"{self.equal:.4%} the same: {'kept' if self.kept else 'NOT KEPT'}",
                 f"  against f64: original {self.original_error:.2e}, patched {self.patched_error:.2e}, of values up "
                 f"to {self.largest:.3g}",
                 f"  {'ms':<10} {'original':>10} {'patched':>10}"]
        for kind in (PRODUCTS, ATTENTION, REST):
            before, after = self.before[kind], self.after[kind]
            if before == after == 0:
                continue
            lines.append(f"  {kind:<10} {before * 1e3:>10.2f} {after * 1e3:>10.2f}   {before / max(after, 1e-9):.2f} "
                         f"times as fast; {before / sum(self.before.values()):.1%} of the original")
        lines.append(f"  {'a call':<10} {self.original * 1e3:>10.2f} {self.patched * 1e3:>10.2f}   {self.ratio:.3f} "
                     f"times as fast, the median of {self.pairs} pairs")
        return "\n".join(lines)


def exported(name):
    """The full name of a class that a package shows under another, such as torch.nn.RMSNorm; None if it is none."""
    path, _, last = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(path), last, None) if path else None
    except (ImportError, TypeError, ValueError):
        return None
    return rule.full_name(found) if isinstance(found, type) else None


def resolve(name, known, what):
    """The full name of a class by its full name or the end of it."""
    if isinstance(name, type):
        name = rule.full_name(name)
    if name in known:
        return name
    found = sorted(k for k in known if k.endswith("." + name))
    if not found and exported(name) in known:
        return exported(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise CheckError(f"{name} may be {' or '.join(found)}: the full name is wanted")
    if what == "sample" and any(k == name or k.endswith("." + name) for k in rule.rules()):
        raise CheckError(f"{name} has a rule, but nothing here makes one for a check; --list names those that can be "
                         "checked")
    near = difflib.get_close_matches(name.rpartition(".")[2], [k.rpartition(".")[2] for k in known], 3)
    raise CheckError(f"there is no {what} for {name}; " + (f"near to it: {', '.join(near)}" if near
                                                           else "--list names those there are"))


def check(name, tokens=None, size="real", dtype="f32", seconds=10, seed=1):
    """Yields a Result for each number of tokens. `name`: a class, or its full name, or the end of that; `seconds`: for
    the timing of one number of tokens."""
    if size not in TOKENS:
        raise CheckError(f"size is {size!r}, wanted one of {', '.join(TOKENS)}")
    if dtype not in DTYPES:
        raise CheckError(f"dtype is {dtype!r}, wanted one of {', '.join(DTYPES)}")
    known = rule.samples()
    name = resolve(name, known, "sample")
    for count in (tokens,) if isinstance(tokens, int) else tokens or TOKENS[size]:
        try:
            yield one(known[name], count, size, dtype, seconds, seed)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "allocate memory" in str(error) or "Storage size" in str(error):
                raise CheckError(f"{name}, {count} tokens: there is no room for it ({error})") from error
            raise


def make(sample, tokens, size, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    try:
        module, args, kwargs = sample.make(tokens, size, DTYPES[dtype], generator)
    except ImportError as error:
        raise CheckError(f"{sample.name} cannot be made: {error}") from error
    if rule.full_name(type(module)) != sample.name:
        raise CheckError(f"the sample of {sample.name} has made a {rule.full_name(type(module))}")
    return module.eval(), args, kwargs


def one(sample, tokens, size, dtype, seconds, seed):
    from . import patch, unpatch

    result = Result(sample.name, size, tokens, dtype)
    module, args, kwargs = make(sample, tokens, size, dtype, seed)
    with torch.no_grad():
        original = outputs(call(module, *fresh(args, kwargs)))
        report = patch(module, verbose=False)
        if not report.of(REPLACED):
            raise CheckError(f"nothing of {sample.name} was replaced:\n{report}")
        result.replaced = str(report).splitlines()[1:]
        patched = outputs(call(module, *fresh(args, kwargs)))
        unpatch(module)
        exact = outputs((sample.in_f64 or in_f64)(module, *fresh(args, kwargs)))
        compare(result, original, patched, exact, DTYPES[dtype])
        del original, patched, exact
        time_both(result, module, args, kwargs, seconds)
    return result


# ---- numbers ----


def call(module, args, kwargs):
    return module(*args, **kwargs)


def fresh(args, kwargs):
    """Copies, for forwards that write to what they are given."""
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))


def outputs(tree):
    found = [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    if not found:
        raise CheckError("the module returned no tensor of floating point")
    return found


class InF64(TorchFunctionMode):
    """Reads float32, float16 and bfloat16 as float64 wherever code names them."""

    wider = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
             torch.complex64: torch.complex128}
    functions = {torch.Tensor.float: torch.Tensor.double, torch.Tensor.half: torch.Tensor.double,
                 torch.Tensor.bfloat16: torch.Tensor.double, torch.Tensor.cfloat: torch.Tensor.cdouble}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(torch.dtype, lambda t: self.wider.get(t, t), (args, kwargs or {}))
        return self.functions.get(func, func)(*args, **kwargs)


def in_f64(module, args, kwargs):
    """The output of a module with weights and inputs in float64."""
    double = copy.deepcopy(module).double()
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t,
                                        (args, kwargs))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with InF64():
            return double(*args, **kwargs)
    finally:
        torch.set_default_dtype(before)


def compare(result, original, patched, exact, dtype):
    wanted = [tuple(t.shape) for t in original]
    for what, found in (("patched", patched), ("float64", exact)):
        shapes = [tuple(t.shape) for t in found]
        if shapes != wanted:
            raise CheckError(f"{result.name}: the {what} one returned shapes {shapes}, the original {wanted}")
    if [t.dtype for t in patched] != [t.dtype for t in original]:
        raise CheckError(f"{result.name}: the patched one returned {[t.dtype for t in patched]}, the original "
                         f"{[t.dtype for t in original]}")
    if not all(t.dtype is torch.float64 for t in exact):
        raise CheckError(f"{result.name}: the float64 one returned {[t.dtype for t in exact]}; its sample needs in_f64")
    a, b, e = (torch.cat([t.double().flatten() for t in found]) for found in (original, patched, exact))
    if not (a.isfinite().all() and e.isfinite().all()):
        raise CheckError(f"{result.name}: the original is not finite on the sample's inputs")
    result.largest = e.abs().max().item()
    result.unit = 2.0 ** max(torch.tensor(result.largest).frexp().exponent.item() - 1, -126) * torch.finfo(dtype).eps
    length = a.norm() * b.norm()
    result.cosine = (a @ b / length).item() if length > 0 else float(torch.equal(a, b))
    result.equal = (a == b).double().mean().item()
    # NaN is no distance: it is beyond every bound.
    result.difference = (a - b).abs().nan_to_num(float("inf")).max().item()
    result.original_error = (a - e).abs().max().item()
    result.patched_error = (b - e).abs().nan_to_num(float("inf")).max().item()


# ---- time ----


def clock():
    """Processor time where one thread does all the work: others on the machine then count for less."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def timed(module, args, kwargs, times=1):
    """Seconds of one of so many calls."""
    now = clock()
    begun = now()
    for _ in range(times):
        module(*args, **kwargs)
    return (now() - begun) / times


def kind_of(name):
    """Products, attention or the rest, by the name of an operator."""
    name = name.rpartition("::")[2].partition(".")[0].lower()
    if not _PRODUCTS.isdisjoint(name.split("_")):
        return PRODUCTS
    return ATTENTION if any(part in name for part in _ATTENTION) else REST


class Clocked(TorchDispatchMode):
    """Adds up the time of torch's operators by kind."""

    def __init__(self):
        super().__init__()
        self.now, self.split = clock(), {PRODUCTS: 0.0, ATTENTION: 0.0, REST: 0.0}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        begun = self.now()
        found = func(*args, **(kwargs or {}))
        self.split[kind_of(func.name())] += self.now() - begun
        return found


def clocked(module, args, kwargs):
    """Seconds of one call by kind."""
    with Clocked() as mode:
        module(*args, **kwargs)
    return mode.split


def time_both(result, module, args, kwargs, seconds):
    from . import patch, unpatch

    def run(patched, measure):
        if patched:
            patch(module, verbose=False)
        try:
            return measure(module, args, kwargs)
        finally:
            unpatch(module)

    pairs, begun = [], time.perf_counter()
    # Short calls many times over: the first one after patching finds nothing of it in the caches.
    times = max(1, round(0.02 / max(run(True, timed), 1e-6)))
    measure = functools.partial(timed, times=times)
    while not pairs or time.perf_counter() - begun < seconds:
        # Each comes first every other time.
        order = (False, True) if len(pairs) % 2 == 0 else (True, False)
        found = {patched: run(patched, measure) for patched in order}
        pairs.append((found[False], found[True]))
    result.pairs = len(pairs)
    result.original, result.patched = (statistics.median(side) for side in zip(*pairs))
    result.ratio = statistics.median(a / b for a, b in pairs)
    splits, begun = [], time.perf_counter()
    while not splits or time.perf_counter() - begun < seconds / 2:
        splits.append((run(False, clocked), run(True, clocked)))
    result.before, result.after = ({kind: statistics.median(s[kind] for s in side) for kind in side[0]}
                                   for side in zip(*splits))


# ---- what is said ----


def package_of(name):
    """The distribution a class comes from and its version, if it is installed."""
    top = name.partition(".")[0]
    for distribution in importlib.metadata.packages_distributions().get(top, (top,)):
        try:
            return f"{distribution} {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{top}, without a version"


def surroundings(names):
    """Versions, threads and the allocator: what times depend on."""
    packages = sorted({package_of(name) for name in names} | {package_of("torch")})
    threads = torch.get_num_threads()
    settings = [f"{key}={os.environ[key]}" for key in (*ALLOCATOR, "THP_MEM_ALLOC_ENABLE") if key in os.environ]
    lines = [f"{', '.join(packages)}, Python {sys.version.split()[0]}; {threads} thread{'s' if threads > 1 else ''}, "
             f"{'processor time' if threads == 1 else 'time'}"]
    if all(key in os.environ for key in ALLOCATOR):
        lines.append("allocator: " + " ".join(settings))
    else:
        wanted = " ".join(f"{k}={v}" for k, v in ALLOCATOR.items())
        lines.append(f"allocator: {' '.join(settings) or 'as the C library has it'}, so that large results are mapped "
                     f"anew in each call and cost what that costs; without: {wanted}")
    return "\n".join(lines)


def listing():
    """The classes with rules, those that can be checked marked, and which packages are missing."""
    lines, samples = [], rule.samples()
    known = sorted({*rule.rules(), *samples})
    for name in known:
        marks = [mark for mark, here in (("rule", name in rule.rules()), ("check", name in samples)) if here]
        lines.append(f"{'+'.join(marks):<10} {name}")
    for top in sorted({name.partition(".")[0] for name in known}):
        if importlib.util.find_spec(top) is None:
            lines.append(f"{top} is not installed")
    return "\n".join(lines)
