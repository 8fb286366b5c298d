"""What lies outside the project's folders is known by names and sizes, and by content where an edit may leave the size."""

from __future__ import annotations

from pathlib import Path

import pytest

from bgbias.files.fingerprint import fingerprint


def seen(place: Path) -> str:
    fingerprint.cache_clear()
    return fingerprint(str(place))


@pytest.mark.parametrize("name", ["shop.csv", "masks.json", "masks/7.bmp"])
def test_edits_of_the_same_size_are_noticed(tmp_path: Path, name: str) -> None:
    place = tmp_path / "mine"
    file = place / name
    file.parent.mkdir(parents=True)
    file.write_text("a.png,c0")
    before = seen(place), seen(file)
    file.write_text("a.png,c1")
    assert seen(place) != before[0]
    assert seen(file) != before[1]
    file.write_text("a.png,c0")
    assert (seen(place), seen(file)) == before


def test_end_of_a_large_file_is_looked_at(tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    archive.write_bytes(bytes(5_000_000))
    before = seen(archive)
    archive.write_bytes(bytes(4_999_999) + b"x")
    assert seen(archive) != before


def test_photos_that_a_list_names_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.png\nb.png\n")
    (tmp_path / "a.png").write_bytes(b"1")
    before = seen(tmp_path / "list.txt")
    (tmp_path / "b.png").write_bytes(b"2")
    assert seen(tmp_path / "list.txt") != before
