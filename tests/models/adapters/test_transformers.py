"""Vision models of transformers embed as transformers itself prepares photos and pools them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, photos, randomised, saved
from PIL import Image
from small_transformers import built

from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, load

CPU = Options(device="cpu")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def features(kind: str, network: Any, x: torch.Tensor) -> torch.Tensor:
    """What the model's own page calls its embedding; of classifiers, what their last layer is given."""
    if kind in ("clip", "siglip"):
        return network.get_image_features(pixel_values=x).pooler_output
    if kind == "clip_vision":
        return network(pixel_values=x).image_embeds
    if kind == "dinov2":
        return network(pixel_values=x).pooler_output
    caught: list[torch.Tensor] = []
    handle = network.classifier.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    network(pixel_values=x)
    handle.remove()
    return caught[0]


KINDS = ("clip", "siglip", "clip_vision", "dinov2", "vit", "convnext", "mobilevit", "ijepa")


@pytest.fixture(scope="module", params=KINDS)
def brought(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Any]:
    """The kind, a folder as people save it, and the network."""
    folder = tmp_path_factory.mktemp(request.param)
    network, processor = built(request.param)
    randomised(network).save_pretrained(folder)
    processor.save_pretrained(folder)
    return request.param, folder, network


def theirs(kind: str, folder: Path, network: Any, backend: str) -> np.ndarray:
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder, backend=backend)
    pictures = [Image.fromarray(photo) for photo in photos()]
    with torch.no_grad():
        return features(
            kind, network, processor(images=pictures, return_tensors="pt")["pixel_values"]
        ).numpy()


def test_vectors_are_those_of_transformers(brought: tuple[str, Path, Any]) -> None:
    kind, folder, network = brought
    found = load(f"transformers:{folder}", CPU)
    assert_equal(ours(found), theirs(kind, folder, network, "pil"))
    # Its resize by torchvision is up to a grey level beside Pillow's.
    assert_equal(ours(found), theirs(kind, folder, network, "torchvision"), 0.1)
    assert found.look.size == 32
    assert any(line.startswith("activation: ") for line in found.told)
    assert ("projected" in found.told[1]) == (kind in ("clip", "clip_vision"))
    assert_gradients_reach_the_picture(found)


def test_an_object_is_prepared_as_the_place_says_that_it_came_from(brought: tuple[str, Path, Any]) -> None:
    _, folder, network = brought
    by_name = load(f"transformers:{folder}", CPU)
    found = load(type(network).from_pretrained(folder), CPU)
    assert found.look == by_name.look
    assert_equal(ours(found), ours(by_name))


def test_weights_of_a_file_take_the_place_of_the_folders(
    brought: tuple[str, Path, Any], tmp_path: Path
) -> None:
    kind, folder, network = brought
    other = randomised(type(network)(network.config), 1)
    weights = saved(other, tmp_path / "w.pth", "module.", ("state_dict",))
    (folder / "model.safetensors").rename(folder / "hidden")
    try:
        found = load(f"transformers:{folder}", Options(weights=weights, device="cpu"))
    finally:
        (folder / "hidden").rename(folder / "model.safetensors")
    assert_equal(ours(found), theirs(kind, folder, other, "pil"), 1e-2)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    network, processor = built("vit")
    randomised(network).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def tokens(model: Adapted, folder: Path, **more: bool) -> torch.Tensor:
    from transformers import ViTModel

    network = ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    x = torch.from_numpy(np.stack([model.look(p) for p in photos()])).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        return network(pixel_values=x, **more).last_hidden_state


def test_pooling_and_size_can_be_chosen(vit: Path) -> None:
    mean = load(f"transformers:{vit}", Options(pooling="mean", device="cpu"))
    assert_equal(ours(mean), tokens(mean, vit).mean(1).numpy())
    larger = load(f"transformers:{vit}", Options(size=48, device="cpu"))
    assert larger.look.size == 48
    assert_equal(ours(larger), tokens(larger, vit, interpolate_pos_encoding=True)[:, 0].numpy())


def test_a_clip_without_its_projection_is_reported(brought: tuple[str, Path, Any]) -> None:
    kind, folder, _ = brought
    if kind == "clip":
        found = load(f"transformers:{folder}", Options(pooling="cls", device="cpu"))
        assert "without CLIP's projection" in found.told[1]


def test_a_folder_without_a_processor_says_what_was_assumed(vit: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((vit / name).read_bytes())
    found = load(f"transformers:{tmp_path}", CPU)
    assert found.look.size == 32
    assert "ImageNet defaults, because the model specifies none" in found.told[0]
    assert "give --mean, --std of its training" in found.guesses[0]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            "transformers:nobody/none",
            r"could not be fetched from https://huggingface.co/nobody/none.*--weights",
        ),
        ("transformers:./none", r"The folder ./none is missing; correct --model"),
    ],
)
def test_models_that_are_not_there_are_told(
    spec: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        load(spec)


def test_a_processor_that_does_more_than_a_look_is_refused(vit: Path, tmp_path: Path) -> None:
    from transformers import EfficientNetImageProcessor, ViltImageProcessor

    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((vit / name).read_bytes())
    EfficientNetImageProcessor(size={"height": 32, "width": 32}, include_top=True).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="does more to photos than both sides 32"):
        load(f"transformers:{tmp_path}", CPU)
    ViltImageProcessor(size={"shortest_edge": 32}).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="photos of any shape"):
        load(f"transformers:{tmp_path}", CPU)


def test_a_checkpoint_of_another_network_is_refused(vit: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "preprocessor_config.json"):
        (tmp_path / name).write_bytes((vit / name).read_bytes())
    config = (
        (tmp_path / "config.json").read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    )
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UserError, match=r"lacks 16 of its network's tensors .*, which would be random"):
        load(f"transformers:{tmp_path}", CPU)
