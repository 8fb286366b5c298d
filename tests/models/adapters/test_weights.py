"""Weights as trainings leave them: whatever is wrapped around them is taken off and told."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from brought_models import saved
from safetensors.torch import save_file
from torch import nn

from bgbias.errors import UserError
from bgbias.models.adapters._network import fill


def network() -> nn.Module:
    return nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4)))


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("prefix", "nested", "told"),
    [
        ("", (), []),
        ("module.", ("state_dict",), ["'state_dict' of the checkpoint", "'module.' taken off"]),
        ("_orig_mod.", ("model",), ["'model' of the checkpoint", "'_orig_mod.' taken off"]),
        ("module.encoder_q.", ("state_dict",), ["'module.encoder_q.' taken off"]),
        ("backbone.", ("teacher",), ["'teacher' of the checkpoint", "'backbone.' taken off"]),
        ("", ("model", "state_dict"), ["'model' of", "'state_dict' of"]),
    ],
)
def test_wrappings_are_taken_off(
    prefix: str, nested: tuple[str, ...], told: list[str], tmp_path: Path
) -> None:
    trained, fresh = network(), network()
    said = fill(fresh, saved(trained, tmp_path / "w.pth", prefix, nested), "mine")
    assert same(trained, fresh)
    assert all(any(part in line for line in said) for part in told)
    assert len(said) == 1 + len(nested) + bool(prefix)


def test_safetensors_are_read_too_and_what_is_left_over_is_told(tmp_path: Path) -> None:
    trained, fresh = network(), network()
    whole = {f"encoder.{k}": v for k, v in trained.state_dict().items()} | {"head.weight": torch.zeros(2, 4)}
    save_file(whole, tmp_path / "w.safetensors")
    said = fill(fresh, tmp_path / "w.safetensors", "mine")
    assert same(trained, fresh)
    assert said[-1] == "weights: 1 tensors of the file are not used (head.weight)"


def test_of_several_networks_in_a_checkpoint_the_one_taken_is_told(tmp_path: Path) -> None:
    student, teacher, fresh = network(), network(), network()
    torch.save({"student": student.state_dict(), "teacher": teacher.state_dict()}, tmp_path / "w.pth")
    said = fill(fresh, tmp_path / "w.pth", "mine")
    assert same(teacher, fresh)
    assert "weights: 'teacher' of the checkpoint (not student)" in said
    flat = {f"online.{k}": v for k, v in student.state_dict().items()}
    torch.save(flat | {f"momentum.{k}": v for k, v in teacher.state_dict().items()}, tmp_path / "w.pth")
    said = fill(fresh, tmp_path / "w.pth", "mine")
    assert same(student, fresh)
    assert "weights: 'online.' taken off the names (not momentum.)" in said


def test_files_that_do_not_fit_are_told(tmp_path: Path) -> None:
    other = saved(nn.Conv2d(3, 5, 3), tmp_path / "other.pth")
    words = r"other.pth does not hold weights of mine: 'conv.weight' is missing \(and"
    with pytest.raises(UserError, match=words):
        fill(network(), other, "mine")
    wide = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 4, 5), norm=nn.BatchNorm2d(4)))
    with pytest.raises(UserError, match=r"'conv.weight' is \[4, 3, 5, 5\] where \[4, 3, 3, 3\] is needed"):
        fill(network(), saved(wide, tmp_path / "wide.pth"), "mine")
