"""zoetrope.patch on the official LTX-2 transformer, against the golden data of the whole tiny model."""
import json
import os
import pathlib

import pytest
import torch

pytest.importorskip("ltx_core")
safetensors = pytest.importorskip("safetensors")
import zoetrope  # noqa: E402

GOLDEN = pathlib.Path(os.environ.get("ZOE_GOLDEN_LTX2", pathlib.Path(__file__).parents[3] / "shared/golden/ltx2"))
CASES = ("dit_av_20", "dit_av_20_batch2", "dit_av_23", "dit_video_20", "dit_video_20_interleaved",
         "dit_video_20_keyframe")


def read(path):
    with safetensors.safe_open(path, "pt") as f:
        return {k: f.get_tensor(k) for k in f.keys()}, json.loads(f.metadata()["config"])


def build(cfg):
    from ltx_core.model.transformer.model import LTXModel, LTXModelType
    from ltx_core.model.transformer.rope import LTXRopeType
    from ltx_core.model.transformer.text_projection import create_caption_projection
    av = cfg["kind"] == "av"
    projections = {}
    if not cfg.get("caption_proj_before_connector", False):
        projections["caption_projection"] = create_caption_projection(cfg)
        projections["audio_caption_projection"] = create_caption_projection(cfg, audio=True) if av else None
    left = ("kind", "caption_channels", "rope_type", "frequencies_precision", "caption_proj_before_connector")
    return LTXModel(model_type=LTXModelType.AudioVideo if av else LTXModelType.VideoOnly,
                    rope_type=LTXRopeType(cfg["rope_type"]), use_middle_indices_grid=True,
                    double_precision_rope=cfg["frequencies_precision"] == "float64", **projections,
                    **{k: v for k, v in cfg.items() if k not in left})


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    if not (GOLDEN / f"{case}.io.safetensors").exists():
        pytest.skip(f"no golden data in {GOLDEN}")
    from ltx_core.guidance.perturbations import (BatchedPerturbationConfig, Perturbation, PerturbationConfig,
                                                 PerturbationType)
    from ltx_core.model.transformer.modality import Modality
    io, meta = read(GOLDEN / f"{case}.io.safetensors")
    weights, _ = read(GOLDEN / f"{meta.get('weights', case)}.weights.safetensors")
    model = build(meta["transformer"]).eval()
    prefix = "model.diffusion_model."
    model.load_state_dict({k.removeprefix(prefix): v for k, v in weights.items()})
    batch = len(io["in.video_latent"])
    sigma = io["in.sigma"].expand(batch).clone()

    def modality(name):
        if f"in.{name}_latent" not in io:
            return None
        fields = {k: io[f"in.{name}_{k}"] for k in ("latent", "timesteps", "positions", "context")}
        return Modality(sigma=sigma, context_mask=io.get("in.text_mask"),
                        attention_mask=io.get(f"in.{name}_attention_mask"), **fields)

    report = zoetrope.patch(model, verbose=False)
    assert any("Attention" in str(row) and "replaced" in str(row) for row in report.rows)
    kinds = {"": [], "_stg_block1": [Perturbation(PerturbationType.SKIP_VIDEO_SELF_ATTN, [1]),
                                     Perturbation(PerturbationType.SKIP_AUDIO_SELF_ATTN, [1])],
             "_isolated": [Perturbation(PerturbationType.SKIP_A2V_CROSS_ATTN, None),
                           Perturbation(PerturbationType.SKIP_V2A_CROSS_ATTN, None)]}
    compared = 0
    for suffix, perturbations in kinds.items():
        with torch.no_grad():
            found = model(modality("video"), modality("audio"),
                          BatchedPerturbationConfig([PerturbationConfig(perturbations)] * batch))
        for name, y in zip(("video", "audio"), found):
            wanted = io.get(f"out.{name}_velocity{suffix}")
            if wanted is not None:
                assert (y - wanted).abs().max() <= 2e-5, (name, suffix)
                compared += 1
    assert compared >= 2


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("audio", (True, False))
@pytest.mark.parametrize("adaln", (True, False))
def test_block(dtype, audio, adaln):
    from zoetrope.patch.ltx import block_of
    module, args, _ = block_of(24, "tiny", dtype, torch.Generator().manual_seed(2), audio, adaln)

    def run():
        with torch.no_grad():
            return [s.x for s in module(*args) if s is not None]

    wanted = run()
    report = zoetrope.patch(module, verbose=False)
    assert any(r.path == "" and r.outcome == "replaced" for r in report.rows), str(report)
    found = run()
    zoetrope.unpatch(module)
    for w, f, again in zip(wanted, found, run()):
        assert torch.equal(w, again) and w.dtype == f.dtype
        unit = w.abs().max().item() * torch.finfo(dtype).eps
        assert (w - f).abs().max().item() <= (10 if dtype == torch.float32 else 2) * unit
        assert torch.nn.functional.cosine_similarity(w.double().flatten(), f.double().flatten(), 0) >= (
            0.999999 if dtype == torch.float32 else 0.9999)


@pytest.mark.parametrize("name", ("Attention", "BasicAVTransformerBlock"))
def test_another_body_is_left(name, monkeypatch):
    from zoetrope.patch import ltx
    from zoetrope.patch.ltx import block_of
    module = block_of(8, "tiny", torch.float32, torch.Generator().manual_seed(2))[0]
    monkeypatch.setitem(ltx.NAMES, name, "another")
    rows = [r for r in zoetrope.patch(module, verbose=False).rows if type(module.get_submodule(r.path)).__name__ == name]
    assert rows and all(r.outcome == "left" and "another version" in str(r) for r in rows), rows


def test_one_trainable_layer_takes_the_original_path():
    """As LoRA trains: all but a layer within the block is frozen."""
    from zoetrope.patch.ltx import block_of
    module, args, _ = block_of(8, "tiny", torch.float32, torch.Generator().manual_seed(2))
    module.requires_grad_(False)
    module.attn1.to_q.weight.requires_grad_(True)
    wanted = torch.autograd.grad(module(*args)[0].x.square().mean(), module.attn1.to_q.weight)[0]
    assert zoetrope.patch(module, verbose=False).replaced
    found = torch.autograd.grad(module(*args)[0].x.square().mean(), module.attn1.to_q.weight)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-7)
