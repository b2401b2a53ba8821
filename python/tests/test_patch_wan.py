"""zoetrope.patch on the official Wan code, with random weights."""
import copy
import importlib.util
import types

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("wan") is None or importlib.util.find_spec("diffusers") is None:
    pytest.skip("the package wan22 is not installed", allow_module_level=True)

from patching import TYPES, both, equal, generator, made, near, units  # noqa: E402

import zoetrope.patch  # noqa: E402
from zoetrope.patch import wan as rules  # noqa: E402
from zoetrope.patch.rule import randomise, samples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DIM, HEADS = 48, 4


@pytest.fixture
def model(monkeypatch):
    """wan.modules.model with torch's attention in the place of the official one, for one test."""
    found = rules.official()
    monkeypatch.setattr(found, "flash_attention", rules.torch_attention)
    return found


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


# ---- norms ----


@pytest.mark.parametrize("weight", TYPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rms_norm(model, dtype, weight):
    x = (torch.randn(2, 7, DIM, generator=generator()) * 3).to(dtype)
    for module in (model.WanRMSNorm(DIM), rules.package("wan.modules.animate.face_blocks").RMSNorm(DIM),
                   rules.package("wan.modules.s2v.motioner").RMSNorm(DIM)):
        expected, found = both(made(module).to(weight), x)
        assert expected.dtype == torch.promote_types(dtype, weight)
        assert units(expected, found) <= (3 if dtype == torch.float32 else 1)
    bare = rules.package("wan.modules.animate.face_blocks").RMSNorm(DIM, elementwise_affine=False)
    assert units(*both(bare, x)) <= (3 if dtype == torch.float32 else 1)


@pytest.mark.parametrize("weight", TYPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_t5_norm(dtype, weight):
    module = made(rules.package("wan.modules.t5").T5LayerNorm(DIM)).to(weight)
    x = (torch.randn(2, 7, DIM, generator=generator()) * 3).to(dtype)
    assert units(*both(module, x)) <= (3 if weight == torch.float32 else 1)


@pytest.mark.parametrize("affine", (False, True))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_layer_norm(model, dtype, affine):
    x = (torch.randn(2, 7, DIM, generator=generator()) * 3 + 5).to(dtype)
    for kind in (model.WanLayerNorm, rules.package("wan.modules.s2v.motioner").LayerNorm):
        expected, found = both(made(kind(DIM, elementwise_affine=affine)), x)
        if dtype == torch.float32:
            near(expected, found)
        else:
            assert units(expected, found) <= 1


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_vae_norm(dtype):
    norm = rules.package("wan.modules.vae2_1").RMS_norm
    for module, x in ((norm(8, images=False, bias=True), torch.randn(2, 8, 3, 4, 5, generator=generator())),
                      (norm(8), torch.randn(2, 8, 4, 5, generator=generator())),
                      (norm(8, channel_first=False), torch.randn(2, 5, 8, generator=generator()))):
        module, x = made(module).to(dtype), x.to(dtype)
        x[0].movedim(0 if module.channel_first else -1, -1)[0] = 0
        forms = [x]
        if module.channel_first:
            forms.append(x.contiguous(memory_format=torch.channels_last_3d if x.dim() == 5 else torch.channels_last))
        for form in forms:
            expected, found = both(module, form)
            assert found.stride() == expected.stride()
            assert torch.equal(expected.isnan(), found.isnan())
            if dtype == torch.float32:
                near(expected, found)
            else:
                assert units(expected.nan_to_num(), found.nan_to_num()) <= 1


def test_other_weights_go_the_original_way(model):
    module = made(model.WanLayerNorm(DIM, elementwise_affine=True)).to(torch.bfloat16)
    zoetrope.patch(module, verbose=False)
    with pytest.raises(RuntimeError):  # so does the original
        module(torch.randn(2, DIM))


# ---- attention ----

GRIDS = torch.tensor([[2, 3, 4], [1, 5, 3]])
LENGTHS = torch.tensor([24, 15])


def frequencies(model):
    return rules.rotary_of(model, DIM // HEADS)


def attention_inputs(model, dtype=torch.float32):
    x = torch.randn(2, 27, DIM, generator=generator()).to(dtype)
    return x, LENGTHS, GRIDS, frequencies(model)


def test_self_attention_of_samples_with_grids_of_their_own(model):
    """Tokens beyond a grid are not turned, and keys beyond a length not seen."""
    module = made(model.WanSelfAttention(DIM, HEADS))
    near(*both(module, *attention_inputs(model)))
    near(*both(module, torch.randn(1, 24, DIM, generator=generator()), LENGTHS[:1], GRIDS[:1], frequencies(model)))
    near(*both(made(model.WanSelfAttention(DIM, HEADS, qk_norm=False)), *attention_inputs(model)))


class Spy:
    """A flash_attention of somebody else, that keeps what it is given."""

    def __init__(self):
        self.calls = []

    def __call__(self, q, k, v, k_lens=None, window_size=(-1, -1)):
        self.calls.append((q, k, v, k_lens, window_size))
        return rules.torch_attention(q, k, v, k_lens=k_lens)


def test_a_replaced_flash_attention_is_called(model, monkeypatch):
    spy = Spy()
    monkeypatch.setattr(model, "flash_attention", spy)
    module = made(model.WanSelfAttention(DIM, HEADS, window_size=(3, 3)))
    near(*both(module, *attention_inputs(model)))
    (q, k, v, lens, window), found = spy.calls
    near(q, found[0])
    near(k, found[1])
    assert torch.equal(v, found[2]) and torch.equal(lens, found[3]) and window == found[4] == (3, 3)
    report = zoetrope.patch(made(model.WanCrossAttention(DIM, HEADS)), verbose=False)
    assert [row.why for row in report.left] == ["flash_attention has been replaced"]


@pytest.mark.parametrize("weight", TYPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_queries_and_keys_are_rounded_as_for_flash_attention(model, dtype, weight):
    """By the official code q and k are f32 after the rotation, then rounded to bf16, then to the type of v."""
    module = made(model.WanSelfAttention(DIM, HEADS))
    module.norm_q.to(weight), module.norm_k.to(weight)
    q, k = (torch.randn(2, 27, DIM, generator=generator()).to(dtype) for _ in range(2))
    heads, weights = (2, 27, HEADS, DIM // HEADS), (module.norm_q.weight, module.norm_k.weight)
    tables = rules.rotary_tables(frequencies(model), GRIDS, 27, DIM // HEADS)
    expected = [model.rope_apply(norm(t).view(heads), GRIDS, frequencies(model))
                for norm, t in ((module.norm_q, q), (module.norm_k, k))]
    for e, f in zip(expected, rules.turned(module, q, k, weights, tables, heads, ())):
        near(e, f, 3e-7)
    half = dtype if dtype != torch.float32 else torch.bfloat16
    kinds = ((torch.bfloat16, half), (torch.bfloat16, half))
    found = rules.turned(module, q, k, weights, tables, heads, kinds)
    for e, f, types_ in zip(expected, found, kinds):
        e, f = rules.to(e, types_), rules.to(f, types_)
        assert units(e, f) <= (1 if half == torch.bfloat16 else 8)  # f16 of bf16: a unit of that
        assert (e == f).double().mean() > 0.99


def test_the_official_attention_runs_on_a_cpu(model, monkeypatch):
    """It asserts CUDA; patched, what it computes there: q, k and v are rounded to bf16, the result to f32."""
    attention = rules.package("wan.modules.attention").flash_attention
    monkeypatch.setattr(model, "flash_attention", attention)
    module, cross = made(model.WanSelfAttention(DIM, HEADS)), made(model.WanCrossAttention(DIM, HEADS))
    inputs = attention_inputs(model)
    context, lens = torch.randn(2, 9, DIM, generator=generator()), torch.tensor([9, 40])
    with pytest.raises(AssertionError):
        module(*inputs)
    for m in (module, cross):
        assert "attention" in zoetrope.patch(m, verbose=False).replaced[0].why
    found, crossed = module(*inputs), cross(inputs[0], context, lens)
    module.window_size = (3, 3)
    with pytest.raises(AssertionError):
        module(*inputs)
    module.window_size = (-1, -1)
    for m in (module, cross):
        zoetrope.unpatch(m)

    def rounded(q, k, v, k_lens=None, window_size=(-1, -1)):
        q, k, v = (t.bfloat16().float() for t in (q, k, v))
        k_lens = None if k_lens is None else k_lens.clamp(max=k.shape[1])
        return rules.torch_attention(q, k, v, k_lens=k_lens).bfloat16().float()

    monkeypatch.setattr(model, "flash_attention", rounded)
    near(module(*inputs), found, 4e-3)
    near(cross(inputs[0], context, lens), crossed, 4e-3)
    assert (cross(inputs[0], context, lens) - crossed).abs().mean() < 2e-4


def test_rope_apply_of_somebody_else(model, monkeypatch):
    module = made(model.WanSelfAttention(DIM, HEADS))
    zoetrope.patch(module, verbose=False)
    monkeypatch.setattr(model, "rope_apply", lambda x, grids, freqs: x)
    expected = copy.deepcopy(module)
    zoetrope.unpatch(expected)
    near(expected(*attention_inputs(model)), module(*attention_inputs(model)))
    report = zoetrope.patch(module, verbose=False)
    assert "rope_apply has been replaced" in [row.why for row in report.left]


def test_tables_are_those_of_their_frequencies(model):
    freqs = frequencies(model)
    first = rules.rotary_tables(freqs, GRIDS, 30, DIM // HEADS)
    assert rules.rotary_tables(freqs, GRIDS, 30, DIM // HEADS) is first
    assert rules.rotary_tables(freqs, GRIDS[:1], 30, DIM // HEADS)[0].shape == (1, 30, DIM // HEADS // 2)
    freqs *= 1j
    cos, sin = rules.rotary_tables(freqs, GRIDS, 30, DIM // HEADS)
    torch.testing.assert_close(cos[0, :24], -first[1][0, :24])
    assert (cos[1, 15:] == 1).all() and (sin[1, 15:] == 0).all()
    assert rules.rotary_tables(freqs, GRIDS, 23, DIM // HEADS) is None  # the first grid has 24 tokens


# ---- blocks ----


def embedding(*runs, length=27, batch=2):
    """As the model's: a row for each token, with runs of equal ones."""
    rows = torch.randn(batch, len(runs) + 1, 6, DIM, generator=generator()) * 0.5
    index = torch.zeros(length, dtype=torch.int64)
    for start in runs:
        index[start:] += 1
    return rows[:, index]


def block_inputs(model, e, dtype=torch.float32):
    x, lengths, grids, freqs = attention_inputs(model, dtype)
    return x, e, lengths, grids, freqs, torch.randn(2, 9, DIM, generator=generator()), None


EMBEDDINGS = {"one": embedding(), "two": embedding(5), "last": embedding(26), "several": embedding(1, 2, 3, 20),
              "each": embedding(*range(1, 27)), "expanded": embedding()[:, :1].expand(-1, 27, -1, -1),
              "single": embedding()[:, :1]}


@pytest.mark.parametrize("cross_attn_norm", (True, False))
@pytest.mark.parametrize("e", EMBEDDINGS.values(), ids=EMBEDDINGS)
def test_block(model, e, cross_attn_norm):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=cross_attn_norm))
    inputs = block_inputs(model, e)
    kept = [t.clone() if t is not None else None for t in inputs]
    near(*both(module, *inputs))
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(inputs, kept))  # nothing given was written to


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_block_under_autocast(model, monkeypatch, dtype):
    """All but attention: what differs by a unit of f32 is mostly the same when it is rounded to bf16."""
    monkeypatch.setattr(model, "flash_attention", lambda q, k, v, k_lens=None, window_size=(-1, -1):
                        rules.torch_attention(q, k, v, k_lens=k_lens))
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = both(module, *block_inputs(model, embedding(5), dtype))
    assert expected.dtype == found.dtype == torch.float32
    assert (expected == found).double().mean() > 0.8
    near(expected, found, 2 ** -8)


def test_runs():
    for name, starts in (("one", [0]), ("two", [0, 5]), ("last", [0, 26]), ("several", [0, 1, 2, 3, 20]),
                         ("each", None)):
        assert rules.runs(EMBEDDINGS[name]) == starts
    e = embedding()
    e[1, 7, 5, DIM - 1] += 1  # of one sample
    assert rules.runs(e) == [0, 7, 8]
    assert rules.runs(torch.full((1, 20, 6, 3), float("nan"))) is None


def test_a_changed_embedding_is_noticed(model):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    e = embedding(5)
    first, _ = both(module, *block_inputs(model, e))
    e[:, 9:] += 1
    second, found = both(module, *block_inputs(model, e))
    near(second, found)
    assert (first - second).abs().max() > 0.01
    with torch.inference_mode():  # tensors without versions
        e = e.clone()
        near(*both(module, *block_inputs(model, e)))
        e[:, 3:] += 1
        near(*both(module, *block_inputs(model, e)))


@pytest.mark.parametrize("write", (lambda t: t.data.mul_(2), lambda t: t.numpy().__imul__(3),
                                   lambda t: t.numpy()[:, 3:].__imul__(3)), ids=("data", "numpy", "part"))
def test_writes_past_torch_are_noticed(model, write):
    module, e = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True)), embedding(5)
    inputs = block_inputs(model, e)
    for written in (e, inputs[4]):
        zoetrope.patch(module, verbose=False)
        before, version = module(*inputs), written._version
        write(written)
        assert written._version == version
        found = module(*inputs)
        zoetrope.unpatch(module)
        near(module(*inputs), found)
        assert (before - found).abs().max() > 1e-3


@pytest.mark.parametrize("default", (torch.bfloat16, torch.float64, "meta"), ids=str)
def test_defaults_of_torch_do_not_matter(model, default):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding(5))
    expected = module(*inputs)
    zoetrope.patch(module, verbose=False)
    rules._tables.clear()
    rules._last_runs = None
    try:
        if default == "meta":
            torch.set_default_device(default)
        else:
            torch.set_default_dtype(default)
        found = [module.self_attn(inputs[0], *inputs[2:5])]
        rules.found_runs(inputs[1])
        if default == "meta":  # with it the original attention does not run
            found = []
        found.append(module(*inputs))
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    near(expected, found[-1])
    near(expected, module(*inputs))  # with what was kept
    cos, sin = rules.rotary_tables(inputs[4], GRIDS, 27, DIM // HEADS)
    assert cos.dtype == sin.dtype == torch.float32


def test_no_embedding_is_kept_alive(model):
    import gc
    import weakref

    e = embedding(5)
    both(made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True)), *block_inputs(model, e))
    ref = weakref.ref(e)
    del e
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("runs", ((), (5,), tuple(range(1, 27))), ids=str)
def test_head(model, runs):
    module = made(model.Head(DIM, 16, (1, 2, 2)))
    x = torch.randn(2, 27, DIM, generator=generator())
    near(*both(module, x, embedding(*runs)[:, :, 0]))


@pytest.mark.parametrize("images", (True, False))
def test_animate(monkeypatch, images):
    """Its embedding has a row for each sample."""
    animate = rules.official("wan.modules.animate.model_animate")
    monkeypatch.setattr(animate, "flash_attention", rules.torch_attention)
    module = made(animate.WanAnimateAttentionBlock(DIM, 96, HEADS, use_img_emb=images))
    x, _, lengths, grids, freqs, context, _ = block_inputs(rules.official(), embedding())
    context = torch.randn(2, 257 + 9, DIM, generator=generator())
    near(*both(module, x, embedding()[:, 0], lengths, grids, freqs, context, torch.tensor([9, 4])))
    report = zoetrope.patch(module, verbose=False)
    assert not report.left and {row.path for row in report.replaced} >= {"", "self_attn", "cross_attn"}
    near(*both(made(animate.HeadAnimate(DIM, 16, (1, 2, 2))), x, embedding()[:, 0, 0]))


def test_speech_to_video(monkeypatch):
    """Its blocks have forwards of their own, and no rules; their norms and cross-attention have."""
    speech = rules.package("wan.modules.s2v.model_s2v")
    report = zoetrope.patch(made(speech.WanS2VAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True)), verbose=False)
    assert {row.path for row in report.left} == {"", "self_attn"}
    assert {row.path for row in report.replaced} >= {"norm1", "norm3", "self_attn.norm_q", "cross_attn"}


def test_hooks_of_children_are_run(model):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding())
    expected = module(*inputs)
    zoetrope.patch(module, verbose=False)
    seen = []
    for name in ("norm2", "ffn.1", "self_attn.norm_k", "self_attn", "cross_attn.norm_q"):
        handle = module.get_submodule(name).register_forward_hook(lambda m, args, out, name=name: seen.append(name))
        near(expected, module(*inputs))
        assert name in seen
        handle.remove()


def test_an_output_that_a_hook_keeps_stays(model):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    zoetrope.patch(module, verbose=False)
    kept = {}
    for name in ("ffn.0", "self_attn", "cross_attn"):
        module.get_submodule(name).register_forward_hook(
            lambda m, args, out, name=name: kept.update({name: (out, out.clone())}))
    module(*block_inputs(model, embedding()))
    assert len(kept) == 3 and all(torch.equal(out, copied) for out, copied in kept.values())


def test_the_forward_of_context_parallelism_stays(model):
    """Several ranks replace the forward of each self-attention, as wan.text2video does."""
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    module.self_attn.forward = types.MethodType(lambda self, x, seq_lens, grid_sizes, freqs:
                                                self.norm_q(self.q(x)) * 2, module.self_attn)
    inputs = block_inputs(model, embedding(5))
    expected = module(*inputs)
    report = zoetrope.patch(module, verbose=False)
    assert ("self_attn", "its forward has been replaced already") in [(row.path, row.why) for row in report.left]
    assert {"", "cross_attn", "self_attn.norm_q"} <= {row.path for row in report.replaced}
    near(expected, module(*inputs))


def test_gradients_go_the_original_way(model):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding(5))
    with torch.enable_grad():
        found = []
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            x = inputs[0].clone().requires_grad_()
            module(x, *inputs[1:]).square().sum().backward()
            found.append((x.grad, module.modulation.grad, module.self_attn.norm_q.weight.grad))
            module.zero_grad()
    for expected, ours in zip(*found):
        near(expected, ours, 1e-5)


@pytest.mark.parametrize("name", ("self_attn.q.weight", "self_attn.o.weight", "self_attn.norm_q.weight",
                                  "cross_attn.v.weight", "norm3.bias", "modulation", "ffn.0.weight", "ffn.2.bias",
                                  "e", "freqs", "context"))
def test_a_frozen_block_with_one_thing_to_train(model, name):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True)).requires_grad_(False)
    inputs = [t.clone() if t is not None else None for t in block_inputs(model, embedding(5))]
    given = {"e": 1, "freqs": 4, "context": 5}
    leaf = inputs[given[name]] if name in given else module.get_parameter(name)
    leaf.requires_grad_()
    with torch.enable_grad():
        module(*inputs).square().sum().backward()
        expected, leaf.grad = leaf.grad, None
        zoetrope.patch(module, verbose=False)
        module(*inputs).square().sum().backward()
    assert (expected - leaf.grad).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("name", ("q.weight", "o.bias", "norm_k.weight", "freqs"))
