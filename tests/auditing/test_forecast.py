"""What an audit foretells: of what is left alone; and what it does where the disk or the model fails."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from in_memory import table

from bgbias.auditing import forecast
from bgbias.auditing.config import AuditConfig, Question
from bgbias.models.adapters import Options, load
from tests.auditing.conftest import HOW
from tests.support import commands

STEPS = ("masks", "photos", "pictures", "embeddings", "crossing", "attribution")


def question(count: int = 130) -> Any:
    """About so many photos of 13 classes."""
    photos = table({str(number): number % 13 for number in range(count)})
    collection = SimpleNamespace(table=photos, labelled=True, is_across_places=False)
    return Question(collection, None, SimpleNamespace(photos=["a"] * 10), AuditConfig())


def test_what_is_finished_takes_nothing_and_the_model_is_not_asked() -> None:
    photos, calls = [np.full((20, 24, 3), 9, np.uint8)] * 2, list[int]()

    def embed(batch: list[np.ndarray]) -> np.ndarray:
        calls.append(len(batch))
        return np.stack([photo.mean((0, 1)) for photo in batch])

    model = load(embed, Options(size=16, resize=16))
    calls.clear()
    nothing = dict.fromkeys(STEPS, 0)
    done = forecast.measure(question(), model, "embed", photos, nothing)
    assert sum(done.seconds.values()) == 0
    assert calls == []
    some = forecast.measure(question(), model, "embed", photos, nothing | {"attribution": 3})
    assert {name for name, seconds in some.seconds.items() if seconds} == {"attribution"}
    left = nothing | {"masks": 130, "photos": 130, "embeddings": 130, "crossing": 100, "attribution": 64}
    whole = forecast.measure(question(), model, "embed", photos, left, seconds_a_mask=0.1)
    assert whole.seconds["masks"] == pytest.approx(13)
    assert all(whole.seconds.values())
    assert (whole.disk, whole.mapped) == (done.disk, done.mapped)
    more = forecast.measure(question(260), model, "embed", photos, nothing)
    assert 1.5 < more.mapped / done.mapped < 2, "all but what is crossed and attributed"


def test_a_disk_without_the_room_is_refused_before_anything_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    done = commands.bgbias(place, "audit", "photos", "--model", "my_model.py:build", "--masker", "grabcut")
    assert done.returncode == 2
    assert re.search(r"has room for .*, and the audit needs .* more\. Name another folder", done.stderr)
    assert not list((place / "audit").rglob("*-there.npy"))


FRAGILE = """
from pathlib import Path

import numpy as np
from PIL import Image

WORSE = np.asarray(Image.open(Path(__file__).parent / "worse.png"))


def embed(batch):
    if not Path("mended").exists() and any(np.array_equal(photo, WORSE) for photo in batch):
        raise RuntimeError("in the middle of it\\nand why")
    return [photo.reshape(-1, 3).mean(0) for photo in batch]
"""


def test_a_model_that_fails_later_is_named_with_the_photos_and_what_is_finished_stays(place: Path) -> None:
    last = max((place / "photos").rglob("*.png"))
    (place / "worse.png").write_bytes(last.read_bytes())
    (place / "fragile.py").write_text(FRAGILE)
    how = ["photos", "--model", "fragile.py:embed", *HOW, "--draws", "1", "--attribution", "2"]
    done = commands.bgbias(place, "audit", *how)
    assert done.returncode == 2, done.stderr
    error = done.stderr.splitlines()[-1]
    assert "fragile.py:embed fails on " in error
    assert "RuntimeError: in the middle of it ... and why, at fragile.py:12 `raise RuntimeError(" in error
    assert f"{last.parent.name}/{last.name}" in error
    (done_file,) = (place / "audit").rglob("views-there.npy")
    assert np.load(done_file).tolist() == [1] * 24 + [0] * 6
    (place / "mended").touch()
    audited = place / "audit/fragile.py-embed"
    again = commands.bgbias(place, "audit", *how)
    assert again.returncode == 0, again.stderr
    assert "30 photos, 8 views of each: what is left takes about" in again.stderr
    assert json.loads((audited / "audit.json").read_text())["attribution"]["photos"] == 2
