"""Batches hold what the loss asked for; training stops and picks by the rule, and refuses what it cannot go on with."""

import itertools
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitting import SETTINGS, batch, method, model, same, weights
from small_study import history
from torch import Tensor

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.models.model import EmbeddingModel
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.training import loop
from bgbias.training.batches import Epochs, TrainingPhotos, sample
from bgbias.training.methods import BaseMethod, Batch
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


def batches(epoch: int) -> Iterator[Batch]:
    yield from (batch(10 * epoch + step) for step in range(2))


def fit(folder: Path, made: BaseMethod, scores: Scripted, digest: str = "d", **settings: Any) -> loop.State:
    chosen = {"iterations_per_epoch": 2, "lr": 1e-3, "max_epochs": 10, "patience": 3, **settings}
    paths = folder / "checkpoint.pt", folder / "history.csv"
    return loop.fit(made, batches, scores, "val_map_at_r", Train(**chosen), *paths, digest)


def test_stops_when_patience_is_used_up_and_keeps_the_best(tmp_path: Path) -> None:
    """An equal score is no improvement. Killed before the model is written, it is not trained further."""
    made, validate = method("plain"), Scripted(0.1, 0.3, 0.2, 0.3, 0.25, 0.9)
    state = fit(tmp_path, made, validate)
    assert (state.epoch, state.best_epoch, state.best_score) == (5, 2, 0.3)
    assert same(made.model.state_dict(), validate.seen[1])
    assert not same(made.model.state_dict(), validate.seen[4])
    assert not made.model.training
    again, unasked = method("plain"), Scripted()
    assert fit(tmp_path, again, unasked).best_epoch == 2
    assert unasked.seen == []
    assert same(again.model.state_dict(), made.model.state_dict())


@pytest.mark.parametrize(
    ("wrong", "words"), [("digest", "other settings"), ("bytes", "is damaged"), ("content", "is damaged")]
)
def test_checkpoint_that_cannot_be_continued_is_told_and_training_starts_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, words: str
) -> None:
    path, scores = tmp_path / "checkpoint.pt", (0.1, 0.2, 0.3)
    fit(tmp_path, method("plain"), Scripted(0.5, 0.6), max_epochs=2)
    if wrong == "bytes":
        path.write_bytes(path.read_bytes()[:-500])
    elif wrong == "content":
        torch.save({"something": "else"}, path)
    other, fresh = method("plain"), method("plain")
    state = fit(tmp_path, other, Scripted(*scores), "other" if wrong == "digest" else "d", max_epochs=3)
    assert re.search(f"{words}.*; starting from the first epoch", capsys.readouterr().err)
    assert [row["epoch"] for row in state.history] == [1, 2, 3]
    fit(tmp_path, fresh, Scripted(*scores), digest="fresh", max_epochs=3)
    assert same(other.model.state_dict(), fresh.model.state_dict())


@pytest.mark.parametrize("looks", [1, 50])
def test_loss_or_score_that_is_not_finite_is_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Also if losses are looked at seldom, as on a GPU: after more steps than the epoch has."""
    monkeypatch.setitem(loop.LOOKS, "cpu", looks)
    made, steps = method("plain"), itertools.count(1)
    usual = made.loss
    made.loss = lambda batch: {"loss": usual(batch)["loss"] * (math.inf if next(steps) == 4 else 1)}
    with pytest.raises(UserError, match=r"not finite in epoch 2, step 2\. Lower train\.lr \(now 0\.001\)"):
        fit(tmp_path, made, Scripted(0.1, 0.2))
    assert [row["epoch"] for row in history(tmp_path / "history.csv")] == ["1"]
    with pytest.raises(UserError, match="val_map_at_r is nan after epoch 2"):
        fit(tmp_path, method("plain"), Scripted(math.nan))
    with pytest.raises(ValueError, match="needs passes"):
        fit(tmp_path, method("gained"), Scripted(), digest="another")


def test_overlapped_epoch_has_the_numbers_of_one_step_after_the_other() -> None:
    """Bit for bit, weights and losses."""
    settings = Train(iterations_per_epoch=2, lr=1e-3)
    overlapped, naive = method("plain"), method("plain")
    for made in (overlapped, naive):
        loop.to_device(made, "cpu")
    optimizer = loop.make_optimizer(overlapped, settings)
    found = loop.train_epoch(overlapped, batches(1), optimizer, settings, "cpu", 1)

    optimizer, total = loop.make_optimizer(naive, settings), 0.0
    for given in batches(1):
        loss = naive.loss(given)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    assert found == {"loss": total / 2}
    assert same(weights(overlapped), weights(naive))
    assert not same(weights(overlapped), weights(method("plain")))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_full_disk_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    """Torch's own writer does not say that the disk is full."""
    fit(tmp_path, method("plain"), Scripted(0.5), max_epochs=1)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / f".checkpoint.pt.{os.getpid()}.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        fit(tmp_path, method("plain"), Scripted(0.6), max_epochs=2)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "adamw"])
