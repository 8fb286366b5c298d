"""What lies outside the project's folders is known by the names and the content of its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint


def seen(place: Path) -> str:
    fingerprint.cache_clear()
    return fingerprint(str(place), place.parent / ".known.sqlite")


@pytest.mark.parametrize("name", ["shop.csv", "masks.json", "masks/7.bmp", "7.jpg", "masks/7.png"])
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


def test_a_time_that_was_set_back_hides_no_edit(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"one")
    times, before = (photo.stat().st_atime_ns, photo.stat().st_mtime_ns), seen(photo)
    photo.write_bytes(b"two")
    os.utime(photo, ns=times)
    assert seen(photo) != before


def test_any_byte_of_a_large_file_is_looked_at(tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    archive.write_bytes(bytes(5_000_000))
    before = seen(archive)
    archive.write_bytes(bytes(2_500_000) + b"x" + bytes(2_499_999))
    assert seen(archive) != before


def test_linked_folders_belong_to_a_place_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "far").mkdir()
    before = seen(tmp_path / "mine")
    (tmp_path / "mine" / "class1").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "mine")
    (tmp_path / "far" / "a.jpg").write_bytes(b"one")
    one = seen(tmp_path / "mine")
    (tmp_path / "far" / "a.jpg").write_bytes(b"two")
    assert len({before, one, seen(tmp_path / "mine")}) == 3


def test_a_place_is_known_by_names_below_it_alone(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder / "a").mkdir(parents=True)
        for name in ("a/1.png", "1.png"):
            (tmp_path / folder / name).write_bytes(name.encode())
        (tmp_path / folder / "list.txt").write_text("a/1.png\n1.png\n")
    assert seen(tmp_path / "here") == seen(tmp_path / "there")
    assert seen(tmp_path / "here/list.txt") == seen(tmp_path / "there/list.txt")
    (tmp_path / "here/a/1.png").write_bytes(b"edited")
    assert seen(tmp_path / "here/list.txt") != seen(tmp_path / "there/list.txt")


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


def test_what_systems_add_to_a_folder_is_no_edit_of_it(tmp_path: Path) -> None:
    place = tmp_path / ".mine"  # a hidden place that somebody names is looked at
    (place / "class").mkdir(parents=True)
    empty = seen(place)
    (place / "class" / "a.jpg").write_bytes(b"one")
    before = seen(place)
    assert before != empty
    for name in (".DS_Store", "class/._a.jpg", "class/Thumbs.db", ".cache/a.jpg", "__MACOSX/a.jpg"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"x")
    assert seen(place) == before


def test_a_list_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes("für.png\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"list\.txt .*not UTF-8.*save it as"):
        seen(tmp_path / "list.txt")
