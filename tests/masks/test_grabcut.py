"""GrabCut finds the edges that a map does not know, and only there where the map points."""

import numpy as np

from bgbias.masks.grabcut import brightest, darkest, segment
from bgbias.masks.maskers import grabcut

DISC = np.pi * 16**2 / 64**2
HOW = {"area": DISC, "sure": 0.33, "rounds": 5}


def photo() -> tuple[np.ndarray, np.ndarray]:
    """A red disc before blue-green noise, uint8 [64, 64, 3], and where the disc is."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:64, :64]
    disc = (rows - 30) ** 2 + (columns - 36) ** 2 < 16**2
    base = np.where(disc[..., None], (200, 40, 40), (40, 120, 140))
    return (base + random.integers(-25, 26, (64, 64, 3))).astype(np.uint8), disc


def blob(row: float, column: float, width: float) -> np.ndarray:
    rows, columns = np.mgrid[:64, :64]
    return np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * width**2))


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())


def test_a_rough_map_becomes_the_object_though_its_area_is_known_roughly() -> None:
    picture, disc = photo()
    for factor in (0.5, 2):
        assert iou(segment(picture, blob(32, 34, 9), factor * DISC, 0.33, 5), disc) > 0.9
    rough = blob(36, 30, 9)
    assert iou(brightest(rough, DISC), disc) < 0.65
    found = segment(picture, rough, **HOW)
    assert iou(found, disc) > 0.97
    # A map with many zeros, and one with another spread, find the same.
    assert iou(segment(picture, np.maximum(rough - 0.4, 0), **HOW), disc) > 0.97
    assert np.array_equal(segment(picture, rough**3, **HOW), found)


def test_what_is_certain_stays() -> None:
    picture, _ = photo()
    # A map that decreases from left to right: it is sure of the left, where there is only background.
    seen = 1 - np.arange(64) / 64 * np.ones((64, 1))
    found = segment(picture, seen, 0.5, 0.4, 5)
    assert found[:, :12].all()
    assert not found[:, 52:].any()
    assert darkest(seen, brightest(seen, 0.5), 0.4).sum() == round(0.4 * 64 * 32)
    for value in (0.0, 0.6):  # a map without two sides is its own answer
        assert (segment(picture, np.full((64, 64), value), **HOW) == (value > 0)).all()


def test_a_masker_of_the_middle_finds_what_stands_there_at_any_size() -> None:
    picture, disc = photo()
    large, plain = np.kron(picture, np.ones((9, 8, 1), np.uint8)), np.full((50, 80, 3), 90, np.uint8)
    make = grabcut.build(grabcut.Params(), "cpu")
    found, again = make([picture, large, plain]), make([plain, large, picture])[::-1]
    assert iou(found[0].alpha > 127, disc) > 0.97
    assert iou(found[1].alpha > 127, np.kron(disc, np.ones((9, 8), bool))) > 0.95
    assert (found[2].alpha[25, 40], found[2].alpha[[0, -1]].max()) == (255, 0)  # of one colour: its middle
    assert all(np.array_equal(a.alpha, b.alpha) for a, b in zip(found, again, strict=True))
    assert {int(grey) for mask in found for grey in np.unique(mask.alpha)} == {0, 255}
