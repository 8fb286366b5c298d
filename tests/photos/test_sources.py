"""Photos as people have them: in tables, of Hugging Face, in tars with labels, in COCO files, whose outlines have to fit."""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import as_folder, as_tar
from pycocotools import mask as coco
from snapshots import shop, snapshot

from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.photos.coco import mask_of
from bgbias.photos.tables import NamedColumns
from tests.support.collected import collect

CLASSES = ["shoe 00"] * 3 + ["shoe 01"] * 3 + ["shoe 02"] * 3
PHOTOS = list(shop().values())


def check_is_the_shop(photos: PhotoCollection) -> None:
    assert (len(photos), photos.labelled, photos.classes) == (9, True, 3)
    drawn_by = dict(zip(photos.table.frame["key_item"], photos.table.frame["class_name"], strict=True))
    assert drawn_by == {sha256(photo).hexdigest(): c for photo, c in zip(PHOTOS, CLASSES, strict=True)}


def test_parquet_may_hold_the_pictures_or_their_paths(tmp_path: Path) -> None:
    as_folder(tmp_path, shop())
    for cells, first in (
        (PHOTOS, "1"),  # the row
        ([{"bytes": data, "path": f"{n}.jpg"} for n, data in enumerate(PHOTOS)], "1"),
        ([{"bytes": None, "path": name} for name in shop()], "shoe 00/0.jpg"),
    ):
        pd.DataFrame({"image": cells, "label": CLASSES}).to_parquet(tmp_path / "shop.parquet")
        photos = collect(tmp_path / "shop.parquet")
        check_is_the_shop(photos)
        assert photos.table.ids[0] == first
        assert photos.read(first) == PHOTOS[0]


def test_a_dataset_of_hugging_face_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    as_folder(tmp_path, shop())
    kinds = {"picture": datasets.Image(), "label": datasets.ClassLabel(names=sorted(set(CLASSES)))}
    features = datasets.Features(kinds | {"price": datasets.Value("float32")})
    rows = {"picture": [str(tmp_path / n) for n in shop()], "label": CLASSES, "price": [1.0] * 9}
    hugging = datasets.Dataset.from_dict(rows, features=features)
    assert collect(hugging).read("0") == PHOTOS[0]
    hugging.save_to_disk(tmp_path / "saved")
    # Of which the test is taken.
    both = datasets.DatasetDict({"train": hugging.select(range(3)), "test": hugging})
    both.save_to_disk(tmp_path / "both")
    for source in (hugging, tmp_path / "saved", both, tmp_path / "both"):
        check_is_the_shop(collect(source))
    with pytest.raises(UserError, match="has the splits a, b, and none is called test"):
        collect(datasets.DatasetDict({"a": hugging, "b": hugging}))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"saved is a dataset of Hugging Face.*'bgbias\[datasets\]'"):
        collect(tmp_path / "saved")


def test_coco_says_classes_and_masks_of_the_largest_object(tmp_path: Path) -> None:
    square = [[10, 5, 20, 5, 20, 25, 10, 25]]  # columns 10 to 19, rows 5 to 24
    # Down the columns: all of the first column, then nothing.
    runs = {"size": [36, 48], "counts": [0, 36, 36 * 47]}
    # Of each photo the category's number, the outline and the area of its objects.
    alone = (("1.jpg", 7), ("2.jpg", 9), ("3.jpg", 9), ("gone.jpg", 7))
    objects: dict[str, list[tuple[int, Any, float]]] = {n: [(kind, square, 200.0)] for n, kind in alone}
    objects |= {"0.jpg": [(9, square, 200.0), (7, runs, 300.0)], "4.jpg": []}
    described = {
        "images": [{"id": i, "file_name": n, "width": 48, "height": 36} for i, n in enumerate(objects)],
        "categories": [{"id": 7, "name": "shoe"}, {"id": 9, "name": "bag"}],
        "annotations": [
            {"id": 10 * i + k, "image_id": i, "category_id": kind, "segmentation": outline, "area": area}
            for i, outlines in enumerate(objects.values())
            for k, (kind, outline, area) in enumerate(outlines)
        ],
    }
    names = objects.keys() - {"gone.jpg"} | {"other.jpg"}
    place = as_folder(tmp_path / "shop", {f"images/{n}": snapshot(n) for n in names})
    (place / "shop.json").write_text(json.dumps(described))
    for source in (place, place / "shop.json"):
        photos = collect(source)
        assert photos.table.frame["class_name"].tolist() == ["bag"] * 2 + ["shoe"] * 2
        assert photos.left_out.keys() >= {"images/4.jpg", "images/other.jpg"}
        assert any(line.startswith("1 photos show several objects") for line in photos.remarks)
        truths = [pixels.decode(photos.truth(f"images/{n}.jpg") or b"", "mask", "L") for n in (0, 1)]
        assert [np.argwhere(truth).min(axis=0).tolist() for truth in truths] == [[0, 0], [5, 10]]
        assert [truth.sum() for truth in truths] == [255 * 36, 255 * 200]