def test_each_part_has_its_own_rate(optimizer: str) -> None:
    settings = Train.model_validate({"optimizer": optimizer, "lr": 0.1, "embedder_lr": 0.2, "momentum": 0.7})
    found = loop.make_optimizer(method("plain", "arcface"), settings)
    assert type(found).__name__.lower() == optimizer
    assert [g["lr"] for g in found.param_groups] == [0.1, 0.2, SETTINGS["arcface"]["lr"]]
    assert [len(g["params"]) for g in found.param_groups] == [4, 2, 1]
    assert all(g["weight_decay"] == 1e-4 for g in found.param_groups)
    if optimizer == "rmsprop":  # docs/methods.md, section 1
        assert all((g["momentum"], g["alpha"], g["eps"]) == (0.7, 0.99, 1e-8) for g in found.param_groups)


def test_what_is_frozen_stays_and_all_else_learns(tmp_path: Path) -> None:
    """Weight decay would move what gets no gradient, too."""
    nets = [model(backbone="resnet18", weights=None) for _ in range(2)]
    made, before = method("plain", net=nets[0]), dict(nets[1].named_parameters())
    statistics = {k: v.clone() for k, v in made.model.named_buffers()}
    frozen = ("conv1", "bn1", "layer1", "layer2.0.conv1")
    fit(tmp_path, made, Scripted(0.1), max_epochs=1, weight_decay=0.5, optimizer="adamw", frozen=frozen)
    stays = {name for name in before if name.startswith(tuple(f"trunk.{part}." for part in frozen))}
    same = {name for name, value in made.model.named_parameters() if torch.equal(value, before[name])}
    assert same == stays != set()
    assert all(torch.equal(v, statistics[k]) for k, v in made.model.named_buffers())  # freeze_batch_norm
    # `layer` is no part, though names begin with it; `relu` has nothing to freeze.
    for part in ("layer", "relu"):
        words = rf"train.frozen: resnet18 has no part '{part}' .* layer1, layer2"
        with pytest.raises(UserError, match=words):
            loop.freeze(made.model.trunk, ["layer1", part], "resnet18")


# Batches.

LABELS = np.repeat(np.arange(10), [6, 6, 6, 6, 6, 6, 6, 6, 4, 2])


@pytest.mark.parametrize(("m", "size"), [(1, 8), (4, 40)])
def test_batches_hold_m_photos_of_distinct_classes(m: int, size: int) -> None:
    """Which repeat in the last class alone, of which there are too few, and need no labels from 0."""
    rows = sample(LABELS, size, m, 200, seeds.generator("sample", m))
    assert (rows.shape, rows.dtype) == ((200, size), np.int64)
    for row in rows:
        labels, counts = np.unique(LABELS[row], return_counts=True)
        assert len(labels) == size // m
        assert (counts == m).all()
        assert all(len({*row[LABELS[row] == c]}) == m for c in labels if c != 9)
    assert (rows == sample(LABELS * 7 + 3, size, m, 200, seeds.generator("sample", m))).all()
    assert set(np.unique(rows)) == set(range(len(LABELS)))
    # Classes, and photos within them, are drawn uniformly.
    rows = sample(LABELS, 8, 4, 5000, seeds.generator("sample"))
    chosen = LABELS[rows[:, ::4]]
    assert np.abs(np.bincount(chosen.ravel()) / 10_000 - 0.1).max() < 0.015
    first = np.bincount(rows[LABELS[rows] == 0])
    assert np.abs(first / first.sum() - 1 / 6).max() < 0.02


