"""A name is one name however its letters are stored, and a zip is the folder that it was made of."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bgbias
from tests.support import toy_folder
from tests.support.collected import collect
from tests.support.miniatures import as_mac_zip

HOW = {"size": 64, "resize": 64, "attribution": 0, "draws": 2}
CLASSES = ("Käse", "Müller", "Öl", "Zoë", "Ångström", "été")


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.reshape(4, 16, 4, 16, 3).mean((1, 3)).ravel() for photo in batch]


def copied(source: Path, target: Path, form: str) -> Path:
    """A folder whose classes are called as a system with this form of Unicode calls them."""
    for name, folder in zip(CLASSES, sorted(source.iterdir()), strict=True):
        shutil.copytree(folder, target / unicodedata.normalize(form, name))
    return target


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same photos under composed and decomposed names, their masks, and zips."""
    root = tmp_path_factory.mktemp("names")
    toy_folder.made(root)
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


def answer(places: Path, photos: str, masks: str | None) -> bgbias.Audit:
    drawn = None if masks is None else places / masks
    return bgbias.audit(places / photos, colours, masks=drawn, backgrounds=places / "walls", **HOW)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def usual(places: Path) -> bgbias.Audit:
    return answer(places, "NFC/shop", "NFC/masks")


@pytest.mark.parametrize(
    ("photos", "masks"),
    [("NFD/shop", "NFC/masks"), ("shop.zip", "NFC/masks"), ("NFC/shop", "masks.zip"), ("NFD/shop.csv", None)],
)
def test_one_collection_has_one_answer(
    places: Path, usual: bgbias.Audit, photos: str, masks: str | None
) -> None:
    other = answer(places, photos, masks)
    assert set(usual.classes["class_name"]) == set(CLASSES)
    assert other.drop == usual.drop
    pd.testing.assert_frame_equal(other.classes, usual.classes)


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
