"""Photos as people have them: few, broken, of two classes, of classes of every size. Each ends in a verdict or a clear reason."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import bgbias
from bgbias.errors import UserError
from tests.support import toy_folder

HOW = {"size": 64, "resize": 64, "attribution": 0, "draws": 2}


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.reshape(4, 16, 4, 16, 3).mean((1, 3)).ravel() for photo in batch]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    toy_folder.made(folder)
    return folder


@pytest.fixture
def photos(toys: Path, tmp_path: Path) -> Path:
    shutil.copytree(toys / "photos", tmp_path / "photos")
    shutil.copytree(toys / "masks", tmp_path / "masks")
    return tmp_path / "photos"


def kept(photos: Path, classes: int, per_class: int) -> None:
    """So many classes, with so many photos each, and their masks."""
    for number, folder in enumerate(sorted(photos.iterdir())):
        for place, photo in enumerate(sorted(folder.iterdir())):
            if number >= classes or place >= per_class:
                photo.unlink()
                (photos.parent / "masks" / folder.name / photo.name).unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def test_twenty_photos_have_a_verdict_with_an_interval(photos: Path) -> None:
    kept(photos, classes=5, per_class=4)
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", **HOW)  # type: ignore[arg-type]
    assert found.drop.low < found.drop.value < found.drop.high
    assert "too few for conclusions" not in str(found)


def test_few_photos_of_two_classes_say_that_they_say_little(photos: Path) -> None:
    kept(photos, classes=2, per_class=4)
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", **HOW)  # type: ignore[arg-type]
    assert math.isfinite(found.drop.value)
    assert math.isnan(found.drop.low)
    assert "with fewer than 5 classes there is no interval" in str(found)
    assert "queries: 8 queries are too few for conclusions" in str(found)


def test_classes_of_two_photos_have_a_verdict_and_say_what_cannot_be_had(photos: Path) -> None:
    """One of two photos lends its background to the other, and cannot be found in front of it."""
    kept(photos, classes=5, per_class=2)
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", **HOW)  # type: ignore[arg-type]
    assert math.isfinite(found.drop.value)
    assert "queries: 10 of 10 have no background of their class to borrow" in str(found)
    assert "nan" not in str(found)


def test_the_few_classes_of_more_than_two_photos_do_not_stand_for_all(photos: Path, tmp_path: Path) -> None:
    for folder in sorted(photos.iterdir())[1:]:
        for photo in sorted(folder.iterdir())[2:]:
            photo.unlink()
            (photos.parent / "masks" / folder.name / photo.name).unlink()
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", out=tmp_path / "out", **HOW)  # type: ignore[arg-type]
    rows = (
        pd.DataFrame(found.numbers["levels"])
        .query("setting == 'query' and metric == 'map_at_r'")
        .set_index("condition")["value"]
    )
    assert rows[["clean", "random_background"]].notna().all()
    assert math.isnan(rows["mixed_same"])
    steps = pd.DataFrame(found.numbers["steps"]).query("setting == 'query'")
    assert steps["value"].isna().all()
    page = (tmp_path / "out/audit.html").read_text("utf-8")
    assert re.search(r"on a background of its class <code>.*?</code></th><td>–</td>", page)


def test_parts_of_the_drop_add_up_over_the_queries_that_have_them_all(photos: Path) -> None:
    for folder in sorted(photos.iterdir())[:3]:
        for photo in sorted(folder.iterdir())[2:]:
            photo.unlink()
            (photos.parent / "masks" / folder.name / photo.name).unlink()
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", **HOW)  # type: ignore[arg-type]
    assert "queries: 6 of 21 have no background" in str(found)
    assert "are of one class" not in str(found)
    photos_of = found.to_frame()
    measured = photos_of[photos_of["map_at_r_mixed_same"].notna()]
    *steps, drop = pd.DataFrame(found.numbers["steps"]).query("setting == 'query'")["value"]
    assert sum(steps) == pytest.approx(drop, abs=1e-12)
    # Of galleries that lack the lenders: nearly what is lost in whole ones.
    assert drop == pytest.approx(measured["lost"].mean(), abs=0.1)


def test_broken_files_are_counted_and_left_out(photos: Path, tmp_path: Path) -> None:
    names = [path for folder in sorted(photos.iterdir())[:3] for path in sorted(folder.iterdir())[:1]]
    for path in names:
        path.write_bytes(path.read_bytes()[:60])
    found = bgbias.audit(photos, colours, masks=photos.parent / "masks", out=tmp_path / "out", **HOW)  # type: ignore[arg-type]
    told = json.loads((tmp_path / "out/audit.json").read_text())
    assert told["photos"]["photos"] == toy_folder.CLASSES * toy_folder.PER_CLASS - 3
    assert told["photos"]["left_out"] == 3
    assert f"whose mask cannot: 3 ({names[0].relative_to(photos)}, " in str(found)


def test_a_large_class_beside_pairs_counts_as_one_class(photos: Path) -> None:
    first, *others = sorted(photos.iterdir())
    masks = photos.parent / "masks"
    for folder in others:
        for photo in sorted(folder.iterdir())[2:]:
            photo.unlink()
            (masks / folder.name / photo.name).unlink()
    for number in range(1, 61):
        for root in (photos, masks):
            source = root / first.name / "000.png"
            picture = np.asarray(Image.open(source))
            Image.fromarray(np.roll(picture, (9 * number, 7 * number), axis=(0, 1))).save(
                root / first.name / f"9{number:02d}.png"
            )
    found = bgbias.audit(photos, colours, masks=masks, sample=None, **HOW)  # type: ignore[arg-type]
    sizes = found.classes.set_index("class_name")["queries"]
    assert sizes[first.name] == 65
    assert sizes.drop(first.name).eq(2).all()
    # Nearly all queries are of one class, which is one piece of evidence.
    told = f"65 of 75 queries are of one class ({first.name}): it is most of the evidence"
    assert told in str(found).splitlines()[0]
    assert f"queries: {told}" in str(found)
    assert found.drop.high - found.drop.low > 0.3 or math.isnan(found.drop.low)


def test_masks_that_show_nothing_are_a_reason(photos: Path) -> None:
    for mask in (photos.parent / "masks").rglob("*.png"):
        Image.fromarray(np.zeros_like(np.asarray(Image.open(mask)))).save(mask)
    with pytest.raises(UserError, match=r"empty mask: 30.*by masker=.*by masks="):
        bgbias.audit(photos, colours, masks=photos.parent / "masks", **HOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda batch: [np.zeros(3) for _ in batch], "same vector|zeros"),
        (lambda batch: [np.full(3, np.nan) for _ in batch], "not finite"),
        (lambda batch: np.ones((len(batch) + 1, 3)), "a vector of each"),
    ],
)
def test_a_model_that_is_none_is_told_before_masks_are_made(
    photos: Path, toys: Path, answer: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(photos.parent / "cache"))
    with pytest.raises(UserError, match=words):
        bgbias.audit(photos, answer, masker="grabcut", backgrounds=toys / "walls", **HOW)  # type: ignore[arg-type]
    assert not (photos.parent / "cache").exists()


def test_a_table_a_zip_and_a_renamed_folder_of_the_same_photos_have_the_same_numbers(
    photos: Path, tmp_path: Path
) -> None:
    masks = photos.parent / "masks"
    rows = [
        {"path": str(path), "class": path.parent.name, "mask": str(masks / path.relative_to(photos))}
        for path in sorted(photos.rglob("*.png"))
    ]
    shutil.make_archive(str(tmp_path / "zipped"), "zip", photos)
    drops = [
        bgbias.audit(source, colours, masks=drawn, **HOW).drop  # type: ignore[arg-type]
        for source, drawn in (
            (photos, masks),
            (shutil.copytree(photos, tmp_path / "renamed"), masks),
            (tmp_path / "zipped.zip", masks),
            (pd.DataFrame(rows), None),
        )
    ]
    assert drops[0] == drops[1] == drops[2] == drops[3]


def test_queries_are_asked_among_the_gallery_alone(photos: Path) -> None:
    masks = photos.parent / "masks"
    rows = [
        {"path": str(path), "class": path.parent.name, "mask": str(masks / path.relative_to(photos))}
        | {"part": "query" if path.name < "001" else "gallery"}
        for path in sorted(photos.rglob("*.png"))
    ]
    found = bgbias.audit(pd.DataFrame(rows), colours, **HOW)  # type: ignore[arg-type]
    vectors = np.array(colours([np.asarray(Image.open(row["path"])) for row in rows]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = np.array([row["class"] for row in rows])
    gallery = np.array([row["part"] == "gallery" for row in rows])
    expected = {}
    for query in np.flatnonzero(~gallery):
        ranked = np.flatnonzero(gallery)[np.argsort(-vectors[gallery] @ vectors[query], kind="stable")]
        right = names[ranked] == names[query]
        relevant = right.sum()
        precision = np.cumsum(right)[:relevant] / np.arange(1, relevant + 1)
        expected[names[query]] = (precision * right[:relevant]).sum() / relevant
    of_photos = found.to_frame().set_index("class_name")["map_at_r_clean"].dropna()
    assert of_photos.to_dict() == pytest.approx(expected, abs=1e-6)
