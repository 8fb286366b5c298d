"""Whatever lies in a folder is found, or named with the reason why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from miniatures import as_folder

from bgbias.errors import UserError
from bgbias.files import pictures
from bgbias.files.archives import Lookup, members
from bgbias.files.fetch import Source, fetch


def test_linked_folders_are_entered_and_loops_are_not(tmp_path: Path) -> None:
    other = as_folder(tmp_path / "other", {"deep/1.jpg": b"1"})
    mine = as_folder(tmp_path / "mine", {"a/2.jpg": b"2"})
    (mine / "b").symlink_to(other)
    (mine / "a" / "back").symlink_to(mine)
    (mine / "out").symlink_to(tmp_path)  # which holds all of this again
    (mine / "a" / "lost.jpg").symlink_to(tmp_path / "nowhere")
    files, left_out = pictures.walk(mine)
    assert list(files) == ["a/2.jpg", "b/deep/1.jpg"]
    assert {n: r.split(":")[0] for n, r in left_out.items()} == {
        "a/back": "a link back to a folder that it lies in",
        "a/lost.jpg": "a link that leads nowhere, or no file",
        "out": "a link back to a folder that it lies in",
    }
    fetch((Source(place=str(mine)),), tmp_path / "archive", "mine")
    packed = dict(members(tmp_path / "archive", lambda name: True))
    assert packed == {"a/2.jpg": b"2", "b/deep/1.jpg": b"1"}
    # A folder is read as an archive of it.
    assert dict(members(mine, pictures.is_picture)) == packed
    assert Lookup(mine, pictures.is_picture).read("b/deep/1.jpg") == b"1"


def test_every_file_is_a_picture_or_has_a_reason(tmp_path: Path) -> None:
    hidden = ("a/.6.jpg", "a/Thumbs.db", ".cache/8.jpg", "__MACOSX/9.jpg")
    names = ("a/1.jpg", "a/2.GIF", "a/3.avif", "a/4.heic", "a/5.txt", "a/7", *hidden)
    folder = as_folder(tmp_path / "mine", dict.fromkeys(names, b""))
    (folder / "a" / os.fsdecode(b"\xff.jpg")).touch()
    left_out = pictures.list_left_out(folder)
    assert len(left_out) == 8
    assert "not read here (.heic): convert it" in left_out["a/4.heic"]
    assert "no picture by its name (no ending)" in left_out["a/7"]
    assert left_out["'a/\\udcff.jpg'"] == "its name is no text (UTF-8): rename it"
    assert all(left_out[n].startswith("hidden") for n in (".cache", "__MACOSX", "a/.6.jpg", "a/Thumbs.db"))
    assert [name for name in names if pictures.is_photo(name)] == [
        "a/1.jpg",
        "a/2.GIF",
        "a/3.avif",
        "a/4.heic",
    ]
    as_folder(tmp_path / "unread", {"1.heic": b"", "2.heic": b"", "3.txt": b""})
    words = r"holds no pictures .* not read here \(\.heic\): convert .*\(3 files in all\)"
    with pytest.raises(UserError, match=words):
        fetch((Source(place=str(tmp_path / "unread")),), tmp_path / "archive", "mine")
