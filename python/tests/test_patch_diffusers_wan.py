"""zoetrope.patch on Wan of diffusers, with random weights."""
import copy
import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("diffusers") is None:
    pytest.skip("the package diffusers is not installed", allow_module_level=True)

from diffusers.models.attention_dispatch import attention_backend  # noqa: E402
from diffusers.models.transformers import transformer_wan as wan  # noqa: E402

from patching import TYPES, both, equal, generator, made, near, units  # noqa: E402

import zoetrope.patch  # noqa: E402
from zoetrope.patch import diffusers_wan as rules  # noqa: E402
from zoetrope.patch.rule import samples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DIM, HEADS, GRID = 48, 4, (2, 3, 4)
ATTENTION = ("WanAttention", "RMSNorm")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


# ---- norms ----


@pytest.mark.parametrize("weight", TYPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_layer_norm(dtype, weight):
    from diffusers.models.normalization import FP32LayerNorm

    x = (torch.randn(2, 7, DIM, generator=generator()) * 3 + 5).to(dtype)
    for module in (made(FP32LayerNorm(DIM, 1e-6)).to(weight), FP32LayerNorm(DIM, 1e-6, elementwise_affine=False)):
        expected, found = both(module, x)
        if dtype == torch.float32:
            near(expected, found)
        else:
            assert units(expected, found) <= 1


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_vae_norm(dtype):
    from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm

    module = made(WanRMS_norm(8, images=False), dtype)
    x = torch.randn(2, 8, 3, 4, 5, generator=generator()).to(dtype)
    for form in (x, x.contiguous(memory_format=torch.channels_last_3d)):
        expected, found = both(module, form)
        assert found.stride() == expected.stride()
        near(expected, found)


@pytest.mark.parametrize("approximate", ("tanh", "none"))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_gelu(dtype, approximate):
    from diffusers.models.activations import GELU

    module = made(GELU(DIM, 64, approximate), dtype)
    x = torch.randn(3, DIM, generator=generator()).to(dtype)
    expected, found = both(module, x)
    if dtype == torch.float32:
        near(expected, found)
    else:
        assert units(expected, found) <= 1
    kept = {}
    module.proj.register_forward_hook(lambda m, args, out: kept.update(out=out, copied=out.clone()))
    both(module, x)
    assert torch.equal(kept["out"], kept["copied"])  # not written to


# ---- attention ----


def attention(dtype=torch.float32, **kinds):
    return made(wan.WanAttention(DIM, HEADS, DIM // HEADS, eps=1e-6, processor=wan.WanAttnProcessor(), **kinds), dtype)


def tokens(dtype=torch.float32, length=24, batch=2):
    return torch.randn(batch, length, DIM, generator=generator()).to(dtype)


ROTARY = rules.rotary_of(DIM // HEADS, GRID)


@pytest.mark.parametrize("fused", (False, True))
def test_attention(fused):
    own, cross = attention(), attention(cross_attention_dim_head=DIM // HEADS)
    image = attention(cross_attention_dim_head=DIM // HEADS, added_kv_proj_dim=DIM)
    if fused:
        for module in (own, cross, image):
            module.fuse_projections()
    near(*both(own, tokens(), None, None, ROTARY))
    near(*both(own, tokens()))
    near(*both(cross, tokens(), tokens(length=9)))
    near(*both(image, tokens(), tokens(length=512 + 7)))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_queries_and_keys_round_as_in_diffusers(dtype, monkeypatch):
    """q and k are normed, rounded, turned and rounded: seen by a backend that is not torch's."""
    module, seen = attention(dtype), []

    def dispatch(query, key, value, **others):
        seen.append((query, key, value))
        return value

    monkeypatch.setattr(wan, "dispatch_attention_fn", dispatch)
    module(tokens(dtype), None, None, ROTARY)
    q, k = module.to_q(tokens(dtype)), module.to_k(tokens(dtype))
    for expected, found in zip(seen[0], rules.normed(module, q, k, ROTARY)):
        found = found.unflatten(2, (HEADS, -1))
        near(expected, found, 1e-6 if dtype == torch.float32 else torch.finfo(dtype).eps)
        # A unit of f32 in the norm is seldom rounded otherwise.
        assert dtype == torch.float32 or (expected == found).double().mean() > 0.998


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_attention_in_16_bits(dtype):
    """Torch rounds probabilities to 16 bits before it multiplies them with v, we do not: so there is no bit by bit."""
    module = attention(dtype)
    inputs = (tokens(dtype), None, None, ROTARY)
    expected, found = both(module, *inputs)
    exact = copy.deepcopy(module).float()(tokens(dtype).float(), None, None, ROTARY)
    assert found.dtype == dtype
    assert (found - exact).abs().max() <= 2 * (expected - exact).abs().max()
    near(expected, found, 4 * torch.finfo(dtype).eps)


def test_what_attention_leaves_to_torch():
    module = attention()
    zoetrope.patch(module, verbose=False)
    plain = copy.deepcopy(module)
    zoetrope.unpatch(plain)
    mask = torch.zeros(2, 1, 24, 24, dtype=torch.bool)
    mask[..., :3] = True
    near(plain(tokens(), None, mask, ROTARY), module(tokens(), None, mask, ROTARY))
    with torch.autocast("cpu", torch.bfloat16):
        equal(plain(tokens(), None, None, ROTARY), module(tokens(), None, None, ROTARY))
    half = tuple(t.bfloat16() for t in ROTARY)
    near(plain(tokens(), None, None, half), module(tokens(), None, None, half))
    with attention_backend("flex"):
        report = zoetrope.patch(plain, verbose=False)
    assert [row.path for row in report.left] == [""]


def test_another_processor():
    class Other(wan.WanAttnProcessor):
        pass

    module = attention()
    zoetrope.patch(module, verbose=False)
    expected = module(tokens(), None, None, ROTARY)
    called = []
    module.set_processor(Other())
    Other.__call__ = lambda self, *args: called.append(1) or wan.WanAttnProcessor.__call__(self, *args)
    near(expected, module(tokens(), None, None, ROTARY))
    assert called


# ---- blocks ----


def block(dtype=torch.float32, kind=None, **kinds):
    module = (kind or wan.WanTransformerBlock)(DIM, 96, HEADS, cross_attn_norm=True, **kinds)
    return rules.in_type(module.eval(), dtype, generator())


def embedding(*runs, dtype=torch.float32):
    rows = torch.randn(2, len(runs) + 1, 6, DIM, generator=generator()) * 0.5
    index = torch.zeros(24, dtype=torch.int64)
    for start in runs:
        index[start:] += 1
    return rows[:, index].to(dtype)


def block_inputs(temb, dtype=torch.float32):
    return tokens(dtype), tokens(dtype, 9), temb.to(dtype), ROTARY


TEMB = {"one": embedding()[:, 0], "two": embedding(6), "each": embedding(*range(1, 24)), "same": embedding()}


@pytest.mark.parametrize("temb", TEMB.values(), ids=TEMB)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_block(dtype, temb):
    """With attention left to torch nearly all is the same to the bit in bf16; what differs by a unit of f32 is seldom
    rounded otherwise."""
    module, inputs = block(dtype), block_inputs(temb, dtype)
    kept = copy.deepcopy(inputs)
    expected, found = both(module, *inputs, skip=ATTENTION)
    if dtype == torch.float32:
        near(expected, found)
    else:
        assert (expected == found).double().mean() > (0.99 if dtype == torch.bfloat16 else 0.8)
        near(expected, found, 4 * torch.finfo(dtype).eps)
    near(*both(module, *inputs), 1e-6 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps)
    assert all(torch.equal(a, b) for a, b in zip(inputs[:3], kept[:3]))  # nothing given was written to


def test_block_without_norm2_and_with_images():
    near(*both(made(wan.WanTransformerBlock(DIM, 96, HEADS)), *block_inputs(TEMB["one"])))
    module = block(added_kv_proj_dim=DIM)
    x, _, temb, rotary = block_inputs(TEMB["one"])
    near(*both(module, x, tokens(length=512 + 5), temb, rotary))


@pytest.mark.parametrize("ends", (False, True))
def test_vace_block(ends):
    from diffusers.models.transformers.transformer_wan_vace import WanVACETransformerBlock

    module = block(kind=WanVACETransformerBlock, apply_input_projection=ends, apply_output_projection=ends)
    x, context, temb, rotary = block_inputs(TEMB["one"])
    for expected, found in zip(*both(module, x, context, tokens() * 2, temb, rotary)):
        if expected is None:
            assert found is None and not ends
        else:
            near(expected, found)


def test_block_under_autocast():
    module = block()
    inputs = block_inputs(TEMB["two"])
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = both(module, *inputs)
    near(expected, found, 3e-3)
    assert (expected == found).double().mean() > 0.8


def test_gradients_go_the_original_way():
    module, (x, *others) = block(), block_inputs(TEMB["one"])
    with torch.enable_grad():
        found = []
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            leaf = x.clone().requires_grad_()
            module(leaf, *others).square().sum().backward()
            found.append(leaf.grad)
    near(*found, 1e-5)


def trained(module, leaf, *inputs):
    """Gradients of a leaf from the module, and from the module patched."""
    leaf.requires_grad_()
    found = []
    with torch.enable_grad():
        for patched in (False, True):
            if patched:
                zoetrope.patch(module, verbose=False)
            y = module(*inputs)
            sum(t.square().sum() for t in (y if isinstance(y, tuple) else (y,))).backward()
            found.append(leaf.grad)
            leaf.grad = None
    return found


@pytest.mark.parametrize("name", (
    "attn1.to_q.weight", "attn1.to_out.0.weight", "attn1.norm_q.weight", "attn2.to_k.bias", "ffn.net.0.proj.weight",
    "ffn.net.2.weight", "norm2.weight", "scale_shift_table", "context", "temb"))
@pytest.mark.parametrize("kind", ("plain", "vace"))
def test_a_frozen_block_with_one_thing_to_train(kind, name):
    from diffusers.models.transformers.transformer_wan_vace import WanVACETransformerBlock

    ends = {"apply_input_projection": True, "apply_output_projection": True}
    module = block() if kind == "plain" else block(kind=WanVACETransformerBlock, **ends)
    x, context, temb, rotary = copy.deepcopy(block_inputs(TEMB["one"]))
    inputs = (x, context, temb, rotary) if kind == "plain" else (x, context, tokens() * 2, temb, rotary)
    leaf = {"context": context, "temb": temb}[name] if name in ("context", "temb") else module.get_parameter(name)
    near(*trained(module.requires_grad_(False), leaf, *inputs), 1e-5)


def test_the_projections_of_vace_are_trained():
    from diffusers.models.transformers.transformer_wan_vace import WanVACETransformerBlock

    x, context, temb, rotary = block_inputs(TEMB["one"])
    for name in ("proj_in.weight", "proj_out.weight"):
        module = block(kind=WanVACETransformerBlock, apply_input_projection=True, apply_output_projection=True)
        near(*trained(module, module.get_parameter(name), x, context, tokens() * 2, temb, rotary), 1e-5)


def test_frozen_attention_with_one_thing_to_train():
    for name in ("to_q.weight", "to_v.weight", "to_out.0.bias", "norm_k.weight"):
        module = attention().requires_grad_(False)
        near(*trained(module, module.get_parameter(name), tokens(), None, None, ROTARY), 1e-5)


def test_more_samples_than_hidden_states():
    """Torch broadcasts: then the result has as many as the embedding or the text."""
    x, context, temb, rotary = block_inputs(TEMB["one"])
    for inputs in ((x[:1], context[:1], temb, rotary), (x[:1], context[:1], TEMB["two"], rotary),
                   (x[:1], context, temb[:1], rotary), (x, context, temb[:1], rotary),
                   (x, context, TEMB["two"][:1], rotary), (x, context[:1], temb, rotary)):
        expected, found = both(block(), *inputs)
        assert len(expected) == 2
        near(expected, found)


def test_defaults_of_torch_do_not_matter():
    for default in (torch.bfloat16, torch.float64):
        module, inputs = block(), copy.deepcopy(block_inputs(TEMB["two"]))
        expected = module(*inputs)
        zoetrope.patch(module, verbose=False)
        try:
            torch.set_default_dtype(default)
            near(expected, module(*inputs))
        finally:
            torch.set_default_dtype(torch.float32)


def test_hooks_of_children_are_run():
    module, inputs, seen = block(), block_inputs(TEMB["one"]), []
    expected = module(*inputs)
    zoetrope.patch(module, verbose=False)
    for name in ("norm1", "attn1.norm_q", "attn1", "ffn.net.0"):
        handle = module.get_submodule(name).register_forward_hook(lambda m, args, out, name=name: seen.append(name))
        near(expected, module(*inputs))
        assert name in seen
        handle.remove()


@pytest.mark.parametrize("temb", (TEMB["one"], TEMB["two"]), ids=("one", "two"))
def test_compiled_in_one_graph(temb):
    module, inputs = block(), block_inputs(temb)
    expected = module(*inputs)
    zoetrope.patch(module, verbose=False)
    torch._dynamo.reset()
    near(expected, torch.compile(module, backend="aot_eager", fullgraph=True)(*inputs))
    torch._dynamo.reset()


# ---- the model ----


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("per_token", (False, True))
def test_model(dtype, per_token):
    module = rules.in_type(wan.WanTransformer3DModel(
        num_attention_heads=HEADS, attention_head_dim=DIM // HEADS, text_dim=32, freq_dim=32, ffn_dim=96, num_layers=2,
        rope_max_seq_len=32), torch.float32, generator()).to(dtype)
    x = torch.randn(1, 16, 2, 6, 8, generator=generator()).to(dtype)
    t = torch.tensor([[0] * 12 + [700] * 12]) if per_token else torch.tensor([700])
    context = torch.randn(1, 9, 32, generator=generator()).to(dtype)
    expected, found = (y[0] for y in both(module, x, t, context, return_dict=False))
    report = zoetrope.patch(module, verbose=False)
    assert {row.path for row in report.left} == {"rope"}  # tables, not for us
    near(expected, found, 1e-6 if dtype == torch.float32 else 6 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", sorted(n for n in samples() if n.startswith("diffusers.models.") and (
    "wan" in n or "FP32" in n)))
def test_samples(name):
    for dtype in ("f32", "bf16"):
        for result in zoetrope.patch.check(name, 24, "tiny", dtype, 0.01):
            assert result.kept, str(result)
