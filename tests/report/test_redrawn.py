"""Published figures beside those of now: another processor's rounding is no difference, another colour of one mark is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from bgbias.report import redrawn


def picture(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def test_a_few_pixels_of_an_edge_are_no_difference_and_a_mark_is(tmp_path: Path) -> None:
    published = np.full((40, 60, 3), 255, np.uint8)
    published[10:18, 10:18] = 200, 100, 40
    rounded, repainted, larger = (
        published.copy(),
        published.copy(),
        np.pad(published, ((0, 1), (0, 0), (0, 0))),
    )
    rounded[::3] -= 10
    rounded[9, 10:18] = 150
    repainted[10:18, 10:18] = 40, 100, 200
    one = picture(tmp_path / "published.png", published)
    assert redrawn.alike(one, picture(tmp_path / "rounded.png", rounded))
    assert not redrawn.alike(one, picture(tmp_path / "repainted.png", repainted))
    assert not redrawn.alike(one, picture(tmp_path / "larger.png", larger))