def test_frozen_attention_with_one_thing_to_train(model, name):
    for kind in (model.WanSelfAttention, model.WanCrossAttention):
        module = made(kind(DIM, HEADS)).requires_grad_(False)
        x, lengths, grids, freqs = attention_inputs(model)
        cross = kind is model.WanCrossAttention
        inputs = (x, torch.randn(2, 9, DIM, generator=generator()), None) if cross else (x, lengths, grids, freqs)
        leaf = (inputs[1] if cross else freqs) if name == "freqs" else module.get_parameter(name)
        leaf.requires_grad_()
        with torch.enable_grad():
            module(*inputs).square().sum().backward()
            expected, leaf.grad = leaf.grad, None
            zoetrope.patch(module, verbose=False)
            module(*inputs).square().sum().backward()
        assert (expected - leaf.grad).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("change", (
    lambda ffn: ffn.append(torch.nn.Linear(DIM, DIM)), lambda ffn: setattr(ffn[1], "approximate", "none"),
    lambda ffn: ffn.__setitem__(1, torch.nn.GELU()), lambda ffn: ffn.__setitem__(1, torch.nn.SiLU()),
    lambda ffn: ffn.__delitem__(1)), ids=("appended", "approximate", "gelu", "silu", "deleted"))
def test_a_feed_forward_that_changes_afterwards(model, change):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding())
    zoetrope.patch(module, verbose=False)
    before = module(*inputs)
    change(module.ffn)
    found = module(*inputs)
    zoetrope.unpatch(module)
    near(module(*inputs), found)
    assert (before - found).abs().max() > 1e-4


