"""Pixels of photos and masks are prepared once for the models that look at photos alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bgbias.auditing import audit, backgrounds, workdir
from bgbias.auditing.config import AuditConfig, Question
from bgbias.auditing.photos import choose, look_at
from bgbias.models.adapters import Adapted, Options, load
from tests.support import toy_folder


@pytest.fixture
def question(tmp_path: Path) -> Question:
    toy_folder.made(tmp_path)
    collection = look_at(choose(tmp_path / "photos", tmp_path / "masks"))
    asked = AuditConfig(draws=1, attribution=0)
    return Question(collection, None, backgrounds.find(str(tmp_path / "walls")), asked)


def model(exponent: float, side: int = 64) -> Adapted:
    def embed(batch: list[np.ndarray]) -> list[np.ndarray]:
        return [(photo.reshape(-1, 3).mean(0) / 255) ** exponent for photo in batch]

    return load(embed, Options(size=side, resize=side))


def pixels(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("pixels-*/*.npz")}


def test_a_second_model_of_the_same_look_reads_the_pixels_of_the_first(
    question: Question, tmp_path: Path
) -> None:
    with workdir.sharing_pixels(tmp_path) as place:
        audit.run(question, model(1), tmp_path / "first", place)
        first = pixels(place)
        assert len({path.parent for path in first}) == 1
        shared = audit.run(question, model(2), tmp_path / "second", place)
        assert pixels(place) == first
        audit.run(question, model(1, side=32), tmp_path / "smaller", place)
        assert len({path.parent for path in pixels(place)}) == 2
    alone = audit.run(question, model(2), tmp_path / "alone")
    assert shared.numbers["drop"] == alone.numbers["drop"]
    assert not list(tmp_path.rglob(".unfinished"))
