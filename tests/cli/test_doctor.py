"""The doctor names what would be left out of a folder of photos, and makes nothing."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from miniatures import as_folder, as_tar, as_zip
from typer.testing import CliRunner

from bgbias import cli
from bgbias.errors import UserError
from bgbias.images.pixels import encode_png


def said(*words: object) -> str:
    ended = CliRunner().invoke(cli.app, ["doctor", *map(str, words)])
    if ended.exception:
        raise ended.exception
    return ended.stdout


def test_doctor_tells_what_would_be_left_out_and_makes_nothing(tmp_path: Path) -> None:
    files = {
        f"{c}/{n}.png": encode_png(np.full((4, 4), 3 * c + n, np.uint8)) for c in range(5) for n in range(3)
    }
    files |= {f"5/{n}.heic": b"" for n in range(5)}
    for place in (as_folder(tmp_path / "shop", files), as_zip(tmp_path / "shop.zip", files)):
        told = said(place)
        assert (
            "left out: 5 (5/0.heic, 5/1.heic, 5/2.heic and 2 more): a photo in a format that is not" in told
        )
        assert f"{place.name}: 15 photos of 5 classes, 5 files left out\n" in told
        assert "5/3.heic, 5/4.heic)" in said(place, "--all")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["shop", "shop.zip"]


def test_doctor_takes_the_columns_that_are_named(tmp_path: Path) -> None:
    files = {f"{n}.png": encode_png(np.full((4, 4), 9 * n, np.uint8)) for n in range(6)}
    rows = "".join(f"{n}.png;shoe {n % 2}\n" for n in range(6))
    table = (
        as_folder(tmp_path / "shop", files | {"list.csv": f"picture;product\n{rows}".encode()}) / "list.csv"
    )
    assert "--label-column takes one of: product" in said(table, "--image-column", "picture")
    told = said(table, "--image-column", "picture", "--label-column", "product")
    assert "list.csv: 6 photos of 2 classes, 0 files left out" in told


def test_doctor_tells_links_in_a_tar(tmp_path: Path) -> None:
    files = {
        f"{c}/{n}.png": encode_png(np.full((4, 4), 9 * c + n, np.uint8)) for c in range(5) for n in (0, 1)
    }
    place = as_tar(tmp_path / "shop.tgz", files)
    with tarfile.open(tmp_path / "linked.tar", "w") as archive, tarfile.open(place) as before:
        for member in before:
            archive.addfile(member, before.extractfile(member))
        link = tarfile.TarInfo("4/2.png")
        link.type, link.linkname = tarfile.SYMTYPE, "../3/0.png"
        archive.addfile(link)
    told = said(tmp_path / "linked.tar")
    assert "left out: 1 (4/2.png): a link, which is not followed in an archive: pack" in told
    assert "10 photos of 5 classes, 1 files left out" in told


def test_doctor_looks_at_masks_too(tmp_path: Path) -> None:
    files = {
        f"{c}/{n}.png": encode_png(np.full((4, 4), 9 * c + n, np.uint8)) for c in range(5) for n in (0, 1)
    }
    photos = as_folder(tmp_path / "shop", files)
    white = encode_png(np.full((4, 4), 255, np.uint8))
    drawn = {"0/0.png": white, "0/1.npy": b"x", "1/0.heic": b"x"}
    for place in (as_folder(tmp_path / "masks", drawn), as_zip(tmp_path / "masks.zip", drawn)):
        told = said(photos, "--masks", place)
        assert "left out: 1 (0/1.npy (masks)): no picture by its name" in told
        assert "left out: 1 (1/0.heic (masks)): a photo in a format that is not read here" in told
        assert "photos without a true mask: 9 (0/1.png, 1/0.png, 1/1.png and 6 more): " in told
        assert "10 photos of 5 classes, 2 files left out" in told
    arrays = as_folder(tmp_path / "arrays", {"0/1.npy": b"x"})
    with pytest.raises(UserError, match=r"arrays holds no pictures.*run: python -m bgbias doctor .*--masks"):
        said(photos, "--masks", arrays)


def test_doctor_tells_what_makes_it_no_dataset(tmp_path: Path) -> None:
    files = {f"{c}/{n}/a.png": encode_png(np.full((4, 4), n, np.uint8)) for c in range(3) for n in range(3)}
    folder = as_folder(tmp_path / "shop", files)
    with pytest.raises(UserError, match="folders lie in folders"):
        said(folder)
    assert "9 photos of 9 classes" in said(folder, "--class-level", 2)
    with pytest.raises(UserError, match="There is no folder or archive"):
        said(tmp_path / "absent")


def test_no_name_of_a_file_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    picture = encode_png(np.full((4, 4), 7, np.uint8))
    name = "a\x1b[2J/1\u202e.jpg"
    folder = as_folder(tmp_path / "shop\x07", {name: picture, "b/1.png": picture, "b/\x1b]0;x\x07.heic": b""})
    told = said(folder)
    assert r"a\x1b[2J/1\u202e.jpg" in told
    assert r"b/\x1b]0;x\x07.heic" in told
    assert r"shop\x07: 2 photos" in told
    assert told.replace("\n", "").isprintable()
