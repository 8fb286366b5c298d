"""What is collected is looked at once, as a person sees it and without a change to any file; tables and lists name photos."""

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import as_folder, as_tar, as_zip
from PIL import Image
from small_study import described, load
from snapshots import shop, snapshot

from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.nodes import index
from bgbias.photos.table import read_table
from tests.support.collected import collect


def test_second_shots_are_left_out_and_counted(place: Path) -> None:
    """Beside each photo the same once more, cropped by a pixel and saved with another quality."""
    before = collect(place / "photos")
    for file in (place / "photos").rglob("*.png"):
        with Image.open(file) as photo:
            photo.crop((1, 1, 64, 64)).save(file.with_name(f"{file.stem}_again.jpg"), quality=60)
    photos = collect(place / "photos")
    assert photos.digest == before.digest
    assert set(photos.left_out) == {name.replace(".png", "_again.jpg") for name in photos.table.ids}
    assert (before.near_duplicates, photos.as_json()["near_duplicates"]) == (0, 30)


def test_true_masks_come_from_a_folder_of_their_own(tmp_path: Path) -> None:
    white = pixels.encode_png(np.full((36, 48), 255, np.uint8))
    across = pixels.encode_png(np.full((48, 36), 255, np.uint8))
    files = shop() | {"shoe 02/2.jpg": snapshot("turned", width=48, orientation=6)}
    files |= {"shoe 00/tiny.jpg": snapshot("tiny", height=31)}
    drawn = {"shoe 00/0.png": white, "shoe 01/1.png": across, "shoe 02/2.png": white, "notes.txt": b"x"}
    place = as_folder(tmp_path / "shop", files)
    photos = collect(place, masks=as_zip(tmp_path / "masks.zip", drawn))
    assert photos.truth("shoe 00/0.jpg") is not None
    assert len(photos.sums["shoe 00/0.jpg"]) == 2
    assert photos.truth("shoe 00/1.jpg") is None
    assert photos.left_out.keys() == {"notes.txt (masks)", "shoe 01/1.jpg", "shoe 02/2.jpg"}
    assert "turn the mask too" in photos.left_out["shoe 02/2.jpg"]
    assert "turn the mask too" not in photos.left_out["shoe 01/1.jpg"]
    without = collect(place)
    assert photos.digest != without.digest
    assert pixels.decode(without.read("shoe 02/2.jpg"), "turned").shape == (48, 36, 3)
    found = {oddity.name: oddity.cases for oddity in without.oddities}
    assert found == {"turned_by_exif": ("shoe 02/2.jpg",), "tiny": ("shoe 00/tiny.jpg",)}
    # A note or a raw file of the photo's name is no second photo of the mask; another photo is.
    as_folder(place, {"shoe 00/0.txt": b"", "shoe 00/0.heic": b"", "shoe 00/1.png": white})
    assert collect(place, masks=tmp_path / "masks.zip").truth("shoe 00/0.jpg") is not None
    (place / "shoe 00" / "0.png").write_bytes(white)
    with pytest.raises(UserError, match=r"the photos 'shoe 00/0\.jpg' and 'shoe 00/0\.png' have one name"):
        collect(place, masks=tmp_path / "masks.zip")
    (place / "shoe 00" / "0.png").unlink()
    with pytest.raises(UserError, match=r"the mask 'shoe 9/0\.png' fits no photo \(1 in all\)"):
        collect(place, masks=as_folder(tmp_path / "wrong", {"shoe 9/0.png": white, "shoe 00/0.png": white}))


def test_classes_that_lose_their_photos_are_classes_no_more(tmp_path: Path) -> None:
    files = shop(2, 2) | {"shoe 00/1.jpg": b"broken", "shoe 01/0.jpg": b"broken"}
    photos = collect(as_folder(tmp_path / "shop", files))
    assert (photos.labelled, photos.table.labels.tolist()) == (False, [0, 1])
    assert "of the photos that are taken, no class has two photos" in next(photos.describe())


