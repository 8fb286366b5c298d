"""Embeddings of an audit: what is missing comes in one stream, and each vector to its place."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bgbias.auditing import embedding
from bgbias.auditing.prepared_photos import open_memmap
from bgbias.evaluation.conditions import View
from bgbias.models.adapters._calls import USUAL, BatchSize

ASKED: list[View] = [("clean", 0), ("random_background", 1)]
AT_ONCE = USUAL // len(ASKED)  # photos
PHOTOS = 3 * AT_ONCE + 5


class Stub:
    """Photos whose views are numbers, and which remember who asked."""

    def __init__(self) -> None:
        self.table = SimpleNamespace(ids=[f"photo {row}" for row in range(PHOTOS)])
        self.asked: list[tuple[int, Sequence[int]]] = []

    def views(
        self, asked: Sequence[View], workers: int, rows: Sequence[int]
    ) -> Generator[np.ndarray, None, None]:
        self.asked.append((workers, rows))
        yield from (np.array([row, draw, 1.0]) for row in rows for _, draw in asked)


def test_a_gap_is_filled_from_one_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "workers", lambda device, photos: photos // 10)
    told = list[int]()
    monkeypatch.setattr(embedding, "showing", lambda count, label: nullcontext(told.append))
    model = SimpleNamespace(
        device="cuda", name="model", dim=3, embed=lambda views: views, batch=BatchSize(), workers=None
    )
    photos, folder = Stub(), tmp_path / embedding.FOLDER
    folder.mkdir()
    open_memmap(folder / embedding.DONE, np.uint8, (PHOTOS,))[AT_ONCE : 2 * AT_ONCE] = 1
    views = embedding.embed_views(model, photos, ASKED, tmp_path)  # type: ignore[arg-type]
    missing = [*range(AT_ONCE), *range(2 * AT_ONCE, PHOTOS)]
    assert photos.asked == [(len(missing) // 10, missing)]
    assert told == [AT_ONCE, AT_ONCE, 5]
    for view in ASKED:
        expected = np.array([[row, view[1], 1.0] for row in range(PHOTOS)])
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        expected[AT_ONCE : 2 * AT_ONCE] = 0  # was said to be there
        np.testing.assert_allclose(views[view], expected, rtol=1e-6)
    assert embedding.photos_left(tmp_path, PHOTOS) == 0
