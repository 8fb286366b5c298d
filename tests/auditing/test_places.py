"""Photos of two places: how much is lost from one to the other, and how much of that the background carries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import bgbias
from bgbias.auditing.comparison import ComparedAudits, render
from bgbias.errors import UserError
from bgbias.photos.tables import NamedColumns
from tests.support.collected import collect
from tests.support.two_visits import CLASSES, EACH, SIDE, background_alone, list_photos, object_alone


@pytest.fixture(scope="module")
def compared(shop: Path) -> ComparedAudits:
    """A model that is blind for the background, and one that sees nothing else."""
    how = {"size": SIDE, "resize": SIDE, "draws": 2, "attribution": 0, "place": 1, "class_level": 2}
    models = {"object": object_alone, "background": background_alone}
    return bgbias.audit(shop / "photos", models, masks=shop / "masks", backgrounds=shop / "walls", **how)


def test_the_background_carries_nothing_for_a_blind_model_and_all_for_one_that_sees_nothing_else(
    compared: ComparedAudits,
) -> None:
    blind, other = (compared.audits[name].numbers["places"] for name in ("object", "background"))
    assert blind["natural"]["low"] > 0  # the lamps
    assert blind["on_composites"]["value"] == pytest.approx(0, abs=1e-12)
    assert blind["carried"]["value"] == pytest.approx(0, abs=1e-12)
    assert other["natural"]["low"] > 0.3
    assert other["carried"]["low"] < 1 < other["carried"]["high"]
    assert other["carried"]["low"] > 0.5
    assert (other["queries"], other["classes"]) == (2 * CLASSES * EACH, CLASSES)
    assert "original photos from another place" in compared.audits["background"].verdict


def test_models_are_compared_by_what_another_place_costs(compared: ComparedAudits) -> None:
    models = compared.models.set_index("model")
    assert models["natural"]["background"] > models["natural"]["object"]
    assert models["carried"]["object"] == pytest.approx(0, abs=1e-12)
    page = render([compared])
    assert "carried by the background, %" in page
    own = compared.audits["background"].numbers["places"]["natural"]
    assert f"{100 * own['value']:.1f}" in page


def test_a_table_and_folders_say_the_same(shop: Path) -> None:
    by_folder = collect(shop / "photos", masks=shop / "masks", columns=NamedColumns(place="1"), class_level=2)
    by_table = collect(list_photos(shop, "visit"), columns=NamedColumns(place="visit"))
    assert list(by_folder.places.values()) == list(by_table.places.values())
    assert by_folder.sums == by_table.sums
    without = collect(shop / "photos", class_level=2)
    assert not without.places
    assert not without.is_across_places


def test_a_level_of_folders_is_a_place_and_no_part_of_the_class(shop: Path) -> None:
    for how in ({}, {"class_level": 2}):
        photos = collect(shop / "photos", columns=NamedColumns(place="1"), **how)
        assert set(photos.table.frame["class_name"]) == {f"class {n}" for n in range(CLASSES)}
        assert set(photos.places.values()) == {"visit 0", "visit 1"}
        assert photos.is_across_places
    inside = collect(shop / "photos", columns=NamedColumns(place="2"), class_level=1)
    assert set(inside.table.frame["class_name"]) == {"visit 0", "visit 1"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("kiosk", r"--place is 'kiosk', and .* has no table with columns: name the folder .* by its number"),
        ("3", r"photos: 'visit 0/class 0/0.png' lies in no folder of level 3; say another --place"),
        ("0", r"--place is 0: it is the number of a folder of the path, 1 for the outermost"),
        ("2", r"--place is 2: .* another one than that of the class"),
    ],
)
def test_a_place_that_is_not_there_is_an_error(shop: Path, place: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        collect(shop / "photos", columns=NamedColumns(place=place), class_level=2)


def test_a_folder_with_a_table_of_its_own_is_not_read_without_it_unasked(shop: Path, tmp_path: Path) -> None:
    frame = list_photos(shop, "place")
    frame.assign(path=[str(path) for path in frame["path"]])[["path", "class", "place"]].to_csv(
        tmp_path / "photos.csv", index=False
    )
    shutil.copytree(shop / "photos", tmp_path, dirs_exist_ok=True)
    with pytest.raises(
        UserError, match=r"--place is 1, and .* has a table, photos.csv: name its column by --place"
    ):
        collect(tmp_path, columns=NamedColumns(place="1"))
    assert collect(tmp_path, columns=NamedColumns(place="1"), class_level=2).is_across_places


def test_a_sample_has_photos_of_each_place(shop: Path) -> None:
    photos = collect(shop / "photos", columns=NamedColumns(place="1"), sample=4 * CLASSES)
    frame = photos.table.frame
    assert (frame.groupby(["class_name", "place"]).size() == 2).all()


def test_a_place_in_which_no_class_meets_itself_is_an_error(shop: Path, tmp_path: Path) -> None:
    files = sorted((shop / "photos").rglob("*.png"))
    table = pd.DataFrame(
        {"path": files, "class": [str(file.parent) for file in files], "visit": [f.parts[-3] for f in files]}
    )
    with pytest.raises(UserError, match=r"no class has photos of two places \(2 places in all\)"):
        collect(table, columns=NamedColumns(place="visit"))
    (tmp_path / "coco.json").write_text("{}")
    with pytest.raises(UserError, match="a COCO file has neither"):
        collect(tmp_path / "coco.json", columns=NamedColumns(place="visit"))
