"""Backgrounds that tell the class are found out by something that has learned nothing; others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bgbias
from bgbias.results import background_baseline
from tests.support import toy_folder


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


@pytest.mark.parametrize(("correlation", "found"), [(1.0, True), (0.0, False)])
def test_it_is_found_where_it_is(tmp_path: Path, correlation: float, found: bool) -> None:
    toy_folder.made(tmp_path, correlation, classes=8, per_class=8)
    audit = bgbias.audit(
        tmp_path / "photos", colours, masks=tmp_path / "masks", size=64, resize=64, attribution=0, draws=1
    )
    leak = audit.numbers["background_alone"]
    assert (leak["low"] > 0) == found
    assert 0 < leak["by_chance"] < 0.2


def disc(side: int = 96, radius: float = 0.25) -> np.ndarray:
    rows, columns = np.mgrid[:side, :side] / side - 0.5
    return np.where(np.hypot(rows, columns) < radius, np.uint8(255), np.uint8(0))


def test_what_lies_under_the_mask_and_its_shape_count_for_nothing() -> None:
    wall = np.random.default_rng(0).integers(90, 160, (96, 96, 3), np.uint8)
    mug, tree = wall.copy(), wall.copy()
    mug[disc() > 0], tree[disc() > 0] = (250, 10, 10), (10, 250, 10)
    np.testing.assert_array_equal(
        background_baseline.describe_background(mug, disc()),
        background_baseline.describe_background(tree, disc()),
    )
    large = background_baseline.describe_background(
        wall, disc(radius=0.4)
    ) @ background_baseline.describe_background(wall, disc(radius=0.1))
    assert large > 0.98
    other = np.random.default_rng(1).integers(0, 60, (96, 96, 3), np.uint8)
    assert (
        background_baseline.describe_background(wall, disc())
        @ background_baseline.describe_background(other, disc())
        < 0.7
    )


def test_pictures_that_differ_by_colour_or_by_edges_differ() -> None:
    red, green = (np.full((96, 96, 3), colour, np.uint8) for colour in ((200, 30, 30), (30, 200, 30)))
    stripes = red.copy()
    stripes[::8] = 0
    pictures = (red, red - 1, green, stripes, stripes.transpose(1, 0, 2))
    vectors = np.stack(
        [background_baseline.describe_background(np.ascontiguousarray(p), disc()) for p in pictures]
    )
    near = vectors @ vectors[0]
    assert near[1] > near[2:].max()
    assert vectors[3] @ vectors[4] < 0.9
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    covered = background_baseline.describe_background(red, np.full((96, 96), 255, np.uint8))
    np.testing.assert_allclose(np.linalg.norm(covered), 1, rtol=1e-6)


def test_one_wall_behind_everything_tells_nothing_and_harms_nothing(tmp_path: Path) -> None:
    toy_folder.made(tmp_path, classes=6, per_class=5)
    for file in (tmp_path / "photos").rglob("*.png"):
        mask = np.asarray(Image.open(tmp_path / "masks" / file.relative_to(tmp_path / "photos")).convert("L"))
        photo = np.asarray(Image.open(file).convert("RGB")).copy()
        photo[mask == 0] = 255
        Image.fromarray(photo).save(file)
    audit = bgbias.audit(
        tmp_path / "photos", colours, masks=tmp_path / "masks", size=64, resize=64, attribution=0, draws=1
    )
    assert not audit.numbers["background_alone"]["low"] > 0
