"""Photos of two places: how much is lost from one to the other, and how much of that the background carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bgbias
from bgbias.errors import UserError
from bgbias.images.pixels import encode_png
from bgbias.photos.tables import NamedColumns
from bgbias.results.places import AcrossPlaces
from bgbias.results.uncertainty import UNKNOWN, Estimate
from tests.auditing.test_text import an_audit, labelled
from tests.support.collected import collect

SIDE, CLASSES, EACH = 32, 8, 5
OBJECT = slice(8, 24)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A square of its class's colour, under each visit's lamp, on a wall of its class and visit: ``photos/<visit>/<class>``,
    ``masks`` and ``walls`` of other colours.
    """
    folder, generator = tmp_path_factory.mktemp("shop"), np.random.default_rng(3)
    of_class = generator.uniform(60, 200, (CLASSES, 3))
    lamps, walls = (
        [np.array([30, 0, -30]), np.array([-30, 0, 30])],
        generator.uniform(30, 225, (2, CLASSES, 3)),
    )
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[OBJECT, OBJECT] = 255
    for visit in range(2):
        for number in range(CLASSES):
            for photo in range(EACH):
                name = f"visit {visit}/class {number}/{photo}.png"
                # In patches, so that no photo shows another one's view.
                patches = generator.normal(0, 45, (8, 8, 3)).repeat(SIDE // 8, 0).repeat(SIDE // 8, 1)
                picture = walls[visit, number] + generator.normal(0, 18, 3) + patches
                picture[OBJECT, OBJECT] += of_class[number] + lamps[visit] - walls[visit, number]
                for part, pixels in (("photos", picture.clip(0, 255).astype(np.uint8)), ("masks", mask)):
                    file = folder / part / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(encode_png(pixels))
    (folder / "walls").mkdir()
    for number in range(4):
        wall = np.full((SIDE, SIDE, 3), generator.integers(0, 255, 3), np.uint8)
        (folder / "walls" / f"{number}.png").write_bytes(encode_png(wall))
    return folder


def object_alone(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [np.append(photo[OBJECT, OBJECT].mean((0, 1)) - 128, 20) for photo in batch]


def background_alone(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [np.append(np.concatenate([photo[:6], photo[-6:]]).mean((0, 1)) - 128, 20) for photo in batch]


def audited(shop: Path, model: Any, photos: Any = None, **how: Any) -> bgbias.Audit:
    return bgbias.audit(
        shop / "photos" if photos is None else photos,
        model,
        backgrounds=shop / "walls",
        size=SIDE,
        resize=SIDE,
        draws=2,
        attribution=0,
        **{"place": 1, "class_level": 2, "masks": shop / "masks"} | how,
    )


def test_the_background_carries_nothing_for_a_blind_model_and_all_for_one_that_sees_nothing_else(
    shop: Path,
) -> None:
    blind, other = (audited(shop, model).numbers["places"] for model in (object_alone, background_alone))
    assert blind["natural"]["low"] > 0  # the lamps
    assert blind["on_composites"]["value"] == pytest.approx(0, abs=1e-12)
    assert blind["carried"]["value"] == pytest.approx(0, abs=1e-12)
    assert other["natural"]["low"] > 0.3
    assert other["carried"]["low"] < 1 < other["carried"]["high"]
    assert other["carried"]["low"] > 0.5
    assert (other["queries"], other["classes"]) == (2 * CLASSES * EACH, CLASSES)


def test_a_table_and_folders_say_the_same(shop: Path) -> None:
    files = sorted((shop / "photos").rglob("*.png"))
    table = pd.DataFrame(
        {
            "path": files,
            "class": [file.parent.name for file in files],
            "visit": [file.parts[-3] for file in files],
            "mask": [shop / "masks" / file.relative_to(shop / "photos") for file in files],
        }
    )
    by_folder = audited(shop, background_alone)
    by_table = audited(shop, background_alone, table, masks=None, place="visit", class_level=None)
    assert by_folder.numbers["places"] == by_table.numbers["places"]
    assert "lower from another place" in by_table.verdict


def test_without_places_there_is_nothing_of_them(shop: Path) -> None:
    found = audited(shop, object_alone, place="")
    assert found.numbers["places"] is None
    assert not {"class_here", "others_there"} & set(found.queries["condition"])


def test_a_level_of_folders_is_a_place_and_no_part_of_the_class(shop: Path) -> None:
    for how in ({}, {"class_level": 2}):
        photos = collect(shop / "photos", named=NamedColumns(place="1"), **how)
        assert set(photos.table.frame["class_name"]) == {f"class {n}" for n in range(CLASSES)}
        assert set(photos.places.values()) == {"visit 0", "visit 1"}
        assert photos.is_across_places
    inside = collect(shop / "photos", named=NamedColumns(place="2"), class_level=1)
    assert set(inside.table.frame["class_name"]) == {"visit 0", "visit 1"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("kiosk", r"--place is 'kiosk', and .* has no table with columns: name the folder .* by its number"),
        ("3", r"photos: 'visit 0/class 0/0.png' lies in no folder of level 3; say another --place"),
    ],
)
def test_a_place_that_is_not_there_is_an_error(shop: Path, place: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        collect(shop / "photos", named=NamedColumns(place=place), class_level=2)


def test_a_sample_has_photos_of_each_place(shop: Path) -> None:
    photos = collect(shop / "photos", named=NamedColumns(place="1"), sample=4 * CLASSES)
    frame = photos.table.frame
    assert (frame.groupby(["class_name", "place"]).size() == 2).all()


FOUND = AcrossPlaces(
    queries=80,
    classes=8,
    here=Estimate(0.5, 0.4, 0.6),
    there=Estimate(0.3, 0.2, 0.4),
    composite=Estimate(0.2, 0.1, 0.3),
    natural=Estimate(0.42, 0.3, 0.54),
    points=Estimate(0.2, 0.1, 0.3),
    on_composites=Estimate(0.6, 0.5, 0.7),
    carried=Estimate(0.65, 0.5, 0.8),
)


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        (
            {},
            "MAP@R is 42 % [30, 54] lower from another place. The background carries 65 % [50, 80] of that.",
            "significantly",
        ),
        ({"carried": UNKNOWN}, "MAP@R is 42 % [30, 54] lower from another place.", "carries"),
        (
            {"natural": Estimate(0.1, -0.1, 0.3), "carried": UNKNOWN},
            "MAP@R is 10 % [−10, 30] lower from another place, not significantly.",
            "carries",
        ),
    ],
)
def test_the_verdict_says_what_another_place_costs(
    changes: dict[str, Estimate], said: str, unsaid: str
) -> None:
    found = AcrossPlaces(**vars(FOUND) | changes)
    verdict = an_audit(labelled(places=found)).verdict
    assert said in verdict
    assert unsaid not in verdict
    lines = an_audit(labelled(places=found)).terminal
    assert "original photos of another place" in lines
    assert "30.0 [20.0, 40.0]" in lines
