"""Image towers of OpenCLIP embed as OpenCLIP itself prepares photos and encodes them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, randomised, saved, theirs

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

CPU = Options(device="cpu")
SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
}
COLOURS = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


@pytest.fixture
def open_clip() -> Any:
    """The library, imported where it is tested and not wherever this file is read."""
    return importlib.import_module("open_clip")


@pytest.fixture(autouse=True)
def _a_small_model_among_the_built_in(
    open_clip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """It has two tags: one was trained with QuickGELU, one with other colours and squashed photos."""
    from open_clip import factory, pretrained

    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "Small-8.json").write_text(json.dumps(SMALL))
    (tmp_path / "configs" / "Small-8-quickgelu.json").write_text(json.dumps({**SMALL, "quick_gelu": True}))
    before = list(factory._MODEL_CONFIG_PATHS)
    open_clip.add_model_config(tmp_path / "configs")
    quick = {"url": "https://example.org/quick.pt", "quick_gelu": True}
    squashed = {
        "hf_hub": "someone/squashed/",
        "resize_mode": "squash",
        "interpolation": "bilinear",
        **COLOURS,
    }
    tags = {"quick": quick, "squashed": squashed}
    monkeypatch.setitem(pretrained._PRETRAINED, "Small-8", tags)
    monkeypatch.setitem(pretrained._PRETRAINED, "Small-8-quickgelu", tags)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    yield
    factory._MODEL_CONFIG_PATHS[:] = before
    factory._MODEL_CONFIGS.clear()
    factory._rescan_model_configs()


def expected(network: Any, **config: Any) -> np.ndarray:
    """Through OpenCLIP's own transform and ``encode_image``."""
    from open_clip.transform import PreprocessCfg, image_transform_v2

    prepare = image_transform_v2(PreprocessCfg(**network.visual.preprocess_cfg | config), is_train=False)
    return theirs(prepare, network.encode_image)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_vectors_are_those_of_open_clip(open_clip: Any, prefix: str, tmp_path: Path) -> None:
    network = randomised(open_clip.create_model("Small-8"))
    weights = saved(network, tmp_path / "w.pt", prefix, ("state_dict",))
    found = load("open_clip:Small-8", Options(weights=weights, device="cpu"))
    assert_equal(ours(found), expected(network))
    assert found.dim == 16
    assert_gradients_reach_the_picture(found)
    assert any("tensors of the file are not used" in line for line in found.told), "those of the text tower"


def test_a_tag_brings_its_preparation_and_its_activation(open_clip: Any, tmp_path: Path) -> None:
    network = randomised(open_clip.create_model("Small-8"))
    weights = saved(network, tmp_path / "w.pt")
    squashed = load("open_clip:Small-8/squashed", Options(weights=weights, device="cpu"))
    assert_equal(ours(squashed), expected(network, resize_mode="squash", interpolation="bilinear", **COLOURS))
    quick = load("open_clip:Small-8/quick", Options(weights=weights, device="cpu"))
    other = open_clip.create_model("Small-8-quickgelu")
    other.load_state_dict(network.state_dict())
    assert_equal(ours(quick), expected(other.eval()))
    assert "activation: QuickGELU, as 'quick' was trained" in quick.told
    assert (
        "encode_image(), the features that are compared with texts (tok pooling, projected)" in quick.told[1]
    )
    with pytest.raises(UserError, match="trained without QuickGELU; name open_clip:Small-8/squashed"):
        load("open_clip:Small-8-quickgelu/squashed", Options(weights=weights))


def test_an_activation_that_weights_do_not_tell_is_a_guess(open_clip: Any, tmp_path: Path) -> None:
    network = randomised(open_clip.create_model("Small-8"))
    weights = saved(network, tmp_path / "w.pt")
    found = load("open_clip:Small-8", Options(weights=weights, device="cpu"))
    assert "activation: GELU" in found.told
    (guess,) = found.guesses
    assert "w.pt does not tell its activation" in guess
    assert "open_clip:Small-8-quickgelu computes that" in guess
    for known in ("Small-8/squashed", "Small-8-quickgelu"):
        assert not load(f"open_clip:{known}", Options(weights=weights, device="cpu")).guesses


def test_weights_that_are_known_to_want_quickgelu_are_not_computed_with_gelu(tmp_path: Path) -> None:
    """By OpenAI's entries, which only their files have, or by the file's name."""
    entries = ("input_resolution", "context_length", "vocab_size")
    theirs, named = tmp_path / "w.pt", tmp_path / "small-quickgelu-laion.pt"
    torch.save({name: torch.tensor(1) for name in entries}, theirs)
    torch.save({"visual.proj": torch.tensor(1)}, named)
    for weights, why in ((theirs, "one of OpenAI's files"), (named, "its name says it")):
        with pytest.raises(UserError, match=f"QuickGELU .*{why}.*name open_clip:Small-8-quickgelu"):
            load("open_clip:Small-8", Options(weights=weights))
        with pytest.raises(UserError, match="name timm:vit_base_patch32_clip_quickgelu_224"):
            load("timm:vit_base_patch32_clip_224", Options(weights=weights))


def test_a_folder_of_the_hubs_form_is_read(open_clip: Any, tmp_path: Path) -> None:
    network = randomised(open_clip.create_model("Small-8"))
    config = {
        "model_cfg": SMALL,
        "preprocess_cfg": {**COLOURS, "interpolation": "bicubic", "resize_mode": "shortest"},
    }
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    saved(network, tmp_path / "open_clip_pytorch_model.bin")
    found = load(f"open_clip:local-dir:{tmp_path}", CPU)
    assert_equal(ours(found), expected(network, **COLOURS))


def test_positions_of_another_size_are_resampled(open_clip: Any, tmp_path: Path) -> None:
    network = randomised(open_clip.create_model("Small-8"))
    weights = saved(network, tmp_path / "w.pt")
    found = load("open_clip:Small-8", Options(weights=weights, size=48, device="cpu"))
    larger = open_clip.create_model("Small-8", str(weights), force_image_size=48).eval()
    assert_equal(ours(found), expected(larger))


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("Small-9/quick", "no model of OpenCLIP 'Small-9'. Did you mean Small-8"),
        ("Small-8/quik", "no pretrained tag of Small-8 'quik'. Did you mean quick"),
        (
            "Small-8",
            r"does not say which weights: open_clip:Small-8/<tag> of (quick squashed|squashed quick)",
        ),
        ("Small-8/squashed", r"could not be fetched from https://huggingface.co/someone/squashed.*--weights"),
        ("hf-hub:someone/none", r"could not be fetched from https://huggingface.co/someone/none.*--weights"),
        ("local-dir:none", "none"),
    ],
)
def test_what_is_not_there_is_told(which: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load(f"open_clip:{which}")


def test_a_model_without_its_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "open_clip", None)
    with pytest.raises(UserError, match=r"open_clip is not installed: pip install 'bgbias\[open-clip\]'"):
        load("open_clip:Small-8")


def test_a_photo_has_one_vector_whatever_else_the_tower_gives(open_clip: Any) -> None:
    """CoCa's gives its tokens, too."""
    assert torch.is_tensor(open_clip.create_model("Small-8").visual(torch.zeros(1, 3, 32, 32)))
