"""Networks that were saved whole, as TorchScript or as exported programs, embed as the network did that was saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, saved, theirs
from torch import nn
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

CPU = Options(device="cpu")
USUAL = Compose(
    [
        Resize(36),
        CenterCrop(32),
        ToTensor(),
        Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)
BATCH = torch.export.Dim("batch")


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 8, 8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(96, 5)
    ).eval()


def scripted(network: nn.Module, path: Path) -> Path:
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, 3, 32, 32)), path)
    return path


def exported(network: nn.Module, path: Path, pictures: int = 2, any_number: bool = True) -> Path:
    dims = ({0: BATCH},) if any_number else None
    torch.export.save(
        torch.export.export(network, (torch.zeros(pictures, 3, 32, 32),), dynamic_shapes=dims), path
    )
    return path


def test_torchscript_embeds_as_the_network(network: nn.Module, tmp_path: Path) -> None:
    path = scripted(network, tmp_path / "model.pt")
    found = load(f"torchscript:{path}", Options(size=32, device="cpu"))
    assert_equal(ours(found), theirs(USUAL, network))
    assert_gradients_reach_the_picture(found)
    with pytest.raises(UserError, match=r"fails on a picture of 224 x 224 pixels.*give --size"):
        load(f"torchscript:{path}", CPU)


@pytest.mark.parametrize("any_number", [True, False])
def test_exported_programs_embed_as_the_network(any_number: bool, network: nn.Module, tmp_path: Path) -> None:
    path = exported(network, tmp_path / "model.pt2", 2 if any_number else 1, any_number)
    found = load(path, CPU)
    assert found.look.size == 32
    assert_equal(ours(found), theirs(USUAL, network))
    assert_gradients_reach_the_picture(found)


def test_a_program_for_two_pictures_at_once_is_told(network: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="takes 2 pictures at once and no other number"):
        load(exported(network, tmp_path / "model.pt2", any_number=False), CPU)


def test_files_of_another_kind_are_told(network: nn.Module, tmp_path: Path) -> None:
    weights = saved(network, tmp_path / "weights.pt")
    with pytest.raises(UserError, match=r"is a state dict.*--model timm:resnet50 --weights .*weights.pt"):
        load(f"torchscript:{weights}")
    with pytest.raises(UserError, match=r"weights.pt could not be loaded: "):
        load(f"exported:{weights}")
    with pytest.raises(UserError, match=r"none.pt is missing; correct --model"):
        load("torchscript:none.pt")
    with pytest.raises(UserError, match="32 pixels and no others; leave --size 64 out"):
        load(exported(network, tmp_path / "model.pt2"), Options(size=64))
