"""HEIC is read where a library for it is installed, and told with the step where none is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from miniatures import as_folder
from snapshots import shop, snapshot

from bgbias.files import pictures
from tests.support.collected import collect

FILES = shop() | {"shoe 00/phone.HEIC": snapshot("phone")}


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    pictures.can_read_heif.cache_clear()
    yield
    pictures.can_read_heif.cache_clear()


def test_heic_is_read_where_the_library_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    library = SimpleNamespace(register_heif_opener=lambda: told.append(True))
    monkeypatch.setitem(sys.modules, "pillow_heif", library)
    photos = collect(as_folder(tmp_path / "shop", FILES))
    assert (len(photos), told) == (10, [True])
    assert photos.read("shoe 00/phone.HEIC") == snapshot("phone")


def test_heic_is_told_with_the_step_where_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    photos = collect(as_folder(tmp_path / "shop", FILES))
    assert len(photos) == 9
    assert "convert it to JPEG or PNG, or pip install pillow-heif" in photos.left_out["shoe 00/phone.HEIC"]
