"""The toys are a measuring instrument: only scenes change with the correlation, and everything else is keyed by identity."""

import itertools

import numpy as np
import pytest

from bgbias.datasets import toy
from bgbias.images import pixels
from bgbias.photos.table import Item
from bgbias.toy import render, scenes
from bgbias.toy.blueprints import BLUEPRINTS, build

SMALL = {"size": 32, "train_classes": 2, "val_classes": 1, "test_classes": 2, "photos_per_class": 3}
SPLITS = ("train", "val", "test")


def rendered(correlation: float, **changes: int) -> list[Item]:
    both = {"train_correlation": correlation, "test_correlation": correlation}
    return list(toy.items(toy.Params(**{**SMALL, **both, **changes})))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def by_correlation() -> dict[float, list[Item]]:
    return {c: rendered(c) for c in (0.0, 0.5, 1.0)}


def test_masks_and_objects_are_the_same_at_every_correlation(by_correlation: dict[float, list[Item]]) -> None:
    for rows in zip(*by_correlation.values(), strict=True):
        assert len({r.truth for r in rows}) == 1
        mask = pixels.decode(rows[0].truth, "mask", "L")  # type: ignore[arg-type]
        inside = [pixels.decode(r.data, "photo")[mask == 255] for r in rows]
        assert len(inside[0])
        assert all(np.array_equal(inside[0], other) for other in inside)
        assert rows[0].data != rows[-1].data  # scenes do change


def test_photos_before_their_own_scene_are_nested_and_their_share_is_the_correlation() -> None:
    grid, count = (0.0, 0.1, 0.5, 0.9, 1.0), 30 * 40
    params = [toy.Params(train_correlation=c, test_correlation=1 - c) for c in grid]
    photos = list(itertools.product(range(30), range(40)))
    for split in SPLITS:  # validation has the training correlation, and test its own
        sets = [
            np.array([toy.scene_of(p, split, c, n) == (f"{split} classes", c) for c, n in photos])
            for p in (params[::-1] if split == "test" else params)
        ]
        for correlation, own in zip(grid, sets, strict=True):
            assert abs(own.mean() - correlation) <= 4 * np.sqrt(correlation * (1 - correlation) / count)
        assert all((low <= high).all() for low, high in itertools.pairwise(sets))
    # One that is not the own does not depend on the correlation.
    for n in range(100):
        low, high = (toy.scene_of(p, "test", 3, n) for p in (params[2], params[1]))
        assert low == high or high[0] == "test classes"


def test_scenes_of_different_roles_classes_and_specimens_are_disjoint() -> None:
    roles = [f"{s} {kind}" for s in SPLITS for kind in ("classes", "common", "pool")] + ["specimen"]
    noises = [scenes.scene(role, n).cloth.noise.tobytes() for role in roles for n in range(12)]
    kinds = [*((0, split) for split in SPLITS), ("specimen", 0)]
    toys = [render.toy(*kind, n) for kind in kinds for n in range(16)]
    looks = [(*(p.centre.tobytes() for p in t.parts), *(p.cell for p in t.paints)) for t in toys]
    assert len({*noises, *looks}) == len(noises) + len(looks)


def test_more_photos_and_classes_leave_the_others_alone(by_correlation: dict[float, list[Item]]) -> None:
    def of_test(items: list[Item]) -> dict[str, tuple[bytes, bytes | None]]:
        return {i.image_id.split("_", 1)[1]: (i.data, i.truth) for i in items if i.split == "test"}

    fewer = of_test(by_correlation[0.5])
    for changes in ({"photos_per_class": 5}, {"train_classes": 3}):
        more = of_test(rendered(0.5, **changes))
        assert fewer == {name: more[name] for name in fewer}


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
    shown = render.Toy(kind, tuple(build(kind, rng)), made.paints, made.gloss)
    shot = render.shoot(shown, render.pose("any", kind), 48)
    assert 0.12 < shot.mask.mean() < 0.55
    border = np.concatenate([shot.mask[0], shot.mask[-1], shot.mask[:, 0], shot.mask[:, -1]])
    # A tip may touch the frame; nothing is cut off.
    assert border.mean() < 0.02


def test_items_are_numbered_and_keyed(by_correlation: dict[float, list[Item]]) -> None:
    rows = by_correlation[0.0]
    assert len({r.image_id for r in rows}) == len(rows) == 5 * 3
    for split in SPLITS:
        part = [r for r in rows if r.split == split]
        assert [r.key_item for r in part] == [str(k) for k in range(len(part))]
        assert {r.key_set for r in part} == {f"toy|{split}"}
    assert sorted({r.label for r in rows}) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_pixel_is_the_mean_of_its_samples_to_the_bit(kind: type[np.floating]) -> None:
    samples = np.random.default_rng(0).random((3, (2 * 31) ** 2)).astype(kind)
    grid = samples.reshape(3, 31, 2, 31, 2)
    assert np.array_equal(scenes.pixels(samples, 31), grid.mean(axis=(2, 4), dtype=np.float32))
