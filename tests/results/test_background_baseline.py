"""Backgrounds that tell the class are found out by something that has learned nothing; others are not."""

import numpy as np
from in_memory import Pictures, table

from bgbias.datasets import toy
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images import pixels
from bgbias.results.background_baseline import describe_background, measure_leak


def toys(correlation: float, one_wall: bool) -> EvaluationPhotos:
    """Toys of six classes with their true masks; ``one_wall``: all of them before white."""
    params = toy.Params(
        test_correlation=correlation, train_classes=1, val_classes=1, test_classes=6, photos_per_class=6
    )
    items = [item for item in toy.items(params) if item.split == "test"]
    photos = {item.image_id: pixels.decode(item.data, item.image_id) for item in items}
    masks = {item.image_id: pixels.decode(item.truth or b"", item.image_id)[..., 0] for item in items}
    if one_wall:
        photos = {name: np.where(masks[name][..., None], of, np.uint8(255)) for name, of in photos.items()}
    classes = sorted({item.class_name for item in items})
    labels = {item.image_id: classes.index(item.class_name) for item in items}
    return EvaluationPhotos(table(labels), Pictures(photos), 64, Pictures(masks), frozenset(labels))  # type: ignore[arg-type]


def test_it_is_found_where_it_is_and_one_wall_harms_nothing() -> None:
    for correlation, one_wall, found in ((1.0, False, True), (0.0, False, False), (0.0, True, False)):
        leak = measure_leak(toys(correlation, one_wall))
        assert leak is not None
        assert leak.found == (leak.more.low > 0) == found
        assert 0 < leak.by_chance < 0.3


def disc(radius: float = 0.25) -> np.ndarray:
    rows, columns = np.mgrid[:96, :96] / 96 - 0.5
    return np.where(np.hypot(rows, columns) < radius, np.uint8(255), np.uint8(0))


def test_what_lies_under_the_mask_and_its_shape_count_for_nothing() -> None:
    wall = np.random.default_rng(0).integers(90, 160, (96, 96, 3), np.uint8)
    mug, tree = wall.copy(), wall.copy()
    mug[disc() > 0], tree[disc() > 0] = (250, 10, 10), (10, 250, 10)
    np.testing.assert_array_equal(describe_background(mug, disc()), describe_background(tree, disc()))
    large, small = (describe_background(wall, disc(radius)) for radius in (0.4, 0.1))
    assert large @ small > 0.98


def test_pictures_that_differ_by_colour_or_by_edges_differ() -> None:
    red, green = (np.full((96, 96, 3), colour, np.uint8) for colour in ((200, 30, 30), (30, 200, 30)))
    stripes = red.copy()
    stripes[::8] = 0
    pictures = (red, red - 1, green, stripes, stripes.transpose(1, 0, 2))
    vectors = np.stack([describe_background(np.ascontiguousarray(p), disc()) for p in pictures])
    near = vectors @ vectors[0]
    assert near[1] > near[2:].max()
    assert vectors[3] @ vectors[4] < 0.9
    covered = describe_background(red, np.full((96, 96), 255, np.uint8))
    np.testing.assert_allclose(np.linalg.norm([*vectors, covered], axis=1), 1, rtol=1e-6)
