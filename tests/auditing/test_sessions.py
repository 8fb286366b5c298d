"""Photos of one session: what is found without them, and where a session is read from."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

import bgbias
from bgbias.auditing import findings
from bgbias.evaluation import scores
from bgbias.evaluation.embeddings import Embeddings
from bgbias.images.pixels import day_of
from tests.support.collected import collect
from tests.support.two_visits import background_alone, list_photos

LABELS = np.repeat(np.arange(6), 6)
DAYS = np.tile(["monday", "monday", "monday", "tuesday", "tuesday", ""], 6)


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def embeddings() -> Embeddings:
    """Photos of one class and day are alike, those of one class a little."""
    generator = np.random.default_rng(0)
    of_class, of_day = generator.normal(size=(6, 12)), generator.normal(size=(6, 3, 12))
    day = np.unique(DAYS, return_inverse=True)[1]
    base = 0.5 * of_class[LABELS] + of_day[LABELS, day]
    views = {
        (name, draw): unit(base + spread * generator.normal(size=base.shape))
        for name, draw, spread in (
            ("clean", 0, 0.5),
            ("random_background", 0, 1.2),
            ("random_background", 1, 1.2),
        )
    }
    ids = [f"{row:02}" for row in range(len(LABELS))]
    return Embeddings(ids, LABELS, np.ones(len(LABELS), bool), views)


def by_id(names: Iterable[str]) -> dict[str, str]:
    return {f"{row:02}": name for row, name in enumerate(names) if name}


def naive(vectors: np.ndarray, gallery: np.ndarray) -> list[float]:
    """MAP@R of each photo without the matches of its own day, one by one."""
    found = []
    for row, vector in enumerate(vectors):
        gone = {
            j for j in range(len(LABELS)) if LABELS[j] == LABELS[row] and DAYS[j] == DAYS[row] and DAYS[j]
        } | {row}
        order = sorted(set(range(len(LABELS))) - gone, key=lambda j: -float(gallery[j] @ vector))
        relevant = sum(LABELS[j] == LABELS[row] for j in order)
        hits = [LABELS[j] == LABELS[row] for j in order[:relevant]]
        found.append(sum(hit * sum(hits[: k + 1]) / (k + 1) for k, hit in enumerate(hits)) / relevant)
    return found


def test_matches_of_the_own_session_are_left_out() -> None:
    photos = embeddings()
    found = findings.compare_sessions(photos, by_id(DAYS.tolist()))
    assert found is not None
    assert (found.sessions, found.queries) == (2, len(LABELS))
    clean = photos.views["clean", 0]
    assert found.clean.value == pytest.approx(np.mean(naive(clean, clean)))
    changed = [np.mean(naive(photos.views["random_background", draw], clean)) for draw in (0, 1)]
    assert found.drop.value == pytest.approx(1 - np.mean(changed) / found.clean.value)
    with_all = scores.score_queries(photos, {})
    with_all = with_all[(with_all["condition"] == "clean") & (with_all["setting"] == "symmetric")]
    assert found.clean.value < with_all["map_at_r"].mean() - 0.1
    similar = clean @ clean.T - 9 * np.eye(len(clean))
    first = similar.argmax(axis=1)
    right = LABELS[first] == LABELS
    own = (DAYS[first] == DAYS) & (DAYS != "")
    assert found.own == pytest.approx(own[right].mean())


@pytest.mark.parametrize("names", [[""] * 36, [str(n) for n in range(36)], [str(n // 6) for n in range(36)]])
def test_sessions_that_part_no_class_say_nothing(names: list[str]) -> None:
    assert findings.compare_sessions(embeddings(), by_id(names)) is None


def photo(taken: str = "") -> bytes:
    image, exif = (
        Image.fromarray(np.random.default_rng(len(taken)).integers(0, 255, (9, 9, 3), np.uint8)),
        Image.Exif(),
    )
    if taken:
        exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = taken
    data = io.BytesIO()
    image.save(data, "JPEG", exif=exif)
    return data.getvalue()


def test_the_day_is_read_from_exif() -> None:
    assert day_of(photo("2024:05:31 12:00:09")) == "2024:05:31"
    assert day_of(photo()) == day_of(b"no photo") == ""


def test_an_audit_tells_matches_of_the_own_session_apart(shop: Path) -> None:
    table = list_photos(shop, "session")
    assert set(collect(table).sessions.values()) == {"visit 0", "visit 1"}
    how: dict[str, Any] = {"size": 32, "resize": 32, "draws": 1, "attribution": 0}
    found = bgbias.audit(table, background_alone, backgrounds=shop / "walls", **how).numbers
    assert found["sessions"]["own"] > 0.9
    clean = next(
        r["value"] for r in found["levels"] if r["condition"] == "clean" and r["metric"] == "map_at_r"
    )
    assert found["sessions"]["clean"]["value"] < clean / 2
    assert any(
        "right first matches are photos of the query's own session" in line for line in found["queries"]
    )
    assert not collect(table.drop(columns="session")).sessions
