"""zoetrope.patch on LTX-2 of diffusers, with random weights."""
import copy
import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("diffusers") is None:
    pytest.skip("the package diffusers is not installed", allow_module_level=True)
ltx2 = pytest.importorskip("diffusers.models.transformers.transformer_ltx2")

from diffusers.models.attention_dispatch import attention_backend  # noqa: E402
from diffusers.models.normalization import RMSNorm  # noqa: E402

import patching  # noqa: E402
from patching import TYPES, both, equal, near, units  # noqa: E402

import zoetrope.patch  # noqa: E402
from zoetrope.patch import diffusers_ltx2 as rules  # noqa: E402
from zoetrope.patch.rule import samples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
(HEADS, WIDTH), (AUDIO_HEADS, AUDIO_WIDTH), AUDIO, TEXT = rules.SIZES["tiny"]
DIM, AUDIO_DIM, LENGTH = HEADS * WIDTH, AUDIO_HEADS * AUDIO_WIDTH, 24
KINDS = {"2.0": {}, "2.3": {"video_gated_attn": True, "video_cross_attn_adaln": True, "audio_gated_attn": True,
                            "audio_cross_attn_adaln": True, "perturbed_attn": True}}


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def generator():
    return patching.generator(5)


def made(module, dtype=torch.float32):
    return patching.made(module, dtype, 5)


def share(dtype, times=8):
    """Of the largest value: for f32 what sums in another order differ by, for 16 bits so many times their unit."""
    return 2e-6 if dtype == torch.float32 else times * torch.finfo(dtype).eps


# ---- norm ----


