"""Second shots and photos of one group are no evidence of their own: an audit says what it says without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import bgbias
from tests.support import toy_folder
from tests.support.collected import collect

HOW: dict[str, Any] = {
    "masks": "masks",
    "backgrounds": "walls",
    "size": 64,
    "resize": 64,
    "name": "shop",
    "attribution": 0,
    "draws": 1,
}


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    """Mean colours of a grid of eight by eight: object and background alike."""
    return [photo.reshape(8, 8, 8, 8, 3).mean((1, 3)).ravel() - 100 for photo in batch]


def add_second_shots(folder: Path) -> list[str]:
    """Beside each photo the same once more, cropped by a pixel and saved with quality 60; their names."""
    names = []
    for file in sorted((folder / "photos").rglob("*.png")):
        second = file.with_name(f"{file.stem}_again.jpg")
        Image.open(file).crop((1, 1, *Image.open(file).size)).save(second, quality=60)
        mask = Image.open(folder / "masks" / file.relative_to(folder / "photos"))
        mask.crop((1, 1, *mask.size)).save(
            folder / "masks" / second.relative_to(folder / "photos").with_suffix(".png")
        )
        names.append(str(second.relative_to(folder / "photos")))
    return names


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight classes of three photos each, whose scenes say nothing of their class."""
    toy_folder.made(tmp_path, correlation=0.0, classes=8, per_class=3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_second_shots_change_no_number_and_are_counted(shop: Path) -> None:
    before = collect("photos", masks="masks")
    names = add_second_shots(shop)
    now = collect("photos", masks="masks")
    pd.testing.assert_frame_equal(now.table.frame, before.table.frame)
    assert (now.digest, now.near_duplicates, before.near_duplicates) == (before.digest, 24, 0)
    assert now.left_out.keys() == set(names)
    after = bgbias.audit("photos", colours, out="out", **HOW)
    counted = "Left out as near-duplicates: 24 of 48 photos."
    written = json.loads(Path("out/audit.json").read_text())
    assert written["photos"]["near_duplicates"] == 24
    page = Path("out/audit.html").read_text()
    for text in (written["verdict"], str(after), page):
        assert counted in text


def test_independent_scenes_are_all_taken(tmp_path: Path) -> None:
    toy_folder.made(tmp_path, correlation=0.0, classes=8, per_class=6)
    photos = collect(tmp_path / "photos")
    assert (len(photos), photos.near_duplicates, photos.left_out) == (48, 0, {})
