"""The rules of zoetrope.patch: which classes it knows, and what it puts in place of their forward.

A family file (transformers.py, wan.py ...) holds rules and samples. It is imported without the package it is about:
classes are known by name.

    @rule("wan.modules.model.WanRMSNorm", parameters=("x",))
    def wan_rms_norm(module):
        if module.weight is None:
            raise Leave("it has no weight")
        return Replacement(rms_forward, "rms_norm, rounded as the official code")

    def rms_forward(module, x):
        if not takes(x, module.weight):
            return original(module)(x)
        return ops.rms_norm(x, module.weight, module.eps, RmsOrder.CAST_THEN_MUL)[0]

    @sample("wan.modules.model.WanRMSNorm")
    def wan_rms_norm_sample(tokens, size, dtype, generator):
        from wan.modules.model import WanRMSNorm
        ...
        return module, args, kwargs

What holds for a rule
* It counts for the class and for subclasses whose forward, and what it calls, is that of the class: another forward is
  another thing.
* `parameters` are the names of the forward's parameters after self. Others mean another version of the package; the
  module is then left.
* The function looks at one module and returns a Replacement, or raises Leave with the reason. It changes nothing, and
  computes nothing of a weight: weights change afterwards (load_state_dict, LoRA, .to()). For the same reason forward
  looks at weights, types and devices anew in each call.
* `forward(module, *args, **kwargs)` has the parameters of the class's own forward, and begins with takes() of every
  tensor that it touches: what is not for us goes to original(module), unchanged. It is a function that stands for
  itself, not a closure over the module or what it has: copies of a model share it.
* It rounds where the class's own forward does.
* A forward that does the work of children without calling them names them: Replacement(..., within=("norm1",
  "attn.norm_q")). Where one of them has hooks, has become another class or has somebody's forward in a call, that call
  goes to the original as a whole: forward need not look. Rules of such children count as well, since the original path
  calls them.

What holds for a sample
* size "real" has the sizes of the real model (a name of which is worth a comment), "tiny" takes milliseconds. The
  module's weights and the tensors come from `generator` (torch.Generator on the CPU) and are in `dtype`; norms'
  weights are not all ones (randomise() does that).
* The check computes the module in float64 as well: a copy with .double(), tensors of args and kwargs too, and every
  torch.float32 that the code names is read as float64 (.float() included). A family whose code needs more than that
  gives `in_f64=function` over (module, args, kwargs) that returns the output in float64.
"""
import functools
import importlib
import inspect
import types

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_module

FAMILIES = ("torch_nn", "transformers", "wan", "diffusers_wan", "ltx", "diffusers_ltx2")


class Leave(Exception):
    """A rule's reason to leave a module as it is."""


class Replacement:
    """What a rule puts in place: `forward`, in words `what`, and the children whose work it does `within`."""

    def __init__(self, forward, what, within=()):
        self.forward, self.what, self.within = forward, what, tuple(within)


class Rule:
    def __init__(self, name, parameters, make):
        self.name, self.parameters, self.make = name, tuple(parameters), make


class Sample:
    def __init__(self, name, make, in_f64):
        self.name, self.make, self.in_f64 = name, make, in_f64


_rules, _samples = {}, {}


def rule(*names, parameters):
    """Registers the function below it as the rule for classes of these full names."""
    def keep(make):
        for name in names:
            if name in _rules:
                raise ValueError(f"zoetrope.patch: there are two rules for {name}")
            _rules[name] = Rule(name, parameters, make)
        return make
    return keep


def sample(*names, in_f64=None):
    """Registers the function below it as the one that makes a module of these classes for the check."""
    def keep(make):
        for name in names:
            if name in _samples:
                raise ValueError(f"zoetrope.patch: there are two samples for {name}")
            _samples[name] = Sample(name, make, in_f64)
        return make
    return keep


def families():
    """Imports the family files, and returns their modules."""
    return [importlib.import_module("." + name, __package__) for name in FAMILIES]


def rules():
    """The rules by the full name of their class."""
    families()
    return dict(_rules)


def samples():
    """The samples by the full name of their class."""
    families()
    return dict(_samples)


# ---- for rules ----

_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


def takes(*tensors, gradients=False, autocast=False):
    """Are these tensors for our operators? Every one that is not None is on the CPU (fake ones too), f32, f16 or bf16,
    dense, and of torch's own class (no quantised or distributed one); none wants a gradient, unless the operators have
    them (`gradients`); no function transform or forward-mode derivative is under way; autocast is off, unless its casts
    are reproduced (`autocast`)."""
    wants = not gradients and torch.is_grad_enabled()
    if forward_ad._current_level >= 0:  # our operators would lose the tangents
        return False
    for t in tensors:
        if t is None:
            continue
        if t.device.type != "cpu" or t.dtype not in _TYPES or type(t) not in _PLAIN or t.layout != torch.strided:
            return False
        if wants and t.requires_grad:
            return False
        if not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(t):
            return False
    return autocast or not torch.is_autocast_enabled("cpu")


