"""Photos that a table or a list names, or holds: what its columns may be called, and what is wrong in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import as_folder
from PIL import Image
from snapshots import shop, snapshot

from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.images import pixels
from tests.support.collected import collect


@pytest.fixture
def rows(tmp_path: Path) -> pd.DataFrame:
    """Nine photos below ``tmp_path``, in three classes."""
    as_folder(tmp_path, shop())
    return pd.DataFrame({"path": list(shop()), "class": [name[:7] for name in shop()]})


def of_file(folder: Path, frame: pd.DataFrame, kind: str = "csv", **options: Any) -> PhotoCollection:
    path = folder / f"list.{kind}"
    frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
    return collect(path, **options)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("csv", ("path", "class")), ("csv", (" Image ", "LABEL")), ("parquet", ("file_name", "category"))],
)
def test_columns_have_the_names_that_people_give_them(
    tmp_path: Path, rows: pd.DataFrame, kind: str, columns: tuple[str, str]
) -> None:
    # In any order of rows, and beside columns that say nothing.
    frame = rows.set_axis(list(columns), axis=1).assign(price=1).sample(frac=1, random_state=0)
    photos = of_file(tmp_path, frame, kind)
    assert (photos.name, photos.labelled, photos.classes) == ("list", True, 3)
    assert photos.digest == of_file(tmp_path, rows).digest
    assert photos.read("shoe 02/0.jpg") == shop()["shoe 02/0.jpg"]


def test_frame_is_read_from_here_and_a_path_is_known_by_where_it_lies(
    tmp_path: Path, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = collect(rows, name="shop")
    absolute = collect(rows.assign(path=[tmp_path / p for p in rows["path"]]), name="shop")
    assert relative.table.ids == absolute.table.ids == sorted(shop())
    assert relative.digest == absolute.digest == collect(".", name="shop").digest


def test_keys_name_photos_in_what_is_drawn(tmp_path: Path, rows: pd.DataFrame) -> None:
    keys = [f"sku-{n}" for n in range(9)]
    photos = of_file(tmp_path, rows.assign(key=keys))
    assert [item for _, item in photos.table.keys] == keys


def test_of_a_class_one_photo_of_each_group_is_taken(tmp_path: Path, rows: pd.DataFrame) -> None:
    photos = of_file(tmp_path, rows.assign(group=["a", "a", "b", "", "", "a", None, "c", "d"]))
    assert photos.left_out.keys() == {"shoe 00/1.jpg"}
    assert "left out: 1 (shoe 00/1.jpg): of each class one photo of a group" in next(photos.describe())
    assert photos.digest == of_file(tmp_path, rows.drop(index=1)).digest
    of_products = of_file(tmp_path, rows.assign(group=rows["class"]))
    assert (of_products.labelled, len(of_products)) == (False, 3)
    assert "nobody to find: of each class one photo of a group is taken" in next(of_products.describe())


def test_list_of_paths_has_no_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(as_folder(tmp_path, shop()))
    photos = collect([Path("shoe 00/0.jpg"), "shoe 01/0.jpg"])
    assert (photos.labelled, photos.table.ids) == (False, ["shoe 00/0.jpg", "shoe 01/0.jpg"])
    assert list(photos.describe()) == ["photos: nobody says which photo is of which class"]


def test_pictures_in_memory_lose_nothing() -> None:
    array = pixels.decode(snapshot("array"), "a")
    turned = Image.open(io.BytesIO(snapshot("turned", orientation=6)))
    levels = Image.fromarray(np.ones((40, 40), np.int32))
    photos = collect([array, turned, snapshot("bytes"), array[..., 0], array / 255, levels])
    assert photos.table.ids == ["0", "1", "2", "3"]
    assert np.array_equal(pixels.decode(photos.read("0"), "0"), array)
    assert pixels.decode(photos.read("1"), "1").shape == (48, 36, 3)  # as a person sees it
    assert photos.read("2") == snapshot("bytes")
    assert np.array_equal(pixels.decode(photos.read("3"), "3", "L"), array[..., 0])
    assert "is float64 [36, 48, 3], and no photo" in photos.left_out["4"]
    assert "of which nobody can tell which is white" in photos.left_out["5"]


def test_masks_of_a_table_lie_beside_it(tmp_path: Path, rows: pd.DataFrame) -> None:
    mask = np.zeros((36, 48), np.uint8)
    mask[9:, 9:] = 1  # as some programs write white
    as_folder(tmp_path, {"masks/0.png": pixels.encode_png(mask)})
    photos = of_file(tmp_path, rows.assign(mask=["masks/0.png"] + [""] * 8))
    truth = photos.truth("shoe 00/0.jpg")
    assert truth is not None
    assert np.array_equal(pixels.decode(truth, "mask", "L"), mask * 255)
    assert photos.truth("shoe 00/1.jpg") is None
    assert {oddity.name: len(oddity.cases) for oddity in photos.oddities} == {"photos_without_a_true_mask": 8}


def test_only_the_test_rows_of_a_table_with_splits_are_looked_at(tmp_path: Path, rows: pd.DataFrame) -> None:
    photos = of_file(tmp_path, rows.assign(split=["train"] * 3 + ["test"] * 6))
    assert (len(photos), photos.classes) == (6, 2)
    assert "3 rows whose split is not 'test' are not looked at" in next(photos.describe())
    assert len(of_file(tmp_path, rows.assign(split="train"))) == 9


def test_rows_that_cannot_be_taken_are_left_out_by_reason(tmp_path: Path, rows: pd.DataFrame) -> None:
    more = {"gone.jpg": "a", "": "a", "http://x/1.jpg": "a", "shoe 00/0.jpg": "shoe 00", "shoe 00/1.jpg": ""}
    frame = pd.DataFrame({"path": more.keys(), "class": more.values()})
    photos = of_file(tmp_path, pd.concat([rows.drop(index=1), frame]))
    assert len(photos) == 8
    assert {name: reason.partition(":")[0] for name, reason in photos.left_out.items()} == {
        "gone.jpg": "no file is there",
        "row 11": "a row without a path",
        "http://x/1.jpg": "an address",
        "shoe 00/0.jpg (row 13)": "its photo is listed before",
        "shoe 00/1.jpg": "no class in its row",
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda rows: rows.rename(columns={"path": "fil_name"}),
            r"list\.csv has no column of paths.*: fil_name, class\. Is 'fil_name' meant\? Call it 'file_name'\.",
        ),
        (lambda rows: rows[:0], r"list\.csv has no rows"),
        (
            lambda rows: rows.assign(path="other/" + rows["path"]),
            r"None of the 9 files .* 'other/shoe 00/0.jpg', .*/2.jpg'; relative paths start at {folder}\. Move",
        ),
        (
            lambda rows: pd.concat([rows, rows[1:2].assign(**{"class": "bag"})]),
            r"'shoe 00/1\.jpg' is of the class 'shoe 00' in row 3 and of 'bag' in row 11",
        ),
        (lambda rows: rows.assign(part="query"), "has no query, or nothing in the gallery"),
        (lambda rows: rows.assign(part="probe"), r"row 2: the part 'probe' is neither query nor gallery"),
    ],
)
def test_what_is_wrong_in_a_table_is_an_error(
    tmp_path: Path, rows: pd.DataFrame, change: Any, words: str
) -> None:
    with pytest.raises(UserError, match=words.replace("{folder}", str(tmp_path))):
        of_file(tmp_path, change(rows))


def test_class_level_is_refused_where_no_folder_is_a_class(tmp_path: Path, rows: pd.DataFrame) -> None:
    for source in (lambda: of_file(tmp_path, rows, class_level=1), lambda: collect(rows, class_level=1)):
        with pytest.raises(UserError, match=r"--class-level says which folder"):
            source()
