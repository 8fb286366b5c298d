"""Classifiers of torchvision embed as torchvision itself prepares photos and computes features."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError

import pytest
import torch
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, randomised, saved, theirs
from torch import Tensor, nn
from torchvision import models

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load


def features_by_hook(network: nn.Module, last: str) -> nn.Module:
    """What the last layer is given, caught on its way."""

    class Caught(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            caught: list[Tensor] = []
            handle = network.get_submodule(last).register_forward_pre_hook(
                lambda _, given: caught.append(given[0])
            )
            network(x)
            handle.remove()
            return caught[0]

    return Caught()


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("resnet18", "fc"),
        ("mobilenet_v3_small", "classifier.3"),
        ("efficientnet_b1", "classifier.1"),
    ],
)
def test_vectors_are_what_torchvision_gives_the_classifier(name: str, last: str, tmp_path: Path) -> None:
    network = randomised(models.get_model(name))
    found = load(f"torchvision:{name}", Options(weights=saved(network, tmp_path / "w.pth"), device="cpu"))
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    assert_equal(ours(found), theirs(transforms, features_by_hook(network, last)))
    assert found.look.size == transforms.crop_size[0]


def test_one_of_several_weights_brings_its_own_preparation(tmp_path: Path) -> None:
    weights = saved(randomised(models.resnet18()), tmp_path / "w.pth")
    newer = load("torchvision:resnet50", Options(weights=saved(models.resnet50(), weights), device="cpu"))
    older = load("torchvision:resnet50/IMAGENET1K_V1", Options(weights=weights, device="cpu"))
    assert (newer.look.resize, older.look.resize) == (232, 256)
    assert any("IMAGENET1K_V1" in line for line in older.told)
    assert older.dim == 2048


def test_gradients_reach_the_picture(tmp_path: Path) -> None:
    weights = saved(randomised(models.resnet18()), tmp_path / "w.pth")
    assert_gradients_reach_the_picture(
        load("torchvision:resnet18", Options(weights=weights, size=64, device="cpu"))
    )


def test_published_weights_that_cannot_be_fetched_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(torch.hub, "download_url_to_file", refused)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refused)
    with pytest.raises(UserError, match=r"could not be fetched from https://download.pytorch.org.*--weights"):
        load("torchvision:resnet18")


def test_names_are_told_with_near_ones() -> None:
    with pytest.raises(UserError, match=r"no classifier of torchvision 'resnet5'. Did you mean resnet50"):
        load("torchvision:resnet5")
    with pytest.raises(UserError, match=r"no weights of resnet50 'V1'.*IMAGENET1K_V1 IMAGENET1K_V2"):
        load("torchvision:resnet50/V1")


def test_a_network_without_a_linear_layer_is_told(tmp_path: Path) -> None:
    weights = saved(models.squeezenet1_1(), tmp_path / "w.pth")
    with pytest.raises(UserError, match="ends in no linear layer"):
        load("torchvision:squeezenet1_1", Options(weights=weights))
