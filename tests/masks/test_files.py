"""Masks that come as files find their photos, or say why not."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco
from small_study import described, load, record

from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import policy
from bgbias.masks.maskers import files as mask_files
from bgbias.nodes import index, masks

IDS = ["birds/7.jpg", "birds/8.jpg", "cars/7.jpg"]


def png(level: int) -> bytes:
    return pixels.encode_png(np.full((2, 3), level, np.uint8))


def folder(place: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def zipped(place: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(place / "masks.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return place / "masks.zip"


@pytest.mark.parametrize("kept", [folder, zipped])
def test_pictures_are_found_by_their_photos_path(
    tmp_path: Path, kept: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    place = kept(tmp_path, {"birds/7_mask.png": png(10), "cars/7.png": png(20), "dogs/1.png": png(30)})
    given = mask_files.from_pictures(place, IDS)
    found = [None if (mask := given(i)) is None else int(mask.max()) for i in IDS]
    assert found == [10, None, 20]


def test_names_that_two_share_are_refused(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", {"birds/7_mask.png": png(1), "birds/7.png": png(2)})
    with pytest.raises(UserError, match=r"'birds/7\.png' and 'birds/7_mask\.png' have one name"):
        mask_files.from_pictures(place, IDS)
    place = folder(tmp_path / "b", {"birds/7.png": png(1)})
    with pytest.raises(UserError, match=r"photos 'birds/7\.jpg' and 'birds/7\.png' have one name"):
        mask_files.from_pictures(place, [*IDS, "birds/7.png"])


def test_masks_of_other_photos_are_an_error_that_shows_both_names(tmp_path: Path) -> None:
    place = folder(tmp_path, {"7.png": png(1)})
    with pytest.raises(
        UserError, match=r"the mask of 'birds/7\.jpg' would be 'birds/7\.png', but there is '7\.png'"
    ):
        mask_files.from_pictures(place, IDS)
    with pytest.raises(UserError, match=r"There are no masks at .*absent"):
        mask_files.from_pictures(tmp_path / "absent", IDS)


LEFT, RIGHT = np.zeros((4, 6), np.uint8), np.zeros((4, 6), np.uint8)
LEFT[:, :2] = 1
RIGHT[1:3, 4:] = 1


def outlined(name: str, *outlines: Any, number: int = 1) -> dict[str, Any]:
    """A file with one photo of 6x4 pixels."""
    return {
        "images": [{"id": number, "file_name": name, "height": 4, "width": 6}],
        "annotations": [{"image_id": number, "segmentation": o} for o in outlines],
    }


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_polygons_and_both_kinds_of_run_lengths_are_united(tmp_path: Path) -> None:
    polygon = [[0, 0, 2, 0, 2, 4, 0, 4]]  # columns 0 and 1
    compressed = coco.encode(np.asfortranarray(RIGHT))
    compressed["counts"] = compressed["counts"].decode()
    # Column by column: 17 pixels before the right part, then 2, a gap of 2, and 2 again, 1 after it.
    plain = {"size": [4, 6], "counts": [17, 2, 2, 2, 1]}
    for right in (compressed, plain):
        path = written(tmp_path / "coco.json", outlined("birds/7.jpg", polygon, right))
        mask = mask_files.from_coco(path, IDS)("birds/7.jpg")
        np.testing.assert_array_equal(mask, 255 * (LEFT | RIGHT))


def test_file_names_may_be_the_end_of_a_photos_path_but_of_one_only(tmp_path: Path) -> None:
    path = written(tmp_path / "coco.json", outlined("8.jpg", [[0, 0, 2, 0, 2, 4, 0, 4]]))
    given = mask_files.from_coco(path, IDS)
    assert given("birds/8.jpg") is not None
    assert given("birds/7.jpg") is None
    path = written(tmp_path / "coco.json", outlined("7.jpg", [[0, 0, 2, 0, 2, 4, 0, 4]]))
    with pytest.raises(UserError, match=r"'7\.jpg' fits the photos 'birds/7\.jpg' and 'cars/7\.jpg'"):
        mask_files.from_coco(path, IDS)
    # The whole path is meant even where it ends another one.
    assert mask_files.from_coco(path, ["7.jpg", "birds/7.jpg"])("7.jpg") is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "no list 'images'"),
        ({"images": [], "annotations": [{"image_id": 1}]}, r"annotations\[0\] has no 'segmentation'"),
        ({"images": [3], "annotations": []}, r"images\[0\] has no 'id'"),
        (
            {"images": [outlined("8.jpg")["images"][0] | {"width": None}], "annotations": []},
            r"is of \[4, None\]",
        ),
        (
            {"images": [*outlined("8.jpg")["images"], *outlined("cars/7.jpg")["images"]], "annotations": []},
            "two images have the id 1",
        ),
        (outlined("9.jpg"), r"photos are named like 'birds/7\.jpg', the file's like '9\.jpg'"),
    ],
)
def test_files_in_another_format_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        mask_files.from_coco(written(tmp_path / "coco.json", content), IDS)


def test_broken_json_outlines_and_doubled_photos_are_named(tmp_path: Path) -> None:
    path = tmp_path / "coco.json"
    path.write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        mask_files.from_coco(path, IDS)
    written(path, outlined("8.jpg", [["a", "b"]]))
    with pytest.raises(UserError, match=r"'birds/8\.jpg', annotation number 0, cannot be read"):
        mask_files.from_coco(path, IDS)("birds/8.jpg")
    twice = outlined("8.jpg", number=1)
    twice["images"] += outlined("birds/8.jpg", number=2)["images"]
    with pytest.raises(UserError, match=r"'birds/8\.jpg' twice, as images 1 and 2"):
        mask_files.from_coco(written(path, twice), IDS)


@pytest.mark.usefixtures("small_plugins")
def test_a_dataset_is_masked_from_files(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"folder": str(tmp_path / "drawn")}}
    study = load(tmp_path, raw)
    index.index(study, "squares")
    truth = ImageStore(study.files.at("truth", dataset="squares"))
    drawn = [i for i in truth.ids if i != "03/4.png"]
    folder(tmp_path / "drawn", {i.replace(".png", "_mask.png"): truth.read(i) for i in drawn})
    masks.masks(study, "squares", "drawn")
    where = {"dataset": "squares", "masker": "drawn"}
    certified = record(study, "masks_record", **where)
    assert certified["notes"]["without_mask"] == ["03/4.png"]
    assert (certified["metrics"]["without_mask"], certified["metrics"]["mean_iou"]) == (1, 1)
    assert policy.read_mask_table(study.files.at("mask_table", **where))["image_id"].tolist() == drawn
    # A mask drawn later is noticed, and one of another size is refused.
    before = graph.digest(study, "masks", **where)
    folder(tmp_path / "drawn", {"03/4.png": png(255)})
    fingerprint.cache_clear()
    assert graph.digest(study, "masks", **where) != before
    with pytest.raises(UserError, match=r"mask of '03/4\.png' is 3x2 pixels, the photo 46x40"):
        masks.masks(study, "squares", "drawn")


@pytest.mark.usefixtures("small_plugins")
@pytest.mark.parametrize("options", [{}, {"folder": "a", "coco": "b"}])
def test_exactly_one_place_is_given(tmp_path: Path, options: dict[str, str]) -> None:
    raw = described(tmp_path)
    raw["maskers"]["drawn"] = {"kind": "files", "options": options}
    with pytest.raises(
        UserError, match=r"maskers\.drawn\.options.*exactly one of `folder`, `zip` and `coco`"
    ):
        load(tmp_path, raw)
