"""A training that was interrupted ends with the weights of one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import same, weights
from small_study import data_nodes, history, load
from torch import Tensor

from bgbias.errors import UserError
from bgbias.nodes import train
from bgbias.study import methods
from bgbias.study.cell import Cell
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch

pytestmark = pytest.mark.usefixtures("small_plugins")


def watched(monkeypatch: pytest.MonkeyPatch, die_after: int | None = None) -> dict[int, dict[str, Tensor]]:
    """Weights of model and loss after each epoch; the process ends after ``die_after``."""
    save, seen = loop._save, dict[int, dict[str, Tensor]]()

    def save_and_see(path: Path, digest: str, method: BaseMethod, optimizer: Any, state: loop.State) -> None:
        save(path, digest, method, optimizer, state)
        seen[state.epoch] = weights(method)
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


def test_killed_and_resumed_is_as_if_nothing_had_happened(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["optimizer"] = "rmsprop"
    study, method = load(tmp_path, raw), "gained+bgaugment"
    data_nodes(study)
    chosen = Cell("squares", "pixels", "arcface", method, 0)
    outputs = [study.files.at(name, **chosen.wildcards) for name in ("model", "history", "train_record")]
    partial = study.files.at("partial_history", grid=study.grid, **chosen.wildcards)

    def end_in(kill: Callable[[pytest.MonkeyPatch], object]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            kill(patch)
            with pytest.raises(KeyboardInterrupt):
                train.train(study, chosen, "cpu")
        assert not any(path.exists() for path in outputs)

    with pytest.MonkeyPatch.context() as patch:
        uninterrupted = watched(patch)
        train.train(study, chosen, "cpu")
    model, rows = outputs[0].read_bytes(), history(outputs[1])
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    for path in outputs:
        path.unlink()

    end_in(lambda patch: watched(patch, 1))  # after an epoch
    end_in(lambda patch: killed_in_step(patch, method, 5))  # in the third one
    assert [row["epoch"] for row in history(partial)] == ["1", "2"]  # to be read while it works
    torch.manual_seed(99)
    with pytest.MonkeyPatch.context() as patch:
        resumed = watched(patch)
        train.train(study, chosen, "cpu")
    assert resumed.keys() == {3, 4}
    assert all(same(resumed[epoch], uninterrupted[epoch]) for epoch in resumed)
    assert not same(resumed[3], resumed[4])
    assert outputs[0].read_bytes() == model
    assert history(outputs[1]) == rows
    assert not partial.parent.exists()


def test_training_with_too_large_a_rate_says_what_to_lower(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["lr"] = 1e30
    study = load(tmp_path, raw)
    data_nodes(study)
    with pytest.raises(UserError, match=r"(?i)not finite|unit length|nan"):
        train.train(study, Cell("squares", "pixels", "contrastive", "plain", 0), "cpu")