@pytest.mark.parametrize(("kind", "pack"), [("cls", as_tar), ("json", as_folder)])
def test_labels_lie_beside_photos_as_webdataset_has_them(tmp_path: Path, kind: str, pack: Any) -> None:
    files = {f"{n:05d}.jpg": data for n, data in enumerate(PHOTOS)}
    for n, name in enumerate(CLASSES):
        files[f"{n:05d}.{kind}"] = (name if kind == "cls" else json.dumps({"label": name})).encode()
    files |= {"00009.jpg": snapshot("no label"), "read me.txt": b""}
    photos = collect(pack(tmp_path / "shard", files))
    check_is_the_shop(photos)
    assert photos.left_out.keys() == {"00009.jpg", "read me.txt"}


@pytest.mark.parametrize(("separator", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-16")])
def test_tables_are_read_as_spreadsheets_save_them(tmp_path: Path, separator: str, encoding: str) -> None:
    as_folder(tmp_path, shop())
    columns = {"path": list(shop()), "class": [f"Schuh ä {c}" for c in CLASSES]}
    frame = pd.DataFrame(columns | {"part": ["query", "gallery", ""] * 3})
    (tmp_path / "list.csv").write_bytes(frame.to_csv(index=False, sep=separator).encode(encoding))
    photos = collect(tmp_path / "list.csv")
    assert (len(photos), photos.classes) == (9, 3)
    assert photos.table.frame["class_name"][0] == "Schuh ä shoe 00"
    given = photos.table.given
    assert given is not None
    assert given.query.tolist() == [True, False, True] * 3
    assert given.gallery.tolist() == [False, True, True] * 3


def test_columns_may_be_named_and_those_of_classes_are_listed(tmp_path: Path) -> None:
    as_folder(tmp_path, shop())
    place = tmp_path / "list.csv"
    pd.DataFrame({"picture": list(shop()), "product": CLASSES, "price": range(9)}).to_csv(place, index=False)
    photos = collect(place, columns=NamedColumns(image="picture"))
    assert not photos.labelled
    assert "nobody says which photo is of which class; --label-column takes one of: product" in photos.remarks
    check_is_the_shop(collect(place, columns=NamedColumns("picture", "product")))
    with pytest.raises(UserError, match=r"has no column 'brand'; its columns are: picture, product, price"):
        collect(place, columns=NamedColumns("picture", "brand"))
    with pytest.raises(UserError, match="Name it by --image-column"):
        collect(place)


@pytest.mark.parametrize("pack", [as_folder, as_tar])
def test_a_table_among_its_photos_says_what_they_are(tmp_path: Path, pack: Any) -> None:
    rows = [f"day {n % 2}/{n}.jpg,{c},visit {n % 2}" for n, c in enumerate(CLASSES)]
    files = {f"shop/day {n % 2}/{n}.jpg": data for n, data in enumerate(PHOTOS)}
    files["shop/photos.csv"] = "\n".join(["image,label,place", *rows]).encode()
    place = pack(tmp_path / "packed", files)
    photos = collect(place)
    check_is_the_shop(photos)
    assert "photos and classes are those of shop/photos.csv" in photos.remarks
    assert photos.places[photos.table.ids[0]] == "visit 0"
    assert photos.as_json()["places"] == 2
    assert collect(place, class_level=2).classes == 2


def test_masks_of_a_closed_folder_are_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = as_folder(tmp_path / "shop", shop(2) | {"readme.txt": b"of shoes"})
    white = pixels.encode_png(np.full((36, 48), 255, np.uint8))
    masks = as_folder(tmp_path / "masks", {n.replace(".jpg", ".png"): white for n in shop(2)})
    scandir = os.scandir

    def closed(folder: Any) -> Any:
        if str(folder) == str(place / "shoe 01"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", closed)
    photos = collect(place, masks=masks)
    # Nor is the note beside the only class that is left without a mask.
    assert [photos.has_truth(name) for name in photos.table.ids] == [True] * 3
    assert photos.left_out["shoe 01"].startswith("a folder that cannot be opened (Permission denied)")


# Outlines in COCO's format.


HEIGHT, WIDTH = 60, 80
DISC = np.hypot(*np.mgrid[-25 : HEIGHT - 25, -50 : WIDTH - 50]) < 18
WIDE = np.broadcast_to(np.arange(HEIGHT)[:, None] < 30, (HEIGHT, WIDTH))  # runs along rows would be like it
NOISE = [np.random.default_rng(0).random((700, 400)) < density for density in (0.01, 0.3, 0.999)]
SQUARE = [[10.0, 20.0, 30.0, 20.0, 30.0, 40.0, 10.0, 40.0]]


def read(outline: Any) -> np.ndarray:
    entry = {"height": HEIGHT, "width": WIDTH}
    return mask_of({"segmentation": outline}, entry, "coco.json: '7.jpg', annotation 3,")


def runs(flat: np.ndarray) -> list[int]:
    """The lengths of runs, beginning with those that are not object."""
    ends = np.flatnonzero(np.diff(flat.astype(int))) + 1
    counts = np.diff([0, *ends, flat.size]).tolist()
    return [0, *counts] if flat[0] else counts


def compressed(mask: np.ndarray) -> dict[str, Any]:
    made = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": list(mask.shape), "counts": made["counts"].decode()}


@pytest.mark.parametrize("mask", [DISC, ~DISC, np.zeros_like(DISC), np.ones_like(DISC), WIDE, *NOISE])
def test_runs_are_read_as_the_reference_writes_them(mask: np.ndarray) -> None:
    for written in (compressed(mask), {"size": [*mask.shape], "counts": runs(mask.T.ravel())}):
        entry = {"height": mask.shape[0], "width": mask.shape[1]}
        assert np.array_equal(mask_of({"segmentation": written}, entry, ""), mask)


@pytest.mark.parametrize(
    ("outline", "reason"),
    [
        ([[0.1, 0.2, 0.6, 0.2, 0.6, 0.9]], "coordinates of 0 to 1, as shares of the photo"),
        ([[v * 10 for v in SQUARE[0]]], r"reaches from \(100, 200\) to \(300, 400\), and the photo is 80x60"),
        ([[1, 2, 3, 4]], "a polygon is one list of three points or more"),
        ([["a", "b"]], "cannot be read"),
        ({"size": [WIDTH, HEIGHT], "counts": [4800]}, r"It is \[height, width\] in COCO's format"),
        ({"counts": [4800]}, "has the size None"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, 10]}, "its runs sum up to 4010, and the photo has 4800"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, -200, 1000]}, "its runs sum up to 4800"),
        ({"size": [HEIGHT, WIDTH]}, "its runs are no whole numbers"),
        ({"size": [HEIGHT, WIDTH], "counts": runs(DISC.ravel())}, "gives stripes: its runs go along rows"),
    ],
)
def test_what_cannot_be_so_is_refused(outline: Any, reason: str) -> None:
    with pytest.raises(UserError, match=f"coco.json: '7.jpg', annotation 3,.*{reason}"):
        read(outline)


def test_a_polygon_lies_where_it_was_drawn_and_is_cut_off_at_the_border() -> None:
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[20:40, 10:30] = True
    assert np.array_equal(read(SQUARE), expected)
    assert read([[-1, -1, 20.5, -1, 20.5, 30, -1, 30]]).sum() == pytest.approx(20 * 30, abs=35)
    # Compressed runs may have lost letters.
    outline = compressed(DISC)
    for counts in (outline["counts"][:-2], outline["counts"][2:], outline["counts"] * 2):
        with pytest.raises(UserError, match=r"its runs sum up to \d+, and the photo has 4800 pixels"):
            read(outline | {"counts": counts})
