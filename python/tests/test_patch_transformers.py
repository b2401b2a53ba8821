"""zoetrope.patch on Hugging Face's transformers: every norm with a rule, in all pairs of types, and whole layers."""
import importlib
import itertools
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from cases import bf16, f16, f32, values

import zoetrope
import zoetrope.patch as zp

family = importlib.import_module("zoetrope.patch.transformers")
core = sys.modules["zoetrope.patch.rule"]
NORMS = [*family.LLAMA, *family.OLMO2, *family.GEMMA, *family.T5]
LAYERS = ["LlamaDecoderLayer", "Qwen3DecoderLayer", "Gemma3DecoderLayer", "T5Block", "UMT5Block"]


@pytest.fixture(autouse=True)
def seed(threads):
    torch.manual_seed(37)
    threads(1)


def the_class(name):
    try:
        return family.importing(name)
    except (ImportError, AttributeError):
        pytest.skip(f"this transformers has no {name}")


def units(found, want):
    """The distance in units in the last place of what is wanted."""
    size = want.double().abs().clamp_min(torch.finfo(want.dtype).tiny)
    return (found.double() - want.double()).abs() / (2.0**size.log2().floor() * torch.finfo(want.dtype).eps)


@pytest.mark.parametrize("name", NORMS)
def test_norm(name):
    """Within a unit in the last place in f16 and bf16. In f32 sums differ in the order of their terms; where the row was
    rounded to a narrower type on the way, a few elements are a unit of that apart."""
    module = the_class(name)(48).requires_grad_(False)
    module.weight.add_(torch.randn(48) * 0.5)
    assert len(zoetrope.patch(module, verbose=False).replaced) == 1
    for x_type, w_type in itertools.product((f32, f16, bf16), repeat=2):
        x = values(2, 65, 48) * torch.logspace(-2, 2, 65)[:, None]
        x, module = x.to(x_type), module.to(w_type)
        found, want = module(x), zp.original(module)(x)
        assert found.dtype is want.dtype, (x_type, w_type)
        away, most = units(found, want), 6 if want.dtype is f32 else 1
        on_the_way = max(torch.finfo(t).eps for t in (x_type, w_type, want.dtype)) / torch.finfo(want.dtype).eps
        assert away.max() <= (2 * on_the_way if on_the_way > 1 else most), (x_type, w_type)
        assert (away <= (most if want.dtype is f32 else 0)).double().mean() > 0.99, (x_type, w_type)


def test_names_are_of_one_kind():
    assert len(set(NORMS)) == len(NORMS) and set(NORMS) <= set(zp.rules())


def test_epsilon_counts():
    """Rows as small as its root."""
    for name in (family.LLAMA[0], family.GEMMA[2], family.T5[0]):
        module, x = the_class(name)(48, eps=1e-3).requires_grad_(False), values(5, 48) * 0.03
        zoetrope.patch(module, verbose=False)
        torch.testing.assert_close(module(x), zp.original(module)(x), rtol=1e-6, atol=1e-6)


def test_what_is_left():
    module = the_class(family.LLAMA[0])(48)
    module.variance_epsilon = None
    assert zoetrope.patch(module, verbose=False).left[0].why == "its variance_epsilon is not a number"
    module = the_class(family.GEMMA[0])(48)
    module.weight = torch.nn.Parameter(torch.ones(2, 24))
    assert zoetrope.patch(module, verbose=False).left[0].why == "its weight is not a vector"


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, dtype):
    results = list(zp.check(name, size="tiny", dtype=dtype, seconds=0))
    assert len({r.tokens for r in results}) == 2
    for r in results:
        assert r.kept, str(r)
        assert r.patched_error <= 1.5 * r.original_error + r.unit
        assert r.before["products"] > 0 and r.before["attention"] > 0 and r.after["the rest"] > 0


@pytest.mark.parametrize("name", LAYERS)
def test_layer_compiles(name):
    full = next(n for n in zp.samples() if n.endswith("." + name))
    layer, args, kwargs = zp.samples()[full].make(9, "tiny", f32, torch.Generator().manual_seed(5))
    layer.eval()
    with torch.no_grad():
        zoetrope.patch(layer, verbose=False)
        want = layer(*args, **kwargs)
        found = torch.compile(layer, fullgraph=True, backend="aot_eager")(*args, **kwargs)
    for a, b in zip(*(t if isinstance(t, tuple) else (t,) for t in (found, want))):
        if b is not None:
            torch.testing.assert_close(a, b)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    return LlamaForCausalLM(LlamaConfig(**family.TINY, vocab_size=101, num_hidden_layers=2, max_position_embeddings=64,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2)).eval()


def test_a_whole_model_writes_the_same():
    """Logits, and words one by one with a cache."""
    model, ids = llama(), torch.randint(3, 101, (2, 11))
    with torch.no_grad():
        want = model(ids).logits
        words = model.generate(ids, max_new_tokens=8, do_sample=False)
        report = zoetrope.patch(model, verbose=False)
        assert len(report.replaced) == 5 and {r.cls.rpartition(".")[2] for r in report.left} == {
            "LlamaAttention", "LlamaRotaryEmbedding"}
        torch.testing.assert_close(model(ids).logits, want, rtol=1e-5, atol=1e-5)
        assert torch.equal(model.generate(ids, max_new_tokens=8, do_sample=False), words)
        zoetrope.unpatch(model)
        assert torch.equal(model(ids).logits, want)


def test_training_goes_on():
    """A step of both models has the same gradients."""
    ids = torch.randint(3, 101, (2, 11))
    grads = []
    for patched in (False, True):
        model = llama()
        if patched:
            zoetrope.patch(model, verbose=False)
        model(ids, labels=ids).loss.backward()
        grads.append({name: p.grad for name, p in model.named_parameters()})
    for name, want in grads[0].items():
        torch.testing.assert_close(grads[1][name], want, rtol=1e-3, atol=1e-6)


def test_saved_weights_are_the_same(tmp_path):
    from transformers import LlamaForCausalLM

    model = llama()
    zoetrope.patch(model, verbose=False)
    model.save_pretrained(tmp_path)
    other = LlamaForCausalLM.from_pretrained(tmp_path)
    for (name, a), (other_name, b) in zip(model.state_dict().items(), other.state_dict().items()):
        assert name == other_name and torch.equal(a, b)
    assert not any(core.is_ours(m) for m in other.modules())
