"""A name is one name however its letters are stored, and a zip is the folder that it was made of."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import pandas as pd
import pytest

from tests.support.collected import collect
from tests.support.miniatures import as_mac_zip

CLASSES = ("Käse", "Müller", "Öl", "Zoë", "Ångström", "été")


def copied(source: Path, target: Path, form: str) -> Path:
    """A folder whose classes are called as a system with this form of Unicode calls them."""
    for name, folder in zip(CLASSES, sorted(source.iterdir()), strict=True):
        shutil.copytree(folder, target / unicodedata.normalize(form, name))
    return target


@pytest.fixture(scope="module")
def places(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same photos under composed and decomposed names, their masks, and zips."""
    root = tmp_path_factory.mktemp("names")
    for part in ("photos", "masks"):
        shutil.copytree(toys / part, root / part)
    for form in ("NFC", "NFD"):
        copied(root / "photos", root / form / "shop", form)
        copied(root / "masks", root / form / "masks", form)
    for part in ("shop", "masks"):
        below = root / "NFD" / part
        files = {f"{part}/{p.relative_to(below).as_posix()}": p.read_bytes() for p in below.rglob("*.png")}
        as_mac_zip(root / f"{part}.zip", files)
    rows = [
        {"path": f"shop/{c}/{p.name}", "class": c, "mask": f"masks/{c}/{p.name}"}
        for c in CLASSES
        for p in (root / "NFC" / "shop" / c).iterdir()
    ]
    for form, other in (("NFC", "NFD"), ("NFD", "NFC")):
        text = pd.DataFrame(rows).to_csv(index=False)
        (root / other / "shop.csv").write_text(unicodedata.normalize(form, text), "utf-8")
    return root


@pytest.mark.parametrize(
    ("photos", "masks"),
    [("NFD/shop", "NFC/masks"), ("shop.zip", "NFC/masks"), ("NFC/shop", "masks.zip"), ("NFD/shop.csv", None)],
)
def test_one_collection_is_one_question(places: Path, photos: str, masks: str | None) -> None:
    usual = collect(places / "NFC/shop", masks=places / "NFC/masks")
    other = collect(places / photos, masks=None if masks is None else places / masks)
    assert set(other.table.frame["class_name"]) == set(CLASSES)
    assert other.table.frame.drop(columns="image_id").equals(usual.table.frame.drop(columns="image_id"))
    assert [other.sums[i] for i in other.table.ids] == [usual.sums[i] for i in usual.table.ids]


def test_a_class_in_both_forms_is_one_class(places: Path, tmp_path: Path) -> None:
    copied(places / "photos", tmp_path / "shop", "NFC")
    for name in CLASSES:
        other = tmp_path / "shop" / unicodedata.normalize("NFD", name)
        other.mkdir(exist_ok=True)
        first = min((tmp_path / "shop" / name).iterdir())
        first.rename(other / first.name)
    assert collect(tmp_path / "shop").table.frame.equals(collect(places / "NFC" / "shop").table.frame)


def test_photos_beside_the_classes_are_left_out_of_a_zip_as_of_its_folder(
    places: Path, tmp_path: Path
) -> None:
    shutil.copytree(places / "NFC" / "shop", tmp_path / "shop")
    shutil.copy(min((tmp_path / "shop" / "Käse").iterdir()), tmp_path / "shop" / "loose.png")
    shutil.make_archive(str(tmp_path / "shop"), "zip", tmp_path, "shop")
    folder, archive = collect(tmp_path / "shop"), collect(tmp_path / "shop.zip")
    assert list(folder.left_out.items()) == [
        (k.removeprefix("shop/"), v) for k, v in archive.left_out.items()
    ]
    assert folder.table.keys == archive.table.keys
