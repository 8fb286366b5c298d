"""A training that was interrupted ends with the weights of one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_study import data_nodes, described, history, load
from torch import Tensor

from bgbias.errors import UserError
from bgbias.nodes import train
from bgbias.study import methods
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def prepared(folder: Path, raw: dict[str, Any]) -> Study:
    study = load(folder, raw)
    data_nodes(study)
    return study


def cell(loss: str, method: str) -> Cell:
    return Cell("squares", "pixels", loss, method, 0)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def watched(monkeypatch: pytest.MonkeyPatch, die_after: int | None = None) -> dict[int, dict[str, Tensor]]:
    """Weights of model and loss after each epoch; the process ends after ``die_after``."""
    save, seen = loop._save, dict[int, dict[str, Tensor]]()

    def save_and_see(path: Path, digest: str, method: BaseMethod, optimizer: Any, state: loop.State) -> None:
        save(path, digest, method, optimizer, state)
        named = {
            f"{m} {k}": v for m, module in method.modules().items() for k, v in module.state_dict().items()
        }
        seen[state.epoch] = {name: tensor.clone() for name, tensor in named.items()}
        if state.epoch == die_after:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", save_and_see)
    return seen


def killed_in_step(monkeypatch: pytest.MonkeyPatch, method: str, step: int) -> None:
    """End the process, as it were, before its step number ``step``."""
    kind = methods.find({}, method).module.Method
    loss, steps = kind.loss, iter(range(1, step + 1))

    def loss_or_die(self: BaseMethod, batch: Batch) -> dict[str, Tensor]:
        if next(steps) == step:
            raise KeyboardInterrupt
        return loss(self, batch)

    monkeypatch.setattr(kind, "loss", loss_or_die)


@pytest.mark.parametrize(
    ("loss", "optimizer", "method"),
    [
        ("arcface", "adamw", "bgaugment"),
        ("arcface", "rmsprop", "gained+bgaugment"),
    ],
)
def test_killed_and_resumed_is_as_if_nothing_had_happened(
    tmp_path: Path, raw: dict[str, Any], loss: str, optimizer: str, method: str
) -> None:
    raw["train"]["optimizer"] = optimizer
    study, chosen = prepared(tmp_path, raw), cell(loss, method)
    outputs = [study.files.at(name, **chosen.wildcards) for name in ("model", "history", "train_record")]
    partial = study.files.at("partial", grid=study.grid, **chosen.wildcards)

    def end_in(kill: Callable[[pytest.MonkeyPatch], object]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            kill(patch)
            with pytest.raises(KeyboardInterrupt):
                train.train(study, chosen, "cpu")
        assert not any(path.exists() for path in outputs)
        assert partial.exists()

    with pytest.MonkeyPatch.context() as patch:
        uninterrupted = watched(patch)
        train.train(study, chosen, "cpu")
    weights, rows = outputs[0].read_bytes(), history(outputs[1])
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    for path in outputs:
        path.unlink()

    end_in(lambda patch: watched(patch, 1))  # after an epoch
    end_in(lambda patch: killed_in_step(patch, method, 5))  # in the third one
    torch.manual_seed(99)
    with pytest.MonkeyPatch.context() as patch:
        resumed = watched(patch)
        train.train(study, chosen, "cpu")
    assert resumed.keys() == {3, 4}
    assert all(same(resumed[epoch], uninterrupted[epoch]) for epoch in resumed)
    assert not same(resumed[3], resumed[4])
    assert outputs[0].read_bytes() == weights
    assert history(outputs[1]) == rows
    assert not partial.parent.exists()


def test_curve_can_be_read_while_the_training_runs(tmp_path: Path, raw: dict[str, Any]) -> None:
    study, chosen = prepared(tmp_path, raw), cell("contrastive", "plain")
    with pytest.MonkeyPatch.context() as patch:
        killed_in_step(patch, "plain", 8)
        with pytest.raises(KeyboardInterrupt):
            train.train(study, chosen, "cpu")
    rows = history(study.files.at("partial_history", grid=study.grid, **chosen.wildcards))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert set(rows[0]) == {"epoch", "loss", "val_map_at_r", "val_precision_at_1"}


def test_seeds_give_other_models_and_methods_the_same_start(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"] |= {"max_epochs": 1, "lr": 1e-12}  # nothing moves: what is saved is the start
    study = prepared(tmp_path, raw)

    def start(method: str, seed: int) -> Tensor:
        chosen = Cell("squares", "pixels", "contrastive", method, seed)
        train.train(study, chosen, "cpu")
        return load_file(study.files.at("model", **chosen.wildcards))["embedder.weight"]

    assert torch.allclose(start("plain", 0), start("bgaugment", 0), atol=1e-6)
    assert not torch.allclose(start("plain", 0), start("plain", 1), atol=1e-3)


def test_training_with_too_large_a_rate_says_what_to_lower(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["lr"] = 1e30
    study = prepared(tmp_path, raw)
    with pytest.raises(UserError, match=r"(?i)not finite|unit length|nan"):
        train.train(study, cell("contrastive", "plain"), "cpu")