def test_embeddings_of_more_or_fewer_samples(model):
    """Broadcast as torch does it."""
    module, head = made(model.WanAttentionBlock(DIM, 96, HEADS)), made(model.Head(DIM, 16, (1, 2, 2)))
    x, e, lengths, grids, freqs, context, _ = block_inputs(model, embedding(5))
    near(*both(module, x, e[:1], lengths, grids, freqs, context, None))
    near(*both(head, x, e[:1, :, 0]))
    near(*both(head, x[:1], e[:, :, 0]))
    zoetrope.patch(module, verbose=False)
    errors = []
    for _ in range(2):  # the original's next layer does not like it
        with pytest.raises(Exception) as raised:
            module(x[:1], e, lengths[:1], grids[:1], freqs, context[:1], None)
        errors.append((raised.type, str(raised.value)))
        zoetrope.unpatch(module)
    assert errors[0] == errors[1]


def test_weights_may_change_and_models_be_copied(model):
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding(5))
    zoetrope.patch(module, verbose=False)
    module(*inputs)
    other = randomise(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True).eval(),
                      torch.Generator().manual_seed(8))
    twin = copy.deepcopy(module)
    module.load_state_dict(other.state_dict())
    near(other(*inputs), module(*inputs))
    assert (twin(*inputs) - module(*inputs)).abs().max() > 0.01


