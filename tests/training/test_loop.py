"""Training stops and picks by the rule, and refuses what it cannot go on with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from small_study import history
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch, Task
from bgbias.training.methods.plain import Method as Plain
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")


class Scripted:
    """Validation scores as they are told, and what the model looked like each time."""

    def __init__(self, *scores: float) -> None:
        self.scores, self.seen = list(scores), list[dict[str, Tensor]]()

    def __call__(self, model: EmbeddingModel) -> dict[str, float]:
        assert not model.training
        self.seen.append({k: v.clone() for k, v in model.state_dict().items()})
        return {"val_map_at_r": self.scores[len(self.seen) - 1], "val_precision_at_1": 0.0}


def method(freeze: bool = False) -> Plain:
    backbone = plugins.load("backbones", "pixels").Params()
    model = build_model("pixels", backbone, 4, seeds.torch_generator("model"), freeze)
    loss = plugins.load("losses", "contrastive")
    return Plain(model, loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 4, 4, torch.Generator()))


def batches(epoch: int) -> Iterator[Batch]:
    for step in range(2):
        generator = seeds.torch_generator("batch", epoch, step)
        pictures = torch.rand((8, 3, 32, 32), generator=generator) * 255
        yield Batch(pictures, torch.arange(4).repeat_interleave(2), torch.arange(8))


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., loop.State]:
    def run(
        made: BaseMethod, validate: Callable[..., dict[str, float]], digest: str = "d", **settings: Any
    ) -> Any:
        chosen = {"iterations_per_epoch": 2, "lr": 1e-3, "max_epochs": 10, "patience": 3, **settings}
        paths = tmp_path / "checkpoint.pt", tmp_path / "history.csv"
        return loop.fit(made, batches, validate, "val_map_at_r", Train(**chosen), *paths, digest)

    return run


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_stops_when_patience_is_used_up_and_keeps_the_best(fit: Callable[..., loop.State]) -> None:
    """An equal score is no improvement."""
    made, validate = method(), Scripted(0.1, 0.3, 0.2, 0.3, 0.25, 0.9)
    state = fit(made, validate)
    assert (state.epoch, state.best_epoch, state.best_score) == (5, 2, 0.3)
    assert same(made.model.state_dict(), validate.seen[1])
    assert not same(made.model.state_dict(), validate.seen[4])
    assert not made.model.training


def test_improvement_renews_patience_up_to_the_last_epoch(fit: Callable[..., loop.State]) -> None:
    state = fit(method(), Scripted(*(n / 10 for n in range(10))), patience=1)
    assert (state.epoch, state.best_epoch) == (10, 10)


def test_finished_training_is_not_trained_further(fit: Callable[..., loop.State]) -> None:
    """Killed between the last epoch and the writing of the model."""
    first = method()
    fit(first, Scripted(0.1, 0.3), max_epochs=2)
    again, validate = method(), Scripted()
    assert fit(again, validate, max_epochs=2).best_epoch == 2
    assert validate.seen == []
    assert same(again.model.state_dict(), first.model.state_dict())


def test_checkpoint_of_another_training_is_not_continued(
    fit: Callable[..., loop.State], capsys: pytest.CaptureFixture[str]
) -> None:
    fit(method(), Scripted(0.5, 0.6), max_epochs=2)
    other, fresh = method(), method()
    state = fit(other, Scripted(0.1, 0.2, 0.3), digest="other", max_epochs=3)
    assert "other settings; starting from the first epoch" in capsys.readouterr().err
    assert [row["epoch"] for row in state.history] == [1, 2, 3]
    assert state.best_score == 0.3
    fit(fresh, Scripted(0.1, 0.2, 0.3), digest="fresh", max_epochs=3)
    assert same(other.model.state_dict(), fresh.model.state_dict())


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"truncated", b"foreign"])
def test_damaged_checkpoint_is_told_and_training_starts_again(
    fit: Callable[..., loop.State], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "checkpoint.pt"
    fit(method(), Scripted(0.5), max_epochs=1)
    if content == b"truncated":
        path.write_bytes(path.read_bytes()[:-500])
    elif content == b"foreign":
        torch.save({"something": "else"}, path)
    else:
        path.write_bytes(content)
    assert fit(method(), Scripted(0.1, 0.2), max_epochs=2).best_score == 0.2
    assert "checkpoint.pt is damaged" in capsys.readouterr().err


class Bursting(Plain):
    """Its loss is infinite in the fourth step."""

    steps = 0

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        self.steps += 1
        parts = super().loss(batch)
        return {"loss": parts["loss"] * (float("inf") if self.steps == 4 else 1)}


def test_loss_that_is_not_finite_is_an_error_that_says_where(
    fit: Callable[..., loop.State], tmp_path: Path
) -> None:
    made = method()
    with pytest.raises(UserError, match=r"not finite in epoch 2, step 2\. Lower train\.lr \(now 0\.001\)"):
        fit(Bursting(made.model, made.base_loss), Scripted(0.1, 0.2))
    assert [row["epoch"] for row in history(tmp_path / "history.csv")] == ["1"]


def test_loss_that_is_looked_at_seldom_is_told_with_the_step_all_the_same(
    fit: Callable[..., loop.State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: after more steps than the epoch has."""
    monkeypatch.setitem(loop.LOOKS, "cpu", 50)
    made = method()
    with pytest.raises(UserError, match=r"not finite in epoch 2, step 2\."):
        fit(Bursting(made.model, made.base_loss), Scripted(0.1, 0.2))