def wants_gradient(module, *tensors):
    """With gradients on: does a parameter in the module, or one of the tensors, want one? For forwards of blocks, whose
    operators have none: a frozen model with one trainable layer (LoRA) wants them within."""
    return torch.is_grad_enabled() and (any(t is not None and t.requires_grad for t in tensors)
                                        or any(p.requires_grad for p in module.parameters()))


def original(module):
    """The forward of the module's class, bound to it."""
    return functools.partial(type(module).forward, module)  # a bound method made here stops torch.compile


def randomise(module, generator, spread=0.02):
    """For samples: random parameters, those of one axis (norms, biases) `spread` about what they were."""
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if parameter.dim() > 1:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5)
            else:
                parameter.add_((noise * spread).to(parameter.dtype))
    return module


# ---- finding and installing ----


def full_name(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def find(module):
    """The rule for a module, or None."""
    for cls in type(module).__mro__:
        found = _rules.get(full_name(cls))
        if found is not None and type(module).forward is cls.forward:
            return found
    return None


def check_class(module, found):
    """Is the module what the rule is about? Not if the forward of its class is not the one that its package wrote, or
    something that it calls is another than there."""
    cls, forward = type(module), type(module).forward
    if not any(forward.__module__ == c.__module__ and forward.__qualname__ == c.__qualname__ + ".forward"
               for c in cls.__mro__):
        raise Leave("the forward of its class has been replaced")
    called = inspect.unwrap(forward).__code__.co_names
    for sub in cls.__mro__[:[full_name(c) for c in cls.__mro__].index(found.name)]:
        for name in called:
            if name in vars(sub):
                raise Leave(f"{sub.__name__} has a {name} of its own")
    for name in called:
        if name in module.__dict__ and inspect.isfunction(getattr(cls, name, None)):
            raise Leave(f"it has a {name} of its own")


def replacement(module, found):
    """What a rule puts in place of a module's forward; Leave is raised with the reason if nothing."""
    check_class(module, found)
    names = tuple(inspect.signature(type(module).forward).parameters)[1:]
    if names != found.parameters:
        raise Leave(f"another version of the class: its forward takes ({', '.join(names)}), wanted "
                    f"({', '.join(found.parameters)})")
    made = found.make(module)
    children = dict(module.named_modules())
    for path in made.within:
        if path not in children:
            raise Leave(f"it has no {path}")
        if not untouched(children[path]):
            raise Leave(f"{path} has hooks or a forward of its own")
    return made


def is_ours(module):
    """Has the module a forward that install() has put there?"""
    return hasattr(getattr(module.__dict__.get("forward"), "__func__", None), "zoetrope_rule")


def is_taken(module):
    """Has somebody else replaced the forward of this one module?"""
    forward = module.__dict__.get("forward")
    if forward is None or is_ours(module):
        return False
    # A patched model that went through pickle has the class's own forward there.
    return getattr(forward, "__func__", None) is not type(module).forward


def untouched(module):
    """Would calling the module run nothing but its forward, that of its class or ours?"""
    return not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks or is_taken(module))


def install(module, found, made):
    """Sets the instance's forward. Classes of children are kept by name, so that copies of the module can use it."""
    expected = tuple((path, type(module.get_submodule(path))) for path in made.within)
    forward, whole, own = made.forward, made.within, type(module).forward

    def ours(module, *args, **kwargs):
        if type(module).forward is not own:  # somebody has replaced it since
            return original(module)(*args, **kwargs)
        if whole and (torch_module._has_any_global_hook() or not as_expected(module, expected)):
            return original(module)(*args, **kwargs)
        return forward(module, *args, **kwargs)

    ours.zoetrope_rule = found.name
    # Pickle stores a method by its name: with this one it comes back as the forward of the class.
    ours.__name__ = "forward"
    module.forward = types.MethodType(ours, module)


def as_expected(module, expected):
    """Are the children the ones that the replacement was made for?"""
    for path, cls in expected:
        child = module
        for name in path.split("."):
            child = child._modules.get(name)
            if child is None:
                return False
        if type(child) is not cls or not untouched(child):
            return False
    return True


def remove(module):
    """Takes ours away; also from under a wrapper of accelerate's, which keeps what it wraps, and what pickle left."""
    forward = module.__dict__.get("forward")
    if is_ours(module) or (forward is not None and not is_taken(module)):
        del module.__dict__["forward"]
    if hasattr(getattr(module.__dict__.get("_old_forward"), "__func__", None), "zoetrope_rule"):
        module._old_forward = types.MethodType(type(module).forward, module)
