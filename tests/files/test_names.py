"""Names are compared as people read them, wherever they come in."""

from __future__ import annotations

import io
import json
import tarfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from miniatures import as_folder, as_mac_zip, as_tar, as_zip

from bgbias.backgrounds import pools
from bgbias.backgrounds.settings import Proposal
from bgbias.datasets import table
from bgbias.errors import UserError
from bgbias.files import pictures, places
from bgbias.files.archives import Lookup, members
from bgbias.files.checksums import fingerprint
from bgbias.files.fetch import fetch
from bgbias.images.pixels import encode_png
from bgbias.masks import pairs
from bgbias.masks.maskers import files as mask_files
from bgbias.photos import listing

COMPOSED = {"Käse/é.jpg": b"1", "Müller/2.jpg": b"2"}
DECOMPOSED = {unicodedata.normalize("NFD", name): data for name, data in COMPOSED.items()}
WHITE = encode_png(np.full((2, 3), 255, np.uint8))


@pytest.mark.parametrize("make", [as_folder, as_zip, as_tar, as_mac_zip])
@pytest.mark.parametrize("files", [COMPOSED, DECOMPOSED], ids=["composed", "decomposed"])
def test_folders_and_archives_have_composed_names(
    tmp_path: Path, make: object, files: dict[str, bytes]
) -> None:
    place = make(tmp_path / "shop", files)  # type: ignore[operator]
    found = Lookup(place, pictures.is_picture)
    assert {name: found.read(name) for name in found.names} == COMPOSED
    assert dict(members(place, COMPOSED.__contains__)) == COMPOSED


def test_what_is_no_utf_8_keeps_the_names_that_dos_gave_it(tmp_path: Path) -> None:
    raw = as_zip(tmp_path / "a.zip", {"K~se/1.jpg": b"1"}).read_bytes()
    (tmp_path / "a.zip").write_bytes(raw.replace(b"K~se", b"K\x84se"))  # ä in code page 437
    assert [name for name, _ in members(tmp_path / "a.zip", pictures.is_picture)] == ["Käse/1.jpg"]


@pytest.mark.parametrize("make", [as_folder, as_zip, as_tar])
def test_two_files_whose_names_read_alike_are_both_named(tmp_path: Path, make: object) -> None:
    place = make(tmp_path / "shop", COMPOSED | DECOMPOSED)  # type: ignore[operator]
    with pytest.raises(
        UserError, match=r"the files '(Mu\\u0308|M\\xfc|K\\xe4|Ka\\u0308).*' and '.*' have one name; rename"
    ):
        Lookup(place, pictures.is_picture)


def test_a_name_in_a_tar_that_is_no_text_is_passed_over_as_in_a_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a/\udcff.jpg"), io.BytesIO())
    others: dict[str, str] = {}
    assert Lookup(tmp_path / "a.tar", pictures.is_picture, others).names == []
    assert others == {r"'a/\udcff.jpg'": pictures.NO_TEXT}


def test_a_study_finds_the_photos_of_a_table_in_the_other_form(tmp_path: Path) -> None:
    labels = ("Käse", "Müller", "Öl", "Zoë")
    for number, label in enumerate(labels):
        path = tmp_path / unicodedata.normalize("NFD", f"photos/{label}.png")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode_png(np.full((2, 2), number, np.uint8)))
    rows = [f"photos/{label}.png,{label}" for label in labels]
    (tmp_path / "table.csv").write_text("\n".join(["image,label", *rows]), "utf-8")
    params = table.Params(source=str(tmp_path / "table.csv"))
    (photos,) = table.parts(params)["photos"]
    assert fingerprint(photos.place or "", tmp_path / "known", photos.names) != fingerprint(
        photos.place or "", tmp_path / "known", frozenset(["none"])
    )
    fetch((photos,), tmp_path / "packed", "shop")
    parts = {"table": tmp_path / "table.csv", "photos": tmp_path / "packed"}
    assert {i.image_id: i.class_name for i in table.items(params, parts, "shop")} == {
        f"photos/{label}.png": label for label in labels
    }


def test_masks_fit_without_the_folders_around_all_of_them_or_all_photos() -> None:
    photos = ["shop/a/1.jpg", "shop/b/1.jpg"]
    for drawn in (["a/1.png"], ["shop/b/1.png"], ["masks/a/1.png"], ["x/y/a/1.png", "x/y/b/1.png"]):
        mask_of = listing.match_masks(drawn, photos, "shop", "masks")
        assert {f"shop/{mask.removesuffix('.png')[-3:]}": mask for mask in drawn} == mask_of
    for drawn in (["c/1.png"], ["1.png"], ["a/1.png", "shop/c/1.png"]):
        with pytest.raises(UserError, match="fits no photo"):
            listing.match_masks(drawn, photos, "shop", "masks")


def test_given_masks_find_photos_in_the_other_form(tmp_path: Path) -> None:
    name = unicodedata.normalize("NFD", "Käse")
    as_folder(tmp_path / "masks", {f"{name}.png": WHITE})
    assert mask_files.from_pictures(tmp_path / "masks", ["Käse.jpg"])("Käse.jpg") is not None
    entry = {"id": 1, "file_name": f"{name}.jpg", "height": 2, "width": 2}
    outline = {"image_id": 1, "segmentation": [[0, 0, 0, 2, 2, 2, 2, 0]]}
    (tmp_path / "coco.json").write_text(json.dumps({"images": [entry], "annotations": [outline]}))
    assert mask_files.from_coco(tmp_path / "coco.json", ["Käse.jpg"])("Käse.jpg") is not None
    as_folder(tmp_path / "pairs", {"Käse.jpg": WHITE, f"{name}_mask.png": WHITE})
    (tmp_path / "pairs" / "pairs.csv").write_text(f"image,mask\n{name}.jpg,Käse_mask.png\n", "utf-8")
    for place in (tmp_path / "pairs", tmp_path / "pairs" / "pairs.csv"):
        assert len(pairs.read_pairs(place)) == 1


def test_lists_of_backgrounds_find_files_in_the_other_form(tmp_path: Path) -> None:
    name = unicodedata.normalize("NFD", "Käse.jpg")
    as_folder(tmp_path / "walls", {name: b"1"})
    (tmp_path / "walls.txt").write_text("walls/Käse.jpg\n", "utf-8")
    for place in ("walls", "walls.txt"):
        assert list(pools.files(str(tmp_path / place))) == [("Käse.jpg", b"1")]
    assert fingerprint(str(tmp_path / "walls.txt"), tmp_path / "known")
    (tmp_path / "walls.csv").write_text(f"name,url,licence,sha256\n{name},x,CC0,0\n", "utf-8")
    assert pools.read_list(tmp_path / "walls.csv")[0].name == "Käse.jpg"
    assert Proposal(source="walls", masker="u2netp", keep=(name,)).keep == ("Käse.jpg",)


def test_a_source_is_found_in_the_other_form(tmp_path: Path) -> None:
    there = as_folder(tmp_path / unicodedata.normalize("NFD", "Käse/für"), {"1.jpg": b""})
    assert places.source(str(tmp_path / "Käse" / "für")) == there
    assert places.source(str(tmp_path / "Kase")) == tmp_path / "Kase"