def test_batches_drawn_as_one_have_twice_the_photos_and_classes(folder: Path) -> None:
    settings = Train(batch_size=4, iterations_per_epoch=3)
    photos = training(folder, True, True)
    for batches, classes in ((1, 2), (2, 4)):
        for drawn in Epochs(photos, ("squares", 0), settings, 2, batches).batches(1):
            assert (len(drawn.images), len(drawn.labels.unique())) == (2 * classes, classes)
    wide = Epochs(photos, ("squares", 0), Train(batch_size=6), 2, 2)
    with pytest.raises(UserError, match=r"A batch of 12 .* needs 6 classes; training has 5\. .* at most 4 "):
        list(wide.batches(1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten photos of five classes; a mask is its photo's first channel; 3 and 4 have none to trust."""
    with writing(tmp_path / "photos.zip") as photos, writing(tmp_path / "masks.zip") as masks:
        for n in range(10):
            array = seeds.generator("photo", n).integers(0, 256, (40, 30 + 5 * n, 3), dtype=np.uint8)
            photos.add(f"{n}.png", pixels.encode_png(array))
            if n != 3:
                masks.add(f"{n}.png", pixels.encode_png(array[..., 0]))
    return tmp_path


def training(folder: Path, masks: bool, pool: bool, name: str = "photos.zip") -> TrainingPhotos:
    rows = [[f"{n}.png", 100 + n // 2, "c", "train", "k", str(n)] for n in range(10)]
    backgrounds = [np.full((50, 40 + n, 3), 10 * n, np.uint8) for n in range(20)]
    return TrainingPhotos(
        ImageTable(pd.DataFrame(rows, columns=list(COLUMNS))),
        picture_cache.pictures(folder / name, 32, folder / "prepared"),
        24,
        picture_cache.pictures(folder / "masks.zip", 32, folder / "prepared", "L") if masks else None,
        frozenset(f"{n}.png" for n in range(10) if n not in (3, 4)) if masks else frozenset(),
        backgrounds if pool else None,
    )


def epoch(
    photos: TrainingPhotos, dataset: str = "squares", seed: int = 0, number: int = 1, steps: int = 1
) -> list[Batch]:
    settings = Train(batch_size=8, iterations_per_epoch=steps)
    return list(Epochs(photos, (dataset, seed), settings, 2).batches(number))


def test_every_method_sees_the_same_photos_whose_masks_follow_their_crop(folder: Path) -> None:
    """Backgrounds come from the whole pool, with replacement; without a trusted mask everything is foreground."""
    plain, cured, masked = (
        epoch(training(folder, *has), steps=100) for has in ((False, False), (True, True), (True, False))
    )
    seen = list[int]()
    for a, b, c in zip(plain, cured, masked, strict=True):
        assert torch.equal(a.index, b.index)
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.images, c.images)
        assert (a.masks, a.backgrounds, c.backgrounds) == (None, None, None)
        assert torch.equal(b.masks, c.masks)  # type: ignore[arg-type]
        for photo, mask, row in zip(b.images, b.masks, b.index.tolist(), strict=True):  # type: ignore[arg-type]
            expected = torch.ones(24, 24) if row in (3, 4) else photo[0] / 255
            assert torch.allclose(mask[0], expected, atol=1e-6)
        seen += b.backgrounds[:, 0, 0, 0].tolist()  # type: ignore[index]
    assert set(seen) == {10 * n for n in range(20)}
    assert np.bincount(np.array(seen) // 10).max() < 80  # 40 expected
    # Epochs, seeds and datasets differ, and a step does not depend on those before.
    for other in ({"number": 2}, {"seed": 1}, {"dataset": "birds"}):
        assert not torch.equal(plain[0].images, epoch(training(folder, False, False), **other)[0].images)  # type: ignore[arg-type]
    assert torch.equal(plain[2].images, epoch(training(folder, False, False), steps=3)[2].images)


def test_a_pass_shows_every_photo_once_in_an_order_of_its_own(folder: Path) -> None:
    photos = training(folder, True, True)
    epochs = Epochs(photos, ("squares", 0), Train(crop_scale=(0.5, 1.0), crop_ratio=(1.0, 1.0)), 4)
    first, again, later, other = (
        list(epochs.passes(number, name, 4)) for number, name in ((1, "x"), (1, "x"), (2, "x"), (1, "y"))
    )
    rows = [torch.cat([b.index for b in batches]).tolist() for batches in (first, again, later, other)]
    assert sorted(rows[0]) == list(range(10))
    assert [len(b.index) for b in first] == [4, 4, 2]
    assert rows[0] == rows[1]
    assert len({*map(tuple, rows)}) == 3
    for a, b in zip(first, again, strict=True):
        assert all(torch.equal(getattr(a, k), getattr(b, k)) for k in ("images", "masks", "backgrounds"))
        assert torch.equal(a.labels, a.index // 2)


def test_mask_of_another_size_is_an_error(folder: Path) -> None:
    with writing(folder / "turned.zip") as photos:
        for n in range(10):
            photos.add(f"{n}.png", pixels.encode_png(np.zeros((30 + 5 * n, 42, 3), np.uint8)))
    with pytest.raises(UserError, match=r"The mask of '\d\.png' is .* its photo .*; remake the masks"):
        epoch(training(folder, True, False, "turned.zip"))