def test_only_a_sample_is_looked_at_and_it_is_told(tmp_path: Path) -> None:
    place = as_folder(tmp_path / "shop", shop(6, 3))
    photos = collect(place, sample=9)
    assert list(photos.describe()) == ["shop: a sample of 9 of 18 photos: 3 of 6 classes, whole classes"]
    assert (len(photos), photos.labelled) == (9, True)
    assert collect(as_zip(tmp_path / "shop.zip", shop(6, 3)), sample=9).digest == photos.digest
    assert [len(collect(place, sample=n)) for n in (18, 100)] == [18, 18]
    with pytest.raises(UserError, match="A sample of 3 photos is too small"):
        collect(place, sample=3)
    loose = collect(sorted((place / "shoe 00").iterdir()), sample=2)
    assert list(loose.describe())[-1] == "photos: a sample of 2 of 3 photos"


def test_nothing_is_written_and_nothing_held(tmp_path: Path) -> None:
    heavy = {name: data + bytes(1_000_000) for name, data in shop(4, 5).items()}
    place = as_tar(tmp_path / "shop.tgz", heavy)
    written = place.stat().st_mtime_ns
    collect(place)  # what is imported and remembered once
    tracemalloc.start()
    photos = collect(place)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (list(tmp_path.iterdir()), place.stat().st_mtime_ns) == ([place], written)
    assert len(photos) == 20
    assert held < 1_000_000
    assert most < 6_000_000


def test_cut_outs_are_their_own_masks_where_the_photos_are_named_as_masks(tmp_path: Path) -> None:
    alpha = np.zeros((36, 48), np.uint8)
    alpha[10:30, 12:36] = 255
    photo = pixels.decode(snapshot("cut"), "cut")
    cut_out, grey = pixels.encode_png(np.dstack([photo, alpha])), pixels.encode_png(photo[..., 0])
    place = as_folder(tmp_path / "shop", shop() | {"shoe 00/cut.png": cut_out, "shoe 01/grey.png": grey})
    photos = collect(place, masks=place)
    assert [i for i in photos.table.ids if photos.has_truth(i)] == ["shoe 00/cut.png"]
    np.testing.assert_array_equal(pixels.decode(photos.truth("shoe 00/cut.png") or b"", "mask", "L"), alpha)


