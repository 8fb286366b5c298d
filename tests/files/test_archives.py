"""Archives and folders are read alike, without unpacking: files are found by names as read, or named with a reason."""

import gzip
import io
import json
import os
import tarfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from miniatures import as_folder, as_mac_zip, as_tar, as_zip

from bgbias import seeds
from bgbias.backgrounds import pools
from bgbias.backgrounds.settings import PoolSource, Proposal
from bgbias.datasets import table
from bgbias.errors import UserError
from bgbias.files import pictures, places
from bgbias.files.archives import Lookup, members
from bgbias.files.fetch import Source, fetch
from bgbias.images.pixels import encode_png
from bgbias.masks import pairs
from bgbias.masks.maskers import files as mask_files

FILES = {"a/1.jpg": seeds.generator("one").bytes(30_000), "a/2.txt": b"two", "b/ü.jpg": b""}
Make = Callable[[Path, dict[str, bytes]], Path]


def as_plain_tar(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(gzip.decompress(as_tar(path, files).read_bytes()))
    return path


def as_tar_of_its_folder(path: Path, files: dict[str, bytes]) -> Path:
    """``tar cf shop.tar .``"""
    return as_plain_tar(path, {f"./{name}": data for name, data in files.items()})


KINDS = {"zip": as_zip, "tar": as_plain_tar, "tar of .": as_tar_of_its_folder, "tgz": as_tar}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
def test_wanted_files_come_in_the_archives_order_and_can_be_looked_up(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "archive", FILES)  # the content tells the kind, not the name
    assert list(members(path, lambda name: True)) == list(FILES.items())
    assert [n for n, _ in members(path, lambda n: n.endswith(".jpg"))] == ["a/1.jpg", "b/ü.jpg"]
    files = Lookup(path, lambda name: name != "a/2.txt")
    assert files.names == ["a/1.jpg", "b/ü.jpg"]
    assert [files.read(name) for name in ("b/ü.jpg", "a/1.jpg", "a/1.jpg")] == [b"", *[FILES["a/1.jpg"]] * 2]


@pytest.mark.parametrize("make", [as_zip, as_tar])
@pytest.mark.parametrize("name", ["../evil.jpg", "/etc/evil.jpg", "a\\..\\..\\evil.jpg"])
def test_member_that_leads_out_is_refused_even_if_not_wanted(tmp_path: Path, make: Make, name: str) -> None:
    path = make(tmp_path / "archive", {"a/1.jpg": b"1", name: b"evil"})
    for read in (lambda: list(members(path, lambda n: n == "a/1.jpg")), lambda: Lookup(path)):
        with pytest.raises(UserError) as told:
            read()
        assert f"{path} has a member '{name}' that leads out of it" in str(told.value)


@every_kind
def test_a_truncated_archive_and_a_page_in_its_place_are_refused(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "archive", FILES | {"c/3.txt": b"some text to compress " * 50})
    data = path.read_bytes()
    for content in (data[: len(data) // 3], data[: len(data) // 2], b"<html>404</html>" * 100, b""):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"archive .*(cannot be read|is neither a zip nor a tar).*fetch"):
            list(members(path, lambda name: True))


def test_hard_links_are_files_and_symbolic_ones_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = as_plain_tar(tmp_path / "a.tar", {"a/1.jpg": b"one", "a/2.jpg": FILES["a/1.jpg"]})
    with tarfile.open(path, "a") as archive:
        for name, kind, target in (("hard", tarfile.LNKTYPE, "a/1.jpg"), ("soft", tarfile.SYMTYPE, "/etc")):
            link = tarfile.TarInfo(f"b/{name}.jpg")
            link.type, link.linkname = kind, target
            archive.addfile(link)
    in_turn = dict(members(path, lambda name: True))
    assert (in_turn["b/hard.jpg"], len(in_turn)) == (b"one", 3)
    files = Lookup(path)
    assert {name: files.read(name) for name in files.names} == in_turn
    assert list(files.passed_over) == ["b/soft.jpg"]
    assert "tar --dereference" in files.passed_over["b/soft.jpg"]
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(UserError, match=r"'a/2\.jpg' is cut off"):
        files.read("a/2.jpg")


# Names.

COMPOSED = {"Käse/é.jpg": b"1", "Müller/2.jpg": b"2"}
DECOMPOSED = {unicodedata.normalize("NFD", name): data for name, data in COMPOSED.items()}


@pytest.mark.parametrize("make", [as_folder, as_zip, as_tar, as_mac_zip])
def test_folders_and_archives_have_composed_names(tmp_path: Path, make: Make) -> None:
    place = make(tmp_path / "shop", DECOMPOSED)
    found = Lookup(place, pictures.is_picture)
    assert {name: found.read(name) for name in found.names} == COMPOSED
    assert dict(members(place, COMPOSED.__contains__)) == COMPOSED


def test_names_that_read_alike_or_are_no_utf_8_are_told_apart(tmp_path: Path) -> None:
    place = as_zip(tmp_path / "a.zip", COMPOSED | DECOMPOSED)
    with pytest.raises(
        UserError, match=r"the files '(M\\xfc|K\\xe4|Ka\\u0308).*' and '.*' have one name; rename"
    ):
        Lookup(place, pictures.is_picture)
    raw = as_zip(place, {"K~se/1.jpg": b"1"}).read_bytes()
    place.write_bytes(raw.replace(b"K~se", b"K\x84se"))  # ä in code page 437, as DOS wrote it
    assert [name for name, _ in members(place, pictures.is_picture)] == ["Käse/1.jpg"]
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a/\udcff.jpg"), io.BytesIO())
    files = Lookup(tmp_path / "a.tar", pictures.is_picture)
    assert files.names == []
    assert files.passed_over == {r"'a/\udcff.jpg'": pictures.NO_TEXT}


def test_lists_tables_and_settings_find_files_in_the_other_form(tmp_path: Path) -> None:
    name, white = unicodedata.normalize("NFD", "Käse"), encode_png(np.full((2, 3), 255, np.uint8))
    folder = as_folder(tmp_path / name, {f"{name}.jpg": white, f"{name}_mask.png": white})
    assert places.source(str(tmp_path / "Käse")) == folder
    (folder / "pairs.csv").write_text(f"image,mask\n{name}.jpg,Käse_mask.png\n", "utf-8")
    assert len(pairs.read_pairs(folder / "pairs.csv")) == 1
    entry = {"id": 1, "file_name": f"{name}.jpg", "height": 2, "width": 2}
    outline = {"image_id": 1, "segmentation": [[0, 0, 0, 2, 2, 2, 2, 0]]}
    (tmp_path / "coco.json").write_text(json.dumps({"images": [entry], "annotations": [outline]}))
    assert mask_files.from_coco(tmp_path / "coco.json", ["Käse.jpg"])("Käse.jpg") is not None
    (folder / "walls.txt").write_text("Käse.jpg\n", "utf-8")
    assert list(pools.files(str(folder / "walls.txt"))) == [("Käse.jpg", white)]
    (tmp_path / "walls.csv").write_text(f"name,url,licence,sha256\n{name}.jpg,x,CC0,0\n", "utf-8")
    assert pools.read_list(PoolSource(source=f"{tmp_path}/walls.csv"))[0].name == "Käse.jpg"
    assert Proposal(source="walls", masker="u2netp", keep=(name,)).keep == ("Käse",)
    (folder / "table.csv").write_text("image,label,split\nKäse.jpg,cheese,test\n", "utf-8")
    params = table.Params(source=str(folder / "table.csv"))
    fetch(table.parts(params)["photos"], tmp_path / "packed", "shop")
    parts = {"table": folder / "table.csv", "photos": tmp_path / "packed"}
    assert [i.image_id for i in table.items(params, parts, "shop")] == ["Käse.jpg"]


def test_linked_folders_are_entered_and_loops_are_not(tmp_path: Path) -> None:
    other = as_folder(tmp_path / "other", {"deep/1.jpg": b"1"})
    mine = as_folder(tmp_path / "mine", {"a/2.jpg": b"2"})
    for name, target in (
        ("b", other),
        ("a/back", mine),
        ("out", tmp_path),  # which holds all of this again
        ("a/lost.jpg", tmp_path / "nowhere"),
    ):
        (mine / name).symlink_to(target)
    files, left_out = pictures.walk(mine)
    assert list(files) == ["a/2.jpg", "b/deep/1.jpg"]
    assert {n: r.split(":")[0] for n, r in left_out.items()} == {
        "a/back": "a link back to a folder that it lies in",
        "a/lost.jpg": "a link that leads nowhere, or no file",
        "out": "a link back to a folder that it lies in",
    }
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
    assert [name[2:] for name in names if pictures.is_photo(name)] == ["1.jpg", "2.GIF", "3.avif", "4.heic"]
    as_folder(tmp_path / "unread", {"1.heic": b"", "2.heic": b"", "3.txt": b""})
    words = r"holds no pictures .* not read here \(\.heic\): convert .*\(3 files in all\)"
    with pytest.raises(UserError, match=words):
        fetch((Source(place=str(tmp_path / "unread")),), tmp_path / "archive", "mine")
