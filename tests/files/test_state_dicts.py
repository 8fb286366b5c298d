"""Weights are read without executing anything in their file."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import bgbias
from bgbias.errors import UserError
from bgbias.files import state_dicts

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}


def test_a_pth_is_what_is_read_however_old_it_is_and_whatever_lies_beside_it(tmp_path: Path) -> None:
    published = tmp_path / "net.pth"
    save_file({"another": torch.ones(1)}, tmp_path / "net.safetensors")
    torch.save(STATE, published)
    os.utime(published, (1, 1))  # as `cp -p` leaves it
    torch.testing.assert_close(state_dicts.read_state_dict(published, "net"), STATE, rtol=0, atol=0)


class Malicious:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("executed"),))


def test_nothing_in_a_pth_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pth").write_bytes(pickle.dumps({"a": Malicious()}))
    with pytest.raises(UserError, match=r"net\.pth cannot be read as weights of net"):
        state_dicts.read_state_dict(tmp_path / "net.pth", "net")
    assert not (tmp_path / "executed").exists()


NET = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
LIGHTNING = {
    "state_dict": NET.state_dict(),
    "pytorch-lightning_version": "2.1",
    "callbacks": {"where": Path()},
}


def _onnx(path: Path) -> None:
    graph = onnx.helper.make_graph([], "net", [], [])
    onnx.save(onnx.helper.make_model(graph, producer_name="pytorch"), path)


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "network": (lambda path: torch.save(NET, path), r"a whole network as a pickle \(torch.nn.*Sequential\)"),
    "old network": (lambda path: torch.save(NET, path, _use_new_zipfile_serialization=False),
                    "Python objects beside tensors"),
    "TorchScript": (lambda path: torch.jit.trace(NET, torch.zeros(1, 3, 8, 8)).save(str(path)),
                    "a network as TorchScript"),
    "ONNX": (_onnx, "an ONNX graph"),
    "Lightning": (lambda path: torch.save(LIGHTNING, path), "a checkpoint of PyTorch Lightning"),
    "list": (lambda path: torch.save([1, 2], path), "a list, not a state dict"),
    "no tensor": (lambda path: torch.save({"epoch": 3}, path), "'epoch' is no tensor"),
    "page": (lambda path: path.write_text("<!DOCTYPE html><html></html>"), "a page of HTML"),
    "pointer": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1"), "git lfs pull"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_state_dict_is_told_by_what_it_is(tmp_path: Path, kind: str) -> None:
    write, words = FOREIGN[kind]
    path = tmp_path / "mine.pth"
    write(path)
    with pytest.raises(UserError, match=words) as told:
        state_dicts.read_state_dict(path, "net")
    assert "torch.save(model.state_dict()" in str(told.value)
    with pytest.raises(UserError, match="models that bgbias trained") as loaded:
        bgbias.load(path)
    for said in (str(told.value), str(loaded.value)):
        assert not re.search(r"delete|weights_only|damaged|object at 0x", said)
    assert path.exists()


def test_a_checkpoint_of_a_training_is_told_with_the_command_that_gets_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save({"epoch": 3, "state_dict": STATE}, path)
    with pytest.raises(UserError, match="whose weights are its 'state_dict'") as told:
        state_dicts.read_state_dict(path, "net")
    command = str(told.value).partition("'state_dict': ")[2]
    python, option, lines = shlex.split(command)
    assert (python, option) == ("python", "-c")
    exec(lines)
    assert state_dicts.read_state_dict(tmp_path / "last_weights.pth", "net").keys() == STATE.keys()


def test_a_users_own_tensors_and_models_of_other_versions_are_not_to_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    save_file(STATE, path)
    with pytest.raises(UserError, match="not what builds a network of them") as own:
        bgbias.load(path)
    header = {"backbone": "tiny", "params": "{}", "dim": "8", "freeze_batch_norm": "true"}
    save_file(STATE, path, {"bgbias": json.dumps(header)})
    with pytest.raises(UserError, match="does not fit this version of bgbias") as other:
        bgbias.load(path)
    assert "delete" not in f"{own.value}{other.value}"
