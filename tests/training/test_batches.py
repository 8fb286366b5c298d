"""Batches hold what the loss asked for, and methods with one seed see the same photos in the same crops."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.training.batches import Epochs, TrainingPhotos, sample
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

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


def test_classes_and_photos_are_drawn_uniformly() -> None:
    rows = sample(LABELS, 8, 4, 5000, seeds.generator("sample"))
    chosen = LABELS[rows.reshape(-1, 2, 4)[:, :, 0]]
    assert np.abs(np.bincount(chosen.ravel()) / 10_000 - 0.1).max() < 0.015
    first = np.bincount(rows[LABELS[rows] == 0])
    assert np.abs(first / first.sum() - 1 / 6).max() < 0.02


def test_batches_drawn_as_one_have_twice_the_photos_and_classes(folder: Path) -> None:
    settings = Train(batch_size=4, iterations_per_epoch=3)
    photos = training(folder, True, True)
    for batches, classes in ((1, 2), (2, 4)):
        for batch in Epochs(photos, ("squares", 0), settings, 2, batches).batches(1):
            assert (len(batch.images), len(batch.labels.unique())) == (2 * classes, classes)
    wide = Epochs(photos, ("squares", 0), Train(batch_size=6), 2, 2)
    with pytest.raises(
        UserError, match=r"A batch of 12 .* needs 6 classes; training has 5\. .* to at most 4 "
    ):
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
    photos: TrainingPhotos, key: tuple[object, ...] = ("squares", 0, 1), m: int = 2, steps: int = 4
) -> list[Batch]:
    *of_training, number = key
    settings = Train(batch_size=8, iterations_per_epoch=steps)
    return list(Epochs(photos, tuple(of_training), settings, m).batches(number))  # type: ignore[arg-type]


def test_every_method_sees_the_same_photos_in_the_same_crops(folder: Path) -> None:
    plain, cured, masked = (
        epoch(training(folder, *has)) for has in ((False, False), (True, True), (True, False))
    )
    for a, b, c in zip(plain, cured, masked, strict=True):
        assert torch.equal(a.index, b.index)
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.images, c.images)
        assert (a.masks, a.backgrounds, c.backgrounds) == (None, None, None)
        assert torch.equal(b.masks, c.masks)  # type: ignore[arg-type]


def test_masks_follow_their_photos_crop(folder: Path) -> None:
    for batch in epoch(training(folder, True, False), steps=30):
        for photo, mask, row in zip(batch.images, batch.masks, batch.index.tolist(), strict=True):  # type: ignore[arg-type]
            if row in (3, 4):  # without a trusted mask everything is foreground: the background stays
                assert (mask == 1).all()
            else:
                assert torch.allclose(mask[0] * 255, photo[0].float(), atol=1e-4)


def test_backgrounds_come_from_the_whole_pool_with_replacement(folder: Path) -> None:
    batches = epoch(training(folder, True, True), steps=100)
    seen = torch.cat([b.backgrounds[:, 0, 0, 0] for b in batches]).tolist()  # type: ignore[index]
    assert set(seen) == {10 * n for n in range(20)}
    assert np.bincount(np.array(seen) // 10).max() < 80  # 40 expected


def test_epochs_seeds_and_datasets_differ_and_a_step_does_not_depend_on_those_before(folder: Path) -> None:
    photos = training(folder, False, False)
    first = epoch(photos)
    assert torch.equal(first[2].images, epoch(photos, steps=3)[2].images)
    for key in (("squares", 0, 2), ("squares", 1, 1), ("birds", 0, 1)):
        assert not torch.equal(first[0].images, epoch(photos, key)[0].images)


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