def test_compiled(model):
    """The official forward asks grids for their numbers, which breaks the graph, with ours or without."""
    module = made(model.WanAttentionBlock(DIM, 96, HEADS, cross_attn_norm=True))
    inputs = block_inputs(model, embedding(5))
    expected = module(*inputs)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        torch.compile(module, backend="eager", fullgraph=True)(*inputs)
    torch._dynamo.reset()
    zoetrope.patch(module, verbose=False)
    near(expected, torch.compile(module, backend="aot_eager")(*inputs))
    torch._dynamo.reset()


# ---- the model ----


def tiny_model(model):
    return made(model.WanModel("t2v", dim=DIM, ffn_dim=96, num_heads=HEADS, num_layers=2, text_dim=32, text_len=20,
                               freq_dim=32))


def model_inputs(t, length=27):
    x = [torch.randn(16, 2, 6, 8, generator=generator()), torch.randn(16, 1, 10, 6, generator=generator())]
    context = [torch.randn(n, 32, generator=generator()) for n in (7, 20)]
    count = len(t) if t.dim() == 2 else 1
    return x[:count], t, context[:count], length


TIMES = {"one": torch.tensor([700]), "first frame": torch.tensor([[0.0] * 12 + [700.0] * 15]),
         "two samples": torch.tensor([[0.0] * 12 + [700.0] * 15, [31.0] * 27]),
         "each": torch.arange(27.0).reshape(1, 27)}


