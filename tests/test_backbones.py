"""Backbones: the contract of the family, padding, weights files, and what they can learn."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from backbone_models import make, photos, random_options, unsettle
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import nn

from bgbias import plugins, seeds
from bgbias.backbones._same_padding import SamePaddedConv2d
from bgbias.errors import UserError
from bgbias.model import build_model, for_inference

FAMILY = plugins.names("backbones")
CONVOLUTIONAL = tuple(n for n in FAMILY if "weights" in plugins.load("backbones", n).Params.model_fields)


# The contract, for every file in backbones/.


@pytest.mark.parametrize("name", FAMILY)
def test_shapes_and_unit_length(name: str) -> None:
    module, model = plugins.load("backbones", name), make(name).eval()
    x = photos(name)
    with torch.no_grad():
        features, pooled, embeddings = model.features(x), model.pooled(x), model(x)
    assert features.shape[:2] == (2, module.CHANNELS)
    assert pooled.shape == (2, module.CHANNELS)
    assert embeddings.shape == (2, 8)
    for vectors in (pooled, embeddings):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))
    assert module.RESIZE >= module.INPUT_SIZE


@pytest.mark.parametrize("name", FAMILY)
def test_photos_do_not_influence_each_other(name: str) -> None:
    model, x = make(name).eval(), photos(name, 3)
    with torch.no_grad():
        torch.testing.assert_close(model(x)[1:2], model(x[1:2]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILY)
def test_unknown_option_is_refused(name: str) -> None:
    module = plugins.load("backbones", name)
    with pytest.raises(ValidationError, match="extra_forbidden"):
        module.Params(**random_options(module), weight="x")


# TensorFlow's padding.


def test_same_padding_is_right_and_below() -> None:
    conv = SamePaddedConv2d(1, 1, 3, stride=2, bias=False)
    conv.weight.data.fill_(0)
    conv.weight.data[0, 0, 2, 2] = 1  # looks at the lower right of its window
    picture = torch.arange(16.0).view(1, 1, 4, 4)
    # Windows start at 0 and 2; the last ones reach one row and one column beyond the picture, into zeros.
    assert conv(picture)[0, 0].tolist() == [[10.0, 0.0], [0.0, 0.0]]


def test_only_strided_convolutions_are_padded_as_tensorflow_does() -> None:
    trunk = plugins.load("backbones", "mobilenet_v2_tf").build(
        plugins.load("backbones", "mobilenet_v2_tf").Params(weights=None)
    )
    convolutions = [m for m in trunk.modules() if isinstance(m, nn.Conv2d)]
    strided = [m for m in convolutions if m.stride == (2, 2)]
    assert len(strided) == 5  # 224 to 7
    assert all(isinstance(m, SamePaddedConv2d) and m.padding == (0, 0) for m in strided)
    assert not any(isinstance(m, SamePaddedConv2d) for m in convolutions if m.stride == (1, 1))


# Weights files.


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_published_weights_fill_the_trunk_and_leave_the_classifier(
    name: str, suffix: str, tmp_path: Path
) -> None:
    module, source = plugins.load("backbones", name), make(name, seed=5)
    unsettle(source)
    prefix, head = ("", "fc") if name == "resnet18" else ("features.", "classifier.1")
    state = {prefix + k: v for k, v in source.trunk.state_dict().items() if "num_batches" not in k}
    state |= {f"{head}.weight": torch.zeros(7, module.CHANNELS), f"{head}.bias": torch.zeros(7)}
    file = tmp_path / f"published{suffix}"
    if suffix == ".pth":
        torch.save(state, file)
    else:
        save_file({k: v.contiguous() for k, v in state.items()}, file)
    model = build_model(name, module.Params(weights=str(file)), 8, seeds.torch_generator("test"))
    loaded = model.trunk.state_dict()
    assert all(
        torch.equal(loaded[k], v) for k, v in source.trunk.state_dict().items() if "num_batches" not in k
    )


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_missing_weights_file_is_named_with_the_next_command(name: str, tmp_path: Path) -> None:
    file = str(tmp_path / "none.pth")
    with pytest.raises(UserError, match=f"backbones.{name}.weights") as told:
        plugins.load("backbones", name).build(plugins.load("backbones", name).Params(weights=file))
    assert file in str(told.value)
    assert ("curl" in str(told.value)) or ("cp " in str(told.value))


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file(make("resnet18").trunk.state_dict(), file)
    with pytest.raises(UserError, match="does not hold weights of mobilenet_v2 "):
        plugins.load("backbones", "mobilenet_v2").build(
            plugins.load("backbones", "mobilenet_v2").Params(weights=str(file))
        )


@pytest.mark.parametrize("name", ["damaged.pth", "damaged.safetensors"])
def test_damaged_weights_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"not a state dict")
    with pytest.raises(UserError, match="damaged"):
        plugins.load("backbones", "resnet18").build(
            plugins.load("backbones", "resnet18").Params(weights=str(tmp_path / name))
        )


# Learning.


def test_tiny_learns_colours_from_nothing() -> None:
    """Forty steps are enough to tell apart four colours behind noise: gradients reach every layer."""
    model = make("tiny", dim=4).train()
    generator = seeds.torch_generator("colours")
    colours = 255 * torch.rand(4, 3, 1, 1, generator=generator)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(40):
        labels = torch.randint(4, (16,), generator=generator)
        noise = 60 * torch.randn(16, 3, 56, 56, generator=generator)
        loss = nn.functional.cross_entropy(10 * model(model.preprocess(colours[labels] + noise)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert loss.item() < 0.3


# The reference point of the shared weights.


@pytest.mark.shared
def test_shared_weights_retrieve_groceries(shared_data: Path) -> None:
    """Pooled ImageNet features of 16 groceries, 4 photos each: the nearest photo mostly shows the same."""
    from PIL import Image

    module = plugins.load("backbones", "mobilenet_v2_tf")
    params = module.Params(weights=str(shared_data / "weights" / "mobilenet_v2_imagenet.safetensors"))
    model = for_inference(build_model("mobilenet_v2_tf", params, 8, seeds.torch_generator("test")))
    rows, labels = [], []
    with zipfile.ZipFile(shared_data / "grocery_store.zip") as archive:
        by_class: dict[str, list[str]] = {}
        for name in sorted(n for n in archive.namelist() if n.endswith(".jpg")):
            by_class.setdefault(name.rsplit("/", 1)[0], []).append(name)
        for label, folder in enumerate(sorted(by_class)[::5][:16]):
            for name in by_class[folder][::8]:
                with Image.open(io.BytesIO(archive.read(name))) as image:
                    picture = np.asarray(image.convert("RGB").resize((224, 224)))
                rows.append(torch.from_numpy(picture.copy()).permute(2, 0, 1).float())
                labels.append(label)
    with torch.no_grad():
        pooled = model.pooled(model.preprocess(torch.stack(rows)))
    nearest = (pooled @ pooled.T).fill_diagonal_(-1).argmax(1)
    right = (torch.tensor(labels)[nearest] == torch.tensor(labels)).float().mean()
    assert right > 0.75
