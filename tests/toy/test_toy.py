"""The toys are a measuring instrument: only scenes change with the correlation, and everything else is keyed by identity."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from bgbias.datasets import toy
from bgbias.photos.table import Item
from bgbias.toy import render, scenes
from bgbias.toy.blueprints import BLUEPRINTS, build
from bgbias.toy.scenes import pool

SMALL = {"size": 32, "train_classes": 2, "val_classes": 1, "test_classes": 2, "photos_per_class": 4}
SPLITS = ("train", "val", "test")


def decoded(data: bytes | None) -> np.ndarray:
    assert data is not None
    return np.array(Image.open(io.BytesIO(data)))


def rendered(correlation: float, **changes: int) -> list[Item]:
    both = {"train_correlation": correlation, "test_correlation": correlation}
    return list(toy.items(toy.Params(**{**SMALL, **both, **changes})))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def by_correlation() -> dict[float, list[Item]]:
    return {c: rendered(c) for c in (0.0, 0.5, 1.0)}


def stands_before_its_own(params: toy.Params, split: str, classes: int, photos: int) -> np.ndarray:
    own = [
        toy.scene_of(params, split, c, n) == (f"{split} classes", c)
        for c in range(classes)
        for n in range(photos)
    ]
    return np.array(own)


def test_masks_and_objects_are_the_same_at_every_correlation(by_correlation: dict[float, list[Item]]) -> None:
    for rows in zip(*by_correlation.values(), strict=True):
        assert len({r.truth for r in rows}) == 1
        mask = decoded(rows[0].truth)
        inside = [decoded(r.data)[mask == 255] for r in rows]
        assert len(inside[0])
        assert all(np.array_equal(inside[0], other) for other in inside)


def test_scenes_do_change_with_the_correlation(by_correlation: dict[float, list[Item]]) -> None:
    assert all(a.data != b.data for a, b in zip(by_correlation[0.0], by_correlation[1.0], strict=True))


@pytest.mark.parametrize("split", SPLITS)
def test_photos_before_their_own_scene_are_nested(split: str) -> None:
    grid = (0.0, 0.25, 0.5, 0.9, 1.0)
    sets = [
        stands_before_its_own(toy.Params(train_correlation=c, test_correlation=c), split, 8, 30) for c in grid
    ]
    assert not sets[0].any()
    assert sets[-1].all()
    assert all((low <= high).all() for low, high in itertools.pairwise(sets))


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlation_is_the_share_of_photos_before_their_own_scene(correlation: float) -> None:
    params = toy.Params(train_correlation=correlation, test_correlation=0)
    count = 40 * 50
    share = stands_before_its_own(params, "train", 40, 50).mean()
    assert abs(share - correlation) < 4 * np.sqrt(correlation * (1 - correlation) / count)


def test_validation_has_the_training_correlation_and_test_its_own() -> None:
    params = toy.Params(train_correlation=1, test_correlation=0)
    assert stands_before_its_own(params, "train", 4, 10).all()
    assert stands_before_its_own(params, "val", 4, 10).all()
    assert not stands_before_its_own(params, "test", 4, 10).any()


def test_a_scene_that_is_not_the_own_does_not_depend_on_the_correlation() -> None:
    low, high = (toy.Params(test_correlation=c) for c in (0.1, 0.6))
    for n in range(100):
        if toy.scene_of(high, "test", 3, n)[0] == "test common":
            assert toy.scene_of(low, "test", 3, n) == toy.scene_of(high, "test", 3, n)


def test_scenes_of_different_roles_are_disjoint() -> None:
    roles = [f"{s} {kind}" for s in SPLITS for kind in ("classes", "common")]
    roles += [f"{s} pool" for s in SPLITS] + ["specimen"]
    noises = [scenes.scene(role, n).cloth.noise.tobytes() for role in roles for n in range(12)]
    assert len(set(noises)) == len(noises)


def test_classes_are_disjoint_between_splits_and_from_specimens() -> None:
    identities = [(0, split, c) for split in SPLITS for c in range(16)] + [
        ("specimen", 0, n) for n in range(16)
    ]
    toys = [render.toy(*i) for i in identities]
    looks = {
        tuple(float(x) for p in t.parts for x in p.centre) + tuple(p.cell for p in t.paints) for t in toys
    }
    assert len(looks) == len(toys)


def test_a_photo_does_not_depend_on_what_was_rendered_before(by_correlation: dict[float, list[Item]]) -> None:
    more = {
        i.image_id.split("/", 1)[1][4:]: i for i in rendered(0.5, photos_per_class=6) if i.split == "test"
    }
    fewer = {i.image_id.split("/", 1)[1][4:]: i for i in by_correlation[0.5] if i.split == "test"}
    assert fewer.keys() <= more.keys()
    assert all((more[k].data, more[k].truth) == (fewer[k].data, fewer[k].truth) for k in fewer)


def test_more_training_classes_leave_the_test_photos_alone(by_correlation: dict[float, list[Item]]) -> None:
    more = [i.data for i in rendered(0.5, train_classes=3) if i.split == "test"]
    assert more == [i.data for i in by_correlation[0.5] if i.split == "test"]


def test_photos_of_one_scene_differ() -> None:
    own = scenes.scene("test classes", 0)
    first, second = (scenes.photograph(own, scenes.glance(0, "test", 0, n), 32) for n in range(2))
    assert np.abs(first - second).mean() > 0.01


def test_a_photo_is_its_object_over_its_shadowed_scene() -> None:
    shot = render.shoot(render.toy(0, "test", 1), render.pose(0, "test", 1, 2), 48)
    backdrop = scenes.photograph(scenes.scene("test common", 5), scenes.glance(0, "test", 1, 2), 48)
    photo, mask = render.expose(shot, backdrop).astype(float), render.mask_pixels(shot)
    shaded = backdrop * shot.light[..., None] * 255
    assert np.abs(photo - shaded)[mask == 0].max() <= 0.5 + 1e-3
    assert np.abs(photo - shot.colour * 255)[mask == 255].max() <= 0.5 + 1e-3
    share = mask[..., None] / 255
    assert np.abs(photo - share * shot.colour * 255 - (1 - share) * shaded).max() <= 0.51
    assert ((mask > 0) & (mask < 255)).any()  # soft edges


@pytest.mark.parametrize("kind", sorted(BLUEPRINTS))
def test_every_object_is_large_and_inside_the_picture(kind: str) -> None:
    made = render.toy("any", kind)
    rng = np.random.default_rng(0)
    shot = render.shoot(
        render.Toy(kind, tuple(build(kind, rng)), made.paints, made.gloss), render.pose("any", kind), 48
    )
    assert 0.12 < shot.mask.mean() < 0.55
    border = np.concatenate([shot.mask[0], shot.mask[-1], shot.mask[:, 0], shot.mask[:, -1]])
    # A tip may touch the frame; nothing is cut off.
    assert border.mean() < 0.02


def test_items_are_numbered_and_keyed(by_correlation: dict[float, list[Item]]) -> None:
    rows = by_correlation[0.0]
    assert len({r.image_id for r in rows}) == len(rows) == 5 * 4
    for split in SPLITS:
        part = [r for r in rows if r.split == split]
        assert [r.key_item for r in part] == [str(k) for k in range(len(part))]
        assert {r.key_set for r in part} == {f"toy|{split}"}
    assert sorted({r.label for r in rows}) == [0, 1, 2, 3, 4]
    assert toy.parts(toy.Params()) == {}


def test_pools_are_named_sized_and_extend() -> None:
    few, more = dict(pool("train", 2, 24)), dict(pool("train", 4, 24))
    assert list(few) == ["toy_train_000", "toy_train_001"]
    assert all(p.shape == (24, 24, 3) and p.dtype == np.uint8 for p in more.values())
    assert all(np.array_equal(few[k], more[k]) for k in few)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_pixel_is_the_mean_of_its_samples_to_the_bit(kind: type[np.floating]) -> None:
    samples = np.random.default_rng(0).random((3, (2 * 31) ** 2)).astype(kind)
    grid = samples.reshape(3, 31, 2, 31, 2)
    assert np.array_equal(scenes.pixels(samples, 31), grid.mean(axis=(2, 4), dtype=np.float32))


def test_specimens_are_photos_with_masks() -> None:
    photos, masks = render.specimens(3, 32, seed=1)
    assert photos.shape == (3, 32, 32, 3)
    assert masks.shape == (3, 32, 32)
    assert photos.dtype == masks.dtype == np.uint8
    assert np.array_equal(photos, render.specimens(3, 32, seed=1)[0])