@pytest.mark.parametrize("t", TIMES.values(), ids=TIMES)
def test_model(model, t):
    module = tiny_model(model)
    expected, found = both(module, *model_inputs(t))
    exact = rules.in_f64(module, *model_args(t))
    for e, f, x in zip(expected, found, exact):
        assert torch.nn.functional.cosine_similarity(e.flatten().double(), f.flatten().double(), 0) > 0.999999
        assert (e - f).abs().max() <= 10 * (e - x).abs().max()


def model_args(t):
    return model_inputs(t), {}


def test_a_wrapper_of_the_class_is_given_the_model(model, monkeypatch):
    """As TeaCache does it."""
    module, own, seen = tiny_model(model), model.WanModel.forward, []
    first = module(*model_inputs(TIMES["one"]))
    zoetrope.patch(module, verbose=False)

    def forward(self, *args, **kwargs):
        seen.append(self)
        return own(self, *args, **kwargs)

    monkeypatch.setattr(model.WanModel, "forward", forward)
    for expected, found in zip(first, module(*model_inputs(TIMES["one"]))):
        near(expected, found, 1e-5)
    assert seen == [module]


def test_what_is_replaced_in_the_model(model):
    module = tiny_model(model)
    report = zoetrope.patch(module, verbose=False)
    assert not report.left, str(report)
    assert {row.cls.split(".")[-1] for row in report.replaced} == {
        "WanAttentionBlock", "WanSelfAttention", "WanCrossAttention", "WanRMSNorm", "Head"}
    first = module(*model_inputs(TIMES["one"]))
    zoetrope.patch(module, verbose=False)
    assert all(torch.equal(a, b) for a, b in zip(first, module(*model_inputs(TIMES["one"]))))


@pytest.mark.parametrize("name", sorted(n for n in samples() if n.startswith("wan.")))
def test_samples(name):
    for dtype in ("f32", "bf16"):
        for result in zoetrope.patch.check(name, 24, "tiny", dtype, 0.01):
            assert result.kept, str(result)
