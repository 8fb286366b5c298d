"""What is written belongs to whom the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bgbias import plugins
from bgbias.files import atomic, state_dicts
from bgbias.models import model as models


@pytest.fixture(params=[0o022, 0o002, 0o077])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_weights_and_models_can_be_read_by_whom_other_files_can(tmp_path: Path, mode: int) -> None:
    params = plugins.load("backbones", "tiny").Params()
    models.save(models.build_model("tiny", params, 8, torch.Generator()), tmp_path / "model.safetensors")
    state_dicts.write_state_dict({"a": torch.zeros(3)}, tmp_path / "weights.safetensors")
    atomic.write_json(tmp_path / "record.json", {})
    assert {file.name: mode_of(file) for file in tmp_path.iterdir()} == dict.fromkeys(
        ("model.safetensors", "weights.safetensors", "record.json"), mode
    )


def test_a_file_of_ones_own_that_is_linked_keeps_its_mode(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.touch(0o600)
    with atomic.replacing(tmp_path / "linked") as temporary:
        atomic.link_or_copy(own, temporary)
    assert mode_of(own) == 0o600
