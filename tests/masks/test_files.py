"""Masks that come as files, and photos with masks drawn by hand, find each other, or say why not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniatures import as_folder, as_zip
from small_study import described, load, record

from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import pairs as mask_pairs
from bgbias.masks.maskers.files import Params, from_coco, from_pictures
from bgbias.nodes import index, masks
from bgbias.photos.listing import match_masks
from bgbias.toy.render import specimens

IDS = ["birds/7.jpg", "birds/8.jpg", "cars/7.jpg"]
COLUMNS_0_AND_1 = [[0, 0, 2, 0, 2, 4, 0, 4]]


def png(level: int) -> bytes:
    return pixels.encode_png(np.full((2, 3), level, np.uint8))


@pytest.mark.parametrize("pack", [as_folder, as_zip])
def test_pictures_are_found_by_their_photos_path_or_refused(tmp_path: Path, pack: Any) -> None:
    files = {"birds/7_mask.png": png(10), "cars/7.png": png(20), "dogs/1.png": png(30)}
    given = from_pictures(pack(tmp_path / "masks", files), IDS)
    assert [None if (mask := given(i)) is None else int(mask.max()) for i in IDS] == [10, None, 20]
    for names, words in (
        (("birds/7_mask.png", "birds/7.png"), r"'birds/7\.png' and 'birds/7_mask\.png' have one name"),
        (("7.png",), r"the mask of 'birds/7\.jpg' would be 'birds/7\.png', but there is '7\.png'"),
    ):
        with pytest.raises(UserError, match=words):
            from_pictures(pack(tmp_path / f"{len(names)} masks", dict.fromkeys(names, png(1))), IDS)
    with pytest.raises(UserError, match=r"There are no masks at .*none"):
        from_pictures(tmp_path / "none", IDS)
    with pytest.raises(ValueError, match="exactly one of `folder`, `zip` and `coco`"):
        Params(folder="a", coco="b")


def outlined(name: str, *outlines: Any, number: int = 1) -> dict[str, Any]:
    """A file with one photo of 6x4 pixels."""
    return {
        "images": [{"id": number, "file_name": name, "height": 4, "width": 6}],
        "annotations": [{"image_id": number, "segmentation": o} for o in outlines],
    }


def write(folder: Path, content: Any) -> Path:
    path = folder / "coco.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_outlines_of_a_photo_are_united_and_names_may_be_the_end_of_one_photos_path(tmp_path: Path) -> None:
    left, right = np.zeros((2, 4, 6), np.uint8)
    left[:, :2] = right[1:3, 4:] = 1
    given = from_coco(write(tmp_path, outlined("8.jpg", COLUMNS_0_AND_1, [[4, 1, 6, 1, 6, 3, 4, 3]])), IDS)
    np.testing.assert_array_equal(given("birds/8.jpg"), 255 * (left | right))
    assert given("birds/7.jpg") is None
    path = write(tmp_path, outlined("7.jpg", COLUMNS_0_AND_1))
    with pytest.raises(UserError, match=r"'7\.jpg' fits the photos 'birds/7\.jpg' and 'cars/7\.jpg'"):
        from_coco(path, IDS)
    # The whole path is meant even where it ends another one.
    assert from_coco(path, ["7.jpg", "birds/7.jpg"])("7.jpg") is not None


IMAGES = [outlined(name, number=n)["images"][0] for n, name in enumerate(["8.jpg", "birds/8.jpg"], 1)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ([], "no list 'images'"),
        ({"images": [], "annotations": [{"image_id": 1}]}, r"annotations\[0\] has no 'segmentation'"),
        ({"images": [3], "annotations": []}, r"images\[0\] has no 'id'"),
        ({"images": [IMAGES[0] | {"width": None}], "annotations": []}, r"is of \[4, None\]"),
        ({"images": [IMAGES[0]] * 2, "annotations": []}, "two images have the id 1"),
        ({"images": IMAGES, "annotations": []}, r"'birds/8\.jpg' twice, as images 1 and 2"),
        (outlined("9.jpg"), r"photos are named like 'birds/7\.jpg', the file's like '9\.jpg'"),
        (outlined("8.jpg", ["a", "b"]), r"'birds/8\.jpg', annotation number 0, cannot be read"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_coco(write(tmp_path, content), IDS)("birds/8.jpg")


@pytest.mark.usefixtures("small_plugins")
def test_a_dataset_is_masked_from_files(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"folder": str(tmp_path / "drawn")}}
    study = load(tmp_path, raw)
    index.index(study, "squares")
    truth = ImageStore(study.files.at("truth", dataset="squares"))
    drawn = [i for i in truth.ids if i != "03/4.png"]
    as_folder(tmp_path / "drawn", {i.replace(".png", "_mask.png"): truth.read(i) for i in drawn})
    masks.masks(study, "squares", "drawn")
    where = {"dataset": "squares", "masker": "drawn"}
    certified = record(study, "masks_record", **where)
    assert certified["notes"]["without_mask"] == ["03/4.png"]
    assert (certified["metrics"]["without_mask"], certified["metrics"]["mean_iou"]) == (1, 1)
    # A mask drawn later is noticed, and one of another size is refused.
    before = graph.digest(study, "masks", **where)
    as_folder(tmp_path / "drawn", {"03/4.png": png(255)})
    fingerprint.cache_clear()
    assert graph.digest(study, "masks", **where) != before
    with pytest.raises(UserError, match=r"mask of '03/4\.png' is 3x2 pixels, the photo 46x40"):
        masks.masks(study, "squares", "drawn")


def test_masks_fit_without_the_folders_around_all_of_them_or_all_photos() -> None:
    photos = ["shop/a/1.jpg", "shop/b/1.jpg"]
    for drawn in (["a/1.png"], ["shop/b/1.png"], ["masks/a/1.png"], ["x/y/a/1.png", "x/y/b/1.png"]):
        mask_of = match_masks(drawn, photos, "shop", "masks")
        assert {f"shop/{mask.removesuffix('.png')[-3:]}": mask for mask in drawn} == mask_of
    for drawn, words in (
        (["c/1.png", "d/1.png"], r"the mask 'c/1\.png' fits no photo \(2 in all\)"),
        (["a/1.png", "shop/c/1.png"], "fits no photo"),
        (["a/1.png", "a/1.bmp"], r"the masks 'a/1\.bmp' and 'a/1\.png' have one name"),
    ):
        with pytest.raises(UserError, match=words):
            match_masks(drawn, photos, "shop", "masks")


# Photos with masks drawn by hand.


def test_pairs_are_read_from_a_folder_and_from_a_table_alike(tmp_path: Path) -> None:
    photos, masks = specimens(4, 32)
    names = ["odd/0", "odd/1", "even/2", "even/3"]
    files = {"odd/0_rembg.png": pixels.encode_png(masks[0])}  # neither photo nor mask
    for kind, pictures in (("image", photos), ("mask", masks)):
        files |= {f"{name}_{kind}.png": pixels.encode_png(pictures[n]) for n, name in enumerate(names)}
    rows = [f"{name}_image.png,{name}_mask.png,{name[:-2]}" for name in names]
    files["pairs.csv"] = "\n".join(["image,mask,group", *rows]).encode()
    folder = as_folder(tmp_path / "drawn", files)
    for place in (folder, folder / "pairs.csv"):
        found = mask_pairs.read_pairs(place)
        assert [p.group for p in found] == ["even", "even", "odd", "odd"]
        for pair, number in zip(found, (2, 3, 0, 1), strict=True):
            np.testing.assert_array_equal(pair.photo, photos[number])
            np.testing.assert_array_equal(pair.mask, masks[number])


WHITE, BLACK, NARROW = (
    pixels.encode_png(np.full(shape, level, np.uint8))
    for shape, level in (((4, 6), 255), ((4, 6), 0), ((4, 5), 255))
)


PAIR = {"7.jpg": WHITE, "7_mask.png": WHITE}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"7.jpg": WHITE}, r"7\.jpg has no mask; draw 7_mask\.png"),
        ({"7.jpg": WHITE, "7_mask.png": NARROW}, r"7_mask\.png is 5x4 pixels, its photo 7\.jpg 6x4"),
        ({"7.jpg": WHITE, "7_mask.png": BLACK}, r"7_mask\.png shows no object"),
        (PAIR | {"8_mask.png": WHITE}, r"8_mask\.png has no photo"),
        ({}, "holds no photo with a mask; name them like this"),
        ({"pairs.csv": b"image,truth\n7.jpg,7_mask.png\n"}, "no column 'mask'"),
        (PAIR | {"pairs.csv": b"image,mask\n9.jpg,7_mask.png\n"}, r"line 2: no file '9\.jpg' \(image\)"),
    ],
)
def test_pairs_that_cannot_be_used_are_named(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    as_folder(tmp_path, files)
    with pytest.raises(UserError, match=words):
        mask_pairs.read_pairs(tmp_path / "pairs.csv" if "pairs.csv" in files else tmp_path)
    with pytest.raises(UserError, match="There is no folder or table"):
        mask_pairs.read_pairs(tmp_path / "absent")
