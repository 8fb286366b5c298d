"""Backgrounds that tell the class are found out by something that has learned nothing; others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bgbias
from bgbias.auditing import leak
from tests.support import toy_folder


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.mean((0, 1)) for photo in batch]


@pytest.mark.parametrize(("correlation", "found"), [(1.0, True), (0.0, False)])
def test_it_is_found_where_it_is(tmp_path: Path, correlation: float, found: bool) -> None:
    toy_folder.made(tmp_path, correlation, classes=8, per_class=8)
    audit = bgbias.audit(
        tmp_path / "photos", colours, masks=tmp_path / "masks", size=64, resize=64, attribution=0, draws=1
    )
    assert audit.leak is not None
    assert audit.leak.found == found
    assert 0 < audit.leak.by_chance < 0.2


def test_pictures_that_differ_by_colour_or_by_edges_differ() -> None:
    red, green = (np.full((80, 80, 3), colour, np.uint8) for colour in ((200, 30, 30), (30, 200, 30)))
    stripes = red.copy()
    stripes[::4] = 0
    turned = stripes.transpose(1, 0, 2)
    vectors = leak.standardised(np.stack([leak.described(p) for p in (red, red + 1, green, stripes, turned)]))
    near = vectors @ vectors[0]
    assert near[1] > near[2:].max()
    assert vectors[3] @ vectors[4] < 0.999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