@pytest.mark.usefixtures("small_plugins")
def test_photos_of_a_dataset_keep_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(tmp_path, described(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"squares are not at hand .* python -m bgbias index squares"):
        collect("squares")
    index.index(study, "squares")
    photos = collect("squares")
    there = read_table(study.files.at("table", dataset="squares")).split("test")
    store, masks = (ImageStore(study.files.at(part, dataset="squares")) for part in ("photos", "truth"))
    assert photos.labelled
    assert photos.table.frame.equals(there.frame)
    first = there.ids[0]
    assert (photos.read(first), photos.truth(first)) == (store.read(first), masks.read(first))
    assert "photos of its other splits are not looked at" in next(photos.describe())
    # A name that means two things is refused.
    with pytest.raises(UserError, match=r"called square\. Did you mean 'squares'\?"):
        collect("square")
    as_folder(tmp_path / "squares", {"1.jpg": b""})
    with pytest.raises(UserError, match=r"a dataset of .*params\.yaml, and a folder here; .* \./squares"):
        collect("squares")
    with pytest.raises(UserError, match=r"none of 1 photos can be read.* '1\.jpg' cannot be decoded"):
        collect("./squares")


# -- tables and lists --------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> pd.DataFrame:
    """Nine photos below ``tmp_path``, in three classes."""
    as_folder(tmp_path, shop())
    return pd.DataFrame({"path": list(shop()), "class": [name[:7] for name in shop()]})


def of_file(folder: Path, frame: pd.DataFrame, **options: Any) -> PhotoCollection:
    frame.to_csv(folder / "list.csv", index=False)
    return collect(folder / "list.csv", **options)


def test_paths_start_from_here(tmp_path: Path, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = collect(rows, name="shop")
    absolute = collect(rows.assign(path=[tmp_path / p for p in rows["path"]]), name="shop")
    assert relative.table.ids == absolute.table.ids == sorted(shop())
    assert relative.digest == absolute.digest == collect(".", name="shop").digest
    photos = collect([Path("shoe 00/0.jpg"), "shoe 01/0.jpg"])
    assert (photos.labelled, photos.table.ids) == (False, ["shoe 00/0.jpg", "shoe 01/0.jpg"])
    assert list(photos.describe()) == ["photos: nobody says which photo is of which class"]


def test_of_a_class_one_photo_of_each_group_is_taken(tmp_path: Path, rows: pd.DataFrame) -> None:
    photos = of_file(tmp_path, rows.assign(group=["a", "a", "b", "", "", "a", None, "c", "d"]))
    assert photos.left_out.keys() == {"shoe 00/1.jpg"}
    assert "left out: 1 (shoe 00/1.jpg): of each class one photo of a group" in next(photos.describe())
    assert photos.digest == of_file(tmp_path, rows.drop(index=1)).digest
    of_products = of_file(tmp_path, rows.assign(group=rows["class"]))
    assert (of_products.labelled, len(of_products)) == (False, 3)
    assert "nobody to find: of each class one photo of a group is taken" in next(of_products.describe())


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
    columns = [" File_Name ", "CATEGORY", "mask"]  # names in any case
    photos = of_file(tmp_path, rows.assign(mask=["masks/0.png"] + [""] * 8).set_axis(columns, axis=1))
    assert photos.classes == 3
    truth = photos.truth("shoe 00/0.jpg")
    assert truth is not None
    assert np.array_equal(pixels.decode(truth, "mask", "L"), mask * 255)
    assert photos.truth("shoe 00/1.jpg") is None
    assert {oddity.name: len(oddity.cases) for oddity in photos.oddities} == {"photos_without_a_true_mask": 8}


def test_only_the_test_rows_of_a_table_with_splits_are_looked_at(tmp_path: Path, rows: pd.DataFrame) -> None:
    keys = [f"sku-{n}" for n in range(9)]  # which name photos in what is drawn
    photos = of_file(tmp_path, rows.assign(split=["train"] * 3 + ["test"] * 6, key=keys))
    assert photos.classes == 2
    assert [item for _, item in photos.table.keys] == keys[3:]
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
        (lambda rows: rows.rename(columns={"path": "fil_name"}), r"Is 'fil_name' meant\? Call it"),
        (lambda rows: rows[:0], r"list\.csv has no rows"),
        (lambda rows: rows.assign(path="other/" + rows["path"]), r"9 files .* start at {folder}\. Move"),
        (
            lambda rows: pd.concat([rows, rows[1:2].assign(**{"class": "bag"})]),
            "in row 3 and of 'bag' in row 11",
        ),
        (lambda rows: rows.assign(part="query"), "has no query, or nothing in the gallery"),
        (lambda rows: rows.assign(part="probe"), r"row 2: the part 'probe' is neither query nor gallery"),
    ],
)
def test_mistakes_in_a_table_are_errors(tmp_path: Path, rows: pd.DataFrame, change: Any, words: str) -> None:
    with pytest.raises(UserError, match=words.replace("{folder}", str(tmp_path))):
        of_file(tmp_path, change(rows))


def test_class_level_is_refused_where_no_folder_is_a_class(tmp_path: Path, rows: pd.DataFrame) -> None:
    for source in (lambda: of_file(tmp_path, rows, class_level=1), lambda: collect(rows, class_level=1)):
        with pytest.raises(UserError, match=r"--class-level says which folder"):
            source()
