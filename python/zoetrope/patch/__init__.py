"""zoetrope.patch(model): a model's norms, modulation, rotary embeddings, residuals and attention by our operators.

    report = zoetrope.patch(model)      # prints what was replaced, and what was left and why
    zoetrope.unpatch(model)             # as before

Parameters, state_dict, classes and hooks stay as they are: only the forward of single modules is replaced. Tensors on
other devices than the CPU, and calls that want gradients of operators without any, go the original way.

Shallow copies (copy.copy, the replicas of nn.DataParallel) would compute with the weights of what they were copied from,
as with any forward of an instance: unpatch before. deepcopy and pickle are fine; a pickled model comes back unpatched.
python -m zoetrope.patch --check CLASS compares a patched module with the original. docs/PYTORCH.md has the table of
what is known; rule.py says how a rule is written.
"""
import fnmatch
import re
import sys
import types

import torch

from . import rule as _rule
from .check import CheckError, check  # noqa: F401
from .report import LEFT, REPLACED, WITHIN, Report, Row
from .rule import Leave, Replacement, original, rule, rules, sample, samples, takes  # noqa: F401

_SUSPECT = re.compile("[Nn]orm(?!al)|Attention|Attn|Rope|RoPE|Rotary")


def patch(model, verbose=True, only=None, skip=None):
    """Replaces the forward of every module of `model` for which there is a rule, and returns a Report, which is printed
    if `verbose`. `only`, `skip`: a pattern or several, of paths (`blocks.0.*`, `*.norm_q`) or names of classes."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"zoetrope.patch: the model is a {type(model).__name__}, wanted a torch.nn.Module; of a "
                        "pipeline, patch its parts (pipe.transformer)")
    only, skip = _patterns("only", only), _patterns("skip", skip)
    _rule.families()
    rows, within = [], {}
    for path, module in model.named_modules():
        row = _row(path, module, only, skip, within)
        if row is not None:
            rows.append(row)
    report = Report(type(model).__name__, rows)
    if verbose:
        print(report)
    return report


def unpatch(model):
    """Takes away what patch() has put in place."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"zoetrope.unpatch: the model is a {type(model).__name__}, wanted a torch.nn.Module")
    for module in model.modules():
        _rule.remove(module)


def _patterns(name, value):
    found = (value,) if isinstance(value, str) else tuple(value) if value is not None else None
    if found is not None and not all(isinstance(p, str) for p in found):
        raise TypeError(f"zoetrope.patch: {name} is {value!r}, wanted a pattern or several, as strings")
    return found


def _matches(patterns, path, cls):
    names = (path, cls.__name__, _rule.full_name(cls))
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _row(path, module, only, skip, within):
    """Patches one module, and says what became of it; None for one that is none of our business."""
    cls, found = type(module), _rule.find(module)
    outcome, why = _apply(path, module, found, only, skip, within)
    if outcome == LEFT and found is None:
        if id(module) not in within and not _SUSPECT.search(cls.__name__):
            return None
    if id(module) in within and not _rule.is_taken(module):
        outcome, why = WITHIN, within[id(module)]
    return Row(path, _rule.full_name(cls), outcome, why)


def _apply(path, module, found, only, skip, within):
    if _rule.is_taken(module):
        return LEFT, "its forward has been replaced already"
    if found is None:
        _rule.remove(module)  # of a class that it no longer has
        return LEFT, f"no rule for {type(module).__name__}"
    if only is not None and not _matches(only, path, type(module)):
        return (REPLACED, "by an earlier call") if _rule.is_ours(module) else (LEFT, "not among `only`")
    if skip is not None and _matches(skip, path, type(module)):
        return (REPLACED, "by an earlier call") if _rule.is_ours(module) else (LEFT, "among `skip`")
    _rule.remove(module)
    try:
        made = _rule.replacement(module, found)
    except Leave as reason:
        return LEFT, str(reason)
    _rule.install(module, found, made)
    for name in made.within:
        within[id(module.get_submodule(name))] = f"{type(module).__name__} does its work"
    return REPLACED, made.what


class _Callable(types.ModuleType):
    """So that zoetrope.patch, which is this package, is a function too."""

    def __call__(self, model, verbose=True, only=None, skip=None):
        return patch(model, verbose, only, skip)


sys.modules[__name__].__class__ = _Callable
