"""Published weights are read without executing anything in them, and converted once."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from bgbias.errors import UserError
from bgbias.files import state_dicts

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}


def test_a_pth_is_converted_once_and_then_not_needed(tmp_path: Path) -> None:
    published = tmp_path / "net.pth"
    torch.save(STATE, published)
    first = state_dicts.read_state_dict(published, "net")
    published.write_bytes(b"no longer a state dict")
    # As long as the conversion is the younger of the two.
    later = (tmp_path / "net.safetensors").stat().st_mtime
    os.utime(published, (later - 10, later - 10))
    second = state_dicts.read_state_dict(published, "net")
    for state in (first, second):
        assert state.keys() == STATE.keys()
        assert all(torch.equal(state[name], STATE[name]) for name in STATE)


def test_a_newer_pth_replaces_the_conversion(tmp_path: Path) -> None:
    published = tmp_path / "net.pth"
    torch.save(STATE, published)
    state_dicts.read_state_dict(published, "net")
    torch.save({"a.weight": torch.ones(1)}, published)
    later = (tmp_path / "net.safetensors").stat().st_mtime + 10
    os.utime(published, (later, later))
    assert list(state_dicts.read_state_dict(published, "net")) == ["a.weight"]


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


def test_what_is_no_tensor_is_named(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "net.pth")
    with pytest.raises(UserError, match="'epoch' is no tensor"):
        state_dicts.read_state_dict(tmp_path / "net.pth", "net")
