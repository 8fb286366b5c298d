"""Photos as people have them: few, broken, of two classes, of classes of every size. Each ends in a verdict or a clear reason."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import bgbias
from bgbias.errors import UserError
from tests.support.collected import collect
from tests.support.miniatures import as_zip


def colours(batch: list[np.ndarray]) -> list[np.ndarray]:
    return [photo.reshape(4, 16, 4, 16, 3).mean((1, 3)).ravel() for photo in batch]


def audited(place: Path, photos: object = None, **how: object) -> bgbias.Audit:
    """Of the photos as they lie there, unless others are named."""
    source = {"photos": place / "photos", "masks": place / "masks"} if photos is None else {"photos": photos}
    asked = {"size": 64, "resize": 64, "attribution": 0, "draws": 1, "backgrounds": place / "walls"}
    return bgbias.audit(model=colours, **source | asked | how)  # type: ignore[call-overload, no-any-return]


def keep(place: Path, *sizes: int) -> None:
    """So many photos of each class, and their masks."""
    for size, folder in zip((*sizes, *[0] * 6), sorted((place / "photos").iterdir()), strict=False):
        for photo in sorted(folder.iterdir())[size:]:
            photo.unlink()
            (place / "masks" / folder.name / photo.name).unlink()
        if not size:
            folder.rmdir()


def test_twenty_photos_have_a_verdict_with_an_interval_and_broken_ones_are_left_out(place: Path) -> None:
    keep(place, 5, 4, 4, 4, 4)
    broken = min((place / "photos").rglob("*.png"))
    broken.write_bytes(broken.read_bytes()[:60])
    found = audited(place)
    assert found.drop.low < found.drop.value < found.drop.high
    assert "too few for conclusions" not in str(found)
    assert (found.numbers["photos"]["photos"], found.numbers["photos"]["left_out"]) == (20, 1)
    assert f"whose mask cannot: 1 ({broken.relative_to(place / 'photos')})" in str(found)


def test_few_photos_of_two_classes_say_that_they_say_little(place: Path) -> None:
    keep(place, 4, 4)
    found = audited(place)
    assert math.isfinite(found.drop.value)
    assert math.isnan(found.drop.low)
    assert "with fewer than 5 classes there is no interval" in str(found)
    assert "queries: 8 queries are too few for conclusions" in str(found)


def test_the_few_classes_of_more_than_two_photos_do_not_stand_for_all(place: Path) -> None:
    """One of two photos lends its background to the other, and cannot be found in front of it."""
    keep(place, 5, 2, 2, 2, 2, 2)
    found = audited(place, out=place / "out")
    assert math.isfinite(found.drop.value)
    assert "queries: 10 of 15 have no background of their class to borrow" in str(found)
    assert "nan" not in str(found)
    levels = pd.DataFrame(found.numbers["levels"]).query("setting == 'query' and metric == 'map_at_r'")
    rows = levels.set_index("condition")["value"]
    assert rows[["clean", "random_background"]].notna().all()
    assert math.isnan(rows["mixed_same"])
    steps = pd.DataFrame(found.numbers["steps"]).query("setting == 'query'")
    assert steps["value"].isna().all()
    page = (place / "out/audit.html").read_text("utf-8")
    assert re.search(r"on a background of its class <code>.*?</code></th><td>–</td>", page)


def test_parts_of_the_drop_add_up_over_the_queries_that_have_them_all(place: Path) -> None:
    keep(place, 2, 2, 2, 5, 5, 5)
    found = audited(place)
    assert "queries: 6 of 21 have no background" in str(found)
    assert "are of one class" not in str(found)
    photos_of = found.to_frame()
    measured = photos_of[photos_of["map_at_r_mixed_same"].notna()]
    *steps, drop = pd.DataFrame(found.numbers["steps"]).query("setting == 'query'")["value"]
    assert sum(steps) == pytest.approx(drop, abs=1e-12)
    # Of galleries that lack the lenders: nearly what is lost in whole ones.
    assert drop == pytest.approx(measured["lost"].mean(), abs=0.1)


def test_a_large_class_beside_pairs_counts_as_one_class(place: Path) -> None:
    keep(place, 5, 2, 2, 2, 2, 2)
    first = min((place / "photos").iterdir()).name
    for number in range(1, 31):
        for part in ("photos", "masks"):
            folder = place / part / first
            picture = np.asarray(Image.open(folder / "000.png"))
            rolled = np.roll(picture, (9 * number, 7 * number), axis=(0, 1))
            Image.fromarray(rolled).save(folder / f"9{number:02d}.png")
    found = audited(place, sample=None)
    sizes = found.classes.set_index("class_name")["queries"]
    assert sizes[first] == 35
    assert sizes.drop(first).eq(2).all()
    # Nearly all queries are of one class, which is one piece of evidence.
    told = f"35 of 45 queries are of one class ({first}): it is most of the evidence"
    assert told in str(found).splitlines()[0]
    assert f"queries: {told}" in str(found)
    assert found.drop.high - found.drop.low > 0.3 or math.isnan(found.drop.low)


def test_masks_that_show_nothing_are_a_reason(place: Path) -> None:
    for mask in (place / "masks").rglob("*.png"):
        Image.fromarray(np.zeros_like(np.asarray(Image.open(mask)))).save(mask)
    with pytest.raises(UserError, match=r"empty mask: 30.*by masker=.*by masks="):
        audited(place)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda batch: [np.zeros(3) for _ in batch], "same vector|zeros"),
        (lambda batch: [np.full(3, np.nan) for _ in batch], "not finite"),
        (lambda batch: np.ones((len(batch) + 1, 3)), "a vector of each"),
    ],
)
def test_a_model_that_is_none_is_told_before_masks_are_made(
    toys: Path, tmp_path: Path, answer: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    how = {"size": 64, "resize": 64, "masker": "grabcut", "backgrounds": toys / "walls"}
    with pytest.raises(UserError, match=words):
        bgbias.audit(toys / "photos", answer, **how)
    assert not (tmp_path / "cache").exists()


def rows_of(toys: Path) -> pd.DataFrame:
    files = sorted((toys / "photos").rglob("*.png"))
    masks = [toys / "masks" / file.relative_to(toys / "photos") for file in files]
    return pd.DataFrame({"path": files, "class": [file.parent.name for file in files], "mask": masks})


def test_a_table_a_zip_and_a_renamed_folder_of_the_same_photos_are_the_same_question(
    place: Path, toys: Path
) -> None:
    """All numbers follow from the photos, their keys, classes and masks."""
    as_zip(
        place / "zipped.zip",
        {str(p.relative_to(toys / "photos")): p.read_bytes() for p in rows_of(toys)["path"]},
    )
    found = [
        collect(toys / "photos", masks=toys / "masks"),
        collect((place / "photos").rename(place / "renamed"), masks=place / "masks"),
        collect(place / "zipped.zip", masks=place / "masks"),
        collect(rows_of(toys)),
    ]
    assert len({photos.digest for photos in found}) == 1
    assert all(photos.has_truth(i) for photos in found for i in photos.table.ids)


def test_queries_are_asked_among_the_gallery_alone(toys: Path) -> None:
    rows = rows_of(toys)
    rows["part"] = ["query" if path.name < "001" else "gallery" for path in rows["path"]]
    found = audited(toys, rows)
    vectors = np.array(colours([np.asarray(Image.open(path)) for path in rows["path"]]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names, gallery = rows["class"].to_numpy(), (rows["part"] == "gallery").to_numpy()
    expected = {}
    for query in np.flatnonzero(~gallery):
        ranked = np.flatnonzero(gallery)[np.argsort(-vectors[gallery] @ vectors[query], kind="stable")]
        right = names[ranked] == names[query]
        relevant = right.sum()
        precision = np.cumsum(right)[:relevant] / np.arange(1, relevant + 1)
        expected[names[query]] = (precision * right[:relevant]).sum() / relevant
    of_photos = found.to_frame().set_index("class_name")["map_at_r_clean"].dropna()
    assert of_photos.to_dict() == pytest.approx(expected, abs=1e-6)