@pytest.mark.parametrize("weight", (None, *TYPES), ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rms_norm(dtype, weight):
    module = made(RMSNorm(DIM, 1e-6, elementwise_affine=weight is not None), weight)
    x = (torch.randn(2, 7, DIM, generator=generator()) * 3).to(dtype)
    expected, found = both(module, x)
    if expected.dtype == torch.float32:
        near(expected, found)
    else:
        assert units(expected, found) <= 1


def test_norms_that_are_left():
    report = zoetrope.patch(torch.nn.Sequential(RMSNorm((2, DIM), 1e-6), RMSNorm(DIM, 1e-6, bias=True)), verbose=False)
    assert [row.path for row in report.left] == ["0", "1"]


# ---- attention ----


def attention(dtype=torch.float32, rope="split", perturbed=False, **kinds):
    processor = ltx2.LTX2PerturbedAttnProcessor() if perturbed else None
    return made(ltx2.LTX2Attention(DIM, HEADS, HEADS, WIDTH, rope_type=rope, processor=processor, **kinds), dtype)


def tokens(dtype=torch.float32, length=LENGTH, batch=2, dim=DIM):
    return torch.randn(batch, length, dim, generator=generator()).to(dtype)


def tables(rope="split", length=LENGTH, batch=2):
    """As the model makes them."""
    embed = ltx2.LTX2AudioVideoRotaryPosEmbed(DIM, rope_type=rope, num_attention_heads=HEADS, modality="audio")
    return embed(embed.prepare_audio_coords(batch, length, "cpu"))


@pytest.mark.parametrize("rope", ("split", "interleaved"))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_queries_and_keys_round_as_in_diffusers(dtype, rope, monkeypatch):
    """q and k are normed, rounded, turned in f32 and rounded: seen by an attention that is not torch's."""
    module, seen = attention(dtype, rope), []

    def dispatch(query, key, value, **others):
        seen.append((query, key, value))
        return value

    monkeypatch.setattr(ltx2, "dispatch_attention_fn", dispatch)
    both(module, tokens(dtype), None, None, tables(rope))
    for expected, found in zip(*seen):
        near(expected, found, 1e-6 if dtype == torch.float32 else torch.finfo(dtype).eps)
        # A unit of f32 in the norm or in the second product is seldom rounded otherwise.
        assert dtype == torch.float32 or (expected == found).double().mean() > 0.998


@pytest.mark.parametrize("rope", ("split", "interleaved"))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rotary(dtype, rope):
    """The same bits with interleaved pairs. With split ones torch adds by a fused multiply-add."""
    apply = ltx2.apply_split_rotary_emb if rope == "split" else ltx2.apply_interleaved_rotary_emb
    expected = apply(tokens(dtype), tables(rope))
    found = rules.turned(attention(dtype, rope), tokens(dtype), tables(rope))
    if rope == "interleaved":
        equal(expected, found)
    else:
        near(expected, found, 2e-7 if dtype == torch.float32 else torch.finfo(dtype).eps)
        assert dtype == torch.float32 or (expected == found).double().mean() > 0.999


@pytest.mark.parametrize("gated", (False, True))
@pytest.mark.parametrize("rope", ("split", "interleaved"))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_attention(dtype, rope, gated):
    """Torch rounds probabilities to 16 bits before it multiplies them with v, we do not: so there is no bit by bit."""
    module = attention(dtype, rope, apply_gated_attention=gated)
    x, other, mask = tokens(dtype), tokens(dtype, 9), torch.zeros(2, 1, 9, dtype=dtype)
    hiding = mask.clone()
    hiding[..., :4] = -10000
    for inputs in ((x,), (x, None, None, tables(rope)), (x, other, None, tables(rope), tables(rope, 9)),
                   (x, other), (x, other, mask), (x, other, hiding)):
        expected, found = both(module, *inputs)
        near(expected, found, share(dtype))
        exact = copy.deepcopy(module).double()(*(t.double() if isinstance(t, torch.Tensor) else t for t in inputs))
        assert (found - exact).abs().max() <= (10 if dtype == torch.float32 else 2) * (expected - exact).abs().max()


def test_a_mask_that_hides_goes_to_torch(monkeypatch):
    module, calls, dispatch = attention(), [], ltx2.dispatch_attention_fn

    def counted(*args, **kwargs):
        calls.append(kwargs["attn_mask"])
        return dispatch(*args, **kwargs)

    zoetrope.patch(module, verbose=False)
    monkeypatch.setattr(rules, "is_torch_attention", lambda names, processor: True)
    monkeypatch.setattr(ltx2, "dispatch_attention_fn", counted)
    mask = torch.zeros(2, 1, LENGTH)
    module(tokens(), None, mask)
    assert not calls
    mask[..., 3] = -10000
    module(tokens(), None, mask)
    module(tokens(), None, torch.zeros(2, LENGTH, LENGTH))  # too large to look through
    assert [m.shape[2] for m in calls] == [1, LENGTH]


@pytest.mark.parametrize("gated", (False, True))
def test_perturbed_attention(gated):
    module = attention(perturbed=True, apply_gated_attention=gated)
    some = torch.tensor([0.0, 1.0])[:, None, None]
    for kwargs in ({}, {"perturbation_mask": None, "all_perturbed": False}, {"perturbation_mask": some},
                   {"perturbation_mask": some * 0}, {"perturbation_mask": some, "all_perturbed": torch.tensor(False)},
                   {"all_perturbed": True}):
        near(*both(module, tokens(), None, None, tables(), **kwargs), share(torch.float32))


def test_what_attention_leaves_to_torch():
    module = attention()
    plain = copy.deepcopy(module)
    zoetrope.patch(module, verbose=False)
    with torch.autocast("cpu", torch.bfloat16):
        equal(plain(tokens(), None, None, tables()), module(tokens(), None, None, tables()))
    half = tuple(t.bfloat16() for t in tables())
    near(plain(tokens(), None, None, half), module(tokens(), None, None, half))  # but for the norms of q and k
    near(plain(tokens(), unknown=1), module(tokens(), unknown=1))
    with attention_backend("flex"):
        report = zoetrope.patch(plain, verbose=False)
    assert [row.why for row in report.replaced] == ["rms_norm, rotary_mul; attention is another backend's"]
    zoetrope.unpatch(plain)
    plain.set_processor(type("Other", (ltx2.LTX2AudioVideoAttnProcessor,), {})())
    assert [row.path for row in zoetrope.patch(plain, verbose=False).left] == [""]


def test_a_replaced_function_is_called(monkeypatch):
    module = attention()
    zoetrope.patch(module, verbose=False)
    monkeypatch.setattr(ltx2, "apply_split_rotary_emb", lambda x, tables: x * 0)
    found = module(tokens(), None, None, tables())
    zoetrope.unpatch(module)
    near(module(tokens(), None, None, tables()), found)
    assert [row.path for row in zoetrope.patch(module, verbose=False).left if row.path == ""]


def test_results_seen_by_hooks_stay_as_they_were():
    module, kept = attention(), {}
    module.to_q.register_forward_hook(lambda m, args, out: kept.update(out=out, copied=out.clone()))
    near(*both(module, tokens(), None, None, tables()), share(torch.float32))
    equal(kept["copied"], kept["out"])


# ---- blocks ----


def block(dtype=torch.float32, kind="2.0", **others):
    return rules.in_type(ltx2.LTX2VideoTransformerBlock(
        DIM, HEADS, WIDTH, DIM, AUDIO_DIM, AUDIO_HEADS, AUDIO_WIDTH, AUDIO_DIM, rope_type="split",
        **{**KINDS[kind], **others}), dtype, generator())


def block_inputs(dtype=torch.float32, kind="2.0", starts=None, ca_starts=None):
    """starts: where runs of tokens with the same timestep begin; None: one row for all."""
    g = generator()
    a = rules.block_arguments(LENGTH, "tiny", torch.float32, g, 9 if kind == "2.3" else 6)
    if kind == "2.3":
        a["temb_prompt"], a["temb_prompt_audio"] = (torch.randn(1, 1, 2 * n, generator=g) for n in (DIM, AUDIO_DIM))
        a["perturbation_mask"], a["all_perturbed"] = None, False
    for names, cuts in ((("temb",), starts), (("temb_ca_scale_shift", "temb_ca_gate"), ca_starts)):
        if cuts is not None:
            index = torch.zeros(LENGTH, dtype=torch.int64)
            for start in cuts:
                index[start:] += 1
            for name in names:
                a[name] = torch.randn(1, len(cuts) + 1, a[name].shape[2], generator=g)[:, index] * 0.5
    return {name: t.to(dtype) if isinstance(t, torch.Tensor) else t for name, t in a.items()}


ROWS = {"one": (None, None), "same": ((), ()), "two": ((6,), (6,)), "differ": ((6,), (8,)), "mixed": ((6,), None),
        "each": (range(1, LENGTH), range(1, LENGTH))}


class Fixed(torch.nn.Module):
    """In the place of attention or feed-forward: always the same result, so that what comes before does not spread."""

    def __init__(self, result, seen):
        super().__init__()
        self.result, self.seen = result, seen

    def forward(self, hidden_states, encoder_hidden_states=None, **others):
        self.seen += [t.clone() for t in (hidden_states, encoder_hidden_states) if t is not None]
        return self.result


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_norms_modulation_and_residuals_round_as_in_diffusers(dtype, kind, rows):
    """A unit of f32 in 1 / sqrt() is seldom rounded otherwise in 16 bits."""
    module, a, seen = block(dtype, kind), block_inputs(dtype, kind, *ROWS[rows]), []
    for name in ("attn1", "attn2", "audio_to_video_attn", "ff"):
        setattr(module, name, Fixed(tokens(dtype, LENGTH, 1), seen))
    for name in ("audio_attn1", "audio_attn2", "video_to_audio_attn", "audio_ff"):
        setattr(module, name, Fixed(tokens(dtype, AUDIO, 1, AUDIO_DIM), seen))
    expected, found = both(module, **a)
    half = len(seen) // 2
    assert half == 12  # four of both arguments, and four of one
    for e, f in zip([*seen[:half], *expected], [*seen[half:], *found]):
        if dtype == torch.float32:
            near(e, f)
        else:
            assert (e == f).double().mean() > (0.999 if dtype == torch.bfloat16 else 0.99)
            near(e, f, torch.finfo(dtype).eps)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_block(dtype, kind, rows):
    module, a = block(dtype, kind), block_inputs(dtype, kind, *ROWS[rows])
    before = copy.deepcopy(a)
    for expected, found in zip(*both(module, **a)):
        near(expected, found, share(dtype, 6))
    for name, t in a.items():  # nothing given was written to
        assert not isinstance(t, torch.Tensor) or torch.equal(t, before[name])


@pytest.mark.parametrize("to_video,to_audio", ((False, False), (True, False), (False, True)))
def test_isolated_streams(to_video, to_audio):
    a = {**block_inputs(), "use_a2v_cross_attention": to_video, "use_v2a_cross_attention": to_audio}
    for expected, found in zip(*both(block(), **a)):
        near(expected, found, share(torch.float32))


def test_perturbed_block():
    a = block_inputs(kind="2.3")
    for mask, all_perturbed in ((torch.zeros(1, 1, 1), True), (torch.ones(1, 1, 1), None)):
        a |= {"perturbation_mask": mask, "all_perturbed": all_perturbed}
        for expected, found in zip(*both(block(kind="2.3"), **a)):
            near(expected, found, share(torch.float32))


def test_other_arguments():
    """One stream of 2.3's adaLN, no embedding of the prompt, positional arguments, and those that are wrong."""
    module = block(kind="2.3", audio_cross_attn_adaln=False)
    a = block_inputs(kind="2.3")
    a |= {"temb_prompt": None, "temb_prompt_audio": None, "temb_audio": a["temb_audio"][..., :6 * AUDIO_DIM]}
    for expected, found in zip(*both(module, **a)):
        near(expected, found, share(torch.float32))
    values = [a.get(name) for name in rules._PARAMETERS[:len(rules._REQUIRED) + 6]]
    for expected, found in zip(*both(module, *values)):
        near(expected, found, share(torch.float32))
    zoetrope.patch(module, verbose=False)
    for wrong in ({"temb": None, "tmeb": 1}, {"hidden_states": None}):
        with pytest.raises(TypeError):
            module(*values, **wrong)
    with pytest.raises(TypeError):
        module(*values[:4])


def test_block_in_batches():
    module, a = block(), block_inputs(starts=(6,), ca_starts=(6,))
    two = {name: tuple(torch.cat((u, u)) for u in t) if isinstance(t, tuple) else torch.cat((t, t.flip(1)))
           for name, t in a.items()}
    for expected, found in zip(*both(module, **two)):
        near(expected, found, share(torch.float32))


def test_changed_embeddings_are_looked_at_again():
    module, a = block(), block_inputs(starts=(6,), ca_starts=(6,))
    zoetrope.patch(module, verbose=False)
    module(**a)
    a["temb"][:, 12:] += 0.25
    found = module(**a)
    zoetrope.unpatch(module)
    for e, f in zip(module(**a), found):
        near(e, f, share(torch.float32))


def test_blocks_with_weights_in_their_norms_are_left():
    module = block(elementwise_affine=True)
    report = zoetrope.patch(module, verbose=False)
    assert [row.path for row in report.left] == [""]
    assert "have weights" in report.left[0].why


def test_block_under_autocast_and_with_mixed_types():
    module, a = block(), block_inputs()
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = both(module, **a)
    near(expected[0], found[0], share(torch.bfloat16))
    module.scale_shift_table.data = module.scale_shift_table.data.double()
    a["temb"] = a["temb"].double()
    with pytest.raises(RuntimeError):
        module(**a)
    zoetrope.patch(module, verbose=False)
    with pytest.raises(RuntimeError):
        module(**a)


def test_gradients_go_the_original_way():
    module, a = block(), block_inputs()
    with torch.enable_grad():
        found = []
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            leaf = a["hidden_states"].clone().requires_grad_()
            sum(y.square().sum() for y in module(**{**a, "hidden_states": leaf})).backward()
            found.append(leaf.grad)
    near(*found, 1e-5)


@pytest.mark.parametrize("name", (
    "attn1.to_q.weight", "audio_attn2.to_out.0.weight", "attn2.norm_k.weight", "video_to_audio_attn.to_v.bias",
    "ff.net.0.proj.weight", "audio_ff.net.2.weight", "scale_shift_table", "encoder_hidden_states", "temb_audio",
    "audio_encoder_attention_mask", "video_rotary_emb"))
def test_a_frozen_block_with_one_thing_to_train(name):
    module, a = block(), copy.deepcopy(block_inputs())
    leaf = module.get_parameter(name) if name not in a else a[name][0] if name == "video_rotary_emb" else a[name]
    leaf.requires_grad_()
    found = []
    with torch.enable_grad():
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            sum(y.square().sum() for y in module(**a)).backward()
            found.append(leaf.grad)
            leaf.grad = None
    near(*found, 2e-5)


@pytest.mark.parametrize("name", ("to_q.weight", "to_out.0.bias", "norm_k.weight"))
def test_frozen_attention_with_one_thing_to_train(name):
    module, found = attention().requires_grad_(False), []
    leaf = module.get_parameter(name).requires_grad_()
    with torch.enable_grad():
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            module(tokens(), None, None, tables()).square().sum().backward()
            found.append(leaf.grad)
            leaf.grad = None
    near(*found, 1e-5)


def test_writes_past_torch_and_defaults_of_torch():
    module, a = block(), block_inputs(starts=(6,), ca_starts=(6,))
    zoetrope.patch(module, verbose=False)
    module(**a)
    a["temb"].data[:, 12:] += 0.25
    a["temb_ca_gate"].numpy()[...] *= 3
    try:
        torch.set_default_dtype(torch.float64)
        found = module(**a)
    finally:
        torch.set_default_dtype(torch.float32)
    zoetrope.unpatch(module)
    for e, f in zip(module(**a), found):
        near(e, f, share(torch.float32))


def test_hooks_of_children_are_run():
    module, a, seen = block(), block_inputs(), []
    expected = module(**a)[0]
    zoetrope.patch(module, verbose=False)
    for name in ("norm1", "audio_to_video_norm", "attn1.norm_q", "attn1", "ff.net.0"):
        handle = module.get_submodule(name).register_forward_hook(lambda m, args, out, name=name: seen.append(name))
        near(expected, module(**a)[0], share(torch.float32))
        assert name in seen
        handle.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_in_one_graph(kind):
    module, a = block(kind=kind), block_inputs(kind=kind)
    expected = module(**a)
    torch._dynamo.reset()
    torch.compile(module, backend="eager", fullgraph=True)(**a)  # the original's goes
    zoetrope.patch(module, verbose=False)
    torch._dynamo.reset()
    for e, f in zip(expected, torch.compile(module, backend="aot_eager", fullgraph=True)(**a)):
        near(e, f, share(torch.float32))
    torch._dynamo.reset()


# ---- the model ----


def model(kind, rope):
    gated = kind == "2.3"
    return rules.in_type(ltx2.LTX2VideoTransformer3DModel(
        in_channels=8, out_channels=8, num_attention_heads=HEADS, attention_head_dim=WIDTH, cross_attention_dim=DIM,
        audio_in_channels=8, audio_out_channels=8, audio_num_attention_heads=AUDIO_HEADS,
        audio_attention_head_dim=AUDIO_WIDTH, audio_cross_attention_dim=AUDIO_DIM, num_layers=2, caption_channels=16,
        rope_type=rope, gated_attn=gated, cross_attn_mod=gated, audio_gated_attn=gated, audio_cross_attn_mod=gated,
        perturbed_attn=gated), torch.float32, generator())


def model_inputs(dtype, per_token):
    g = generator()
    shapes = {"hidden_states": (1, LENGTH, 8), "audio_hidden_states": (1, AUDIO, 8),
              "encoder_hidden_states": (1, TEXT, 16), "audio_encoder_hidden_states": (1, TEXT, 16)}
    a = {name: torch.randn(shape, generator=g).to(dtype) for name, shape in shapes.items()}
    timestep = torch.tensor([700.0])
    mask = torch.ones(1, TEXT, dtype=torch.int64)
    mask[:, :3] = 0
    return {**a, "timestep": torch.tensor([[0.0] * 8 + [700.0] * 16]) if per_token else timestep,
            "audio_timestep": timestep, "sigma": timestep, "encoder_attention_mask": mask,
            "audio_encoder_attention_mask": mask, "num_frames": 3, "height": 2, "width": 4, "audio_num_frames": AUDIO,
            "return_dict": False}


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("per_token", (False, True))
@pytest.mark.parametrize("kind,rope", (("2.0", "split"), ("2.0", "interleaved"), ("2.3", "split")))
def test_model(kind, rope, per_token, dtype):
    module, a = model(kind, rope).to(dtype), model_inputs(dtype, per_token)
    calls = [a] if kind == "2.0" else [{**a, "use_cross_timestep": True}, {**a, "isolate_modalities": True},
                                       {**a, "spatio_temporal_guidance_blocks": [1]}]
    for call in calls:
        for expected, found in zip(*both(module, **call)):
            near(expected, found, share(dtype, 6))
    report = zoetrope.patch(module, verbose=False)
    left = {row.cls.rpartition(".")[2] for row in report.left}
    assert left == {"LTX2AudioVideoRotaryPosEmbed", "LTX2AdaLayerNormSingle"}


@pytest.mark.parametrize("name", ("LTX2VideoTransformerBlock", "LTX2Attention", rules._NORM))
def test_samples(name):
    assert any(known.endswith(name) for known in samples())
    for dtype in ("f32", "bf16", "f16"):
        for result in zoetrope.patch.check(name, 24, "tiny", dtype, 0.01):
            assert result.kept, str(result)