@pytest.mark.parametrize("looks", [1, 50])
def test_overlapped_epoch_has_the_numbers_of_one_step_after_the_other(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Bit for bit, weights and losses."""
    monkeypatch.setitem(loop.LOOKS, "cpu", looks)
    settings = Train(iterations_per_epoch=2, lr=1e-3)
    overlapped, naive = method(), method()
    loop.to_device(overlapped, "cpu")
    loop.to_device(naive, "cpu")
    optimizer = loop.make_optimizer(overlapped, settings)
    found = loop.train_epoch(overlapped, batches(1), optimizer, settings, "cpu", 1)

    optimizer = loop.make_optimizer(naive, settings)
    naive.model.train()
    total = 0.0
    for batch in batches(1):
        loss = naive.loss(batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    assert found == {"loss": total / 2}
    assert same(overlapped.model.state_dict(), naive.model.state_dict())
    assert not same(overlapped.model.state_dict(), method().model.state_dict())


def test_score_that_is_not_finite_is_an_error(fit: Callable[..., loop.State]) -> None:
    with pytest.raises(UserError, match="val_map_at_r is nan after epoch 2"):
        fit(method(), Scripted(0.1, float("nan")))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_full_disk_keeps_the_last_checkpoint(fit: Callable[..., loop.State], tmp_path: Path) -> None:
    fit(method(), Scripted(0.5), max_epochs=1)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / f".checkpoint.pt.{os.getpid()}.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as told:
        fit(method(), Scripted(0.6), max_epochs=2)
    assert told.value.filename == str(tmp_path / "checkpoint.pt")
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert fit(method(), Scripted(0.6), max_epochs=2).best_epoch == 2


def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_gain(
    fit: Callable[..., loop.State],
) -> None:
    for freeze in (True, False):
        made = method(freeze)
        norm = made.model.trunk[1]
        assert isinstance(norm, nn.BatchNorm2d)
        mean, gain = norm.running_mean.clone(), norm.weight.clone()  # type: ignore[union-attr]
        fit(made, Scripted(0.1, 0.2), digest=str(freeze), max_epochs=2)
        assert torch.equal(norm.running_mean, mean) == freeze  # type: ignore[arg-type]
        assert not torch.equal(norm.weight, gain)


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "adamw"])
def test_each_part_has_its_own_rate(optimizer: str) -> None:
    made = method()
    loss = plugins.load("losses", "arcface")
    weights = loss.build(loss.Params(margin=20, scale=16, lr=0.3), 4, 4, torch.Generator())
    settings = Train.model_validate({"optimizer": optimizer, "lr": 0.1, "embedder_lr": 0.2, "momentum": 0.7})
    task = Task(torch.arange(4), ("squares", 0), loss_lr=0.3)
    found = loop.make_optimizer(Plain(made.model, weights, task=task), settings)
    assert {"rmsprop": "RMSprop", "adam": "Adam", "adamw": "AdamW"}[optimizer] == type(found).__name__
    assert [g["lr"] for g in found.param_groups] == [0.1, 0.2, 0.3]
    assert [len(g["params"]) for g in found.param_groups] == [4, 2, 1]
    assert all(g["weight_decay"] == 1e-4 for g in found.param_groups)
    if optimizer == "rmsprop":  # docs/methods.md, section 1
        assert all((g["momentum"], g["alpha"], g["eps"]) == (0.7, 0.99, 1e-8) for g in found.param_groups)
    plain = loop.make_optimizer(made, Train(lr=0.1))
    assert [g["lr"] for g in plain.param_groups] == [0.1, 0.1]
