"""What stands out among photos is counted, named and told with what to do; second shots are told from photos that look alike."""

import hashlib
import io
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import ExifTags, Image

from bgbias import seeds
from bgbias.images.pixels import encode_png
from bgbias.photos import examination
from bgbias.photos.examination import PhotoValidator, thumbnail
from bgbias.photos.examination import find_near_duplicates as find
from bgbias.photos.table import Item

XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="6"/></x:xmpmeta>'


def item(name: str, label: int, data: bytes, **more: Any) -> Item:
    return Item(name, f"class {label}", label, "train", "", name, data, **more)


def photo(level: int) -> bytes:
    return encode_png(np.full((40, 60, 3), level, np.uint8))


def encoded(picture: np.ndarray, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, kind, **options)
    return stream.getvalue()


def test_findings_are_named_and_told_with_a_remedy() -> None:
    """More of them through collections, in tests/auditing/test_photos.py."""
    seen, exif = PhotoValidator({"d/1.heic": "a format"}), Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    frames = [np.full((40, 60), level, np.uint8) for level in (0, 200)]
    animated = encoded(frames[0], "GIF", save_all=True, append_images=[Image.fromarray(frames[1])])
    photos = [
        item("a/1.png", 0, photo(1)),
        item("a/2.png", 0, photo(1)),
        item("b/1.png", 1, photo(1)),
        item("b/2.gif", 1, animated),
        item("c/1.png", 2, photo(2)),
        item("e/1.png", 4, b"broken"),
        item("f/1.jpg", 5, encoded(frames[1] + 9, "JPEG", xmp=XMP)),
        item("f/2.jpg", 5, encoded(frames[1] + 19, "JPEG", exif=exif, xmp=XMP)),
    ]
    assert [p.image_id for p in photos if not seen.takes(p)] == ["e/1.png"]
    assert seen.findings == {
        "animated": ["b/2.gif"],
        "near_duplicates_under_two_labels": ["b/1.png (as a/1.png)"],
        "near_duplicates_within_a_class": ["a/2.png (as a/1.png)"],
        "classes_of_one_photo": ["class 2"],
        "folders_without_a_photo": ["d", "e"],
        "rotated_by_exif": ["f/2.jpg"],
        "rotation_in_xmp": ["f/1.jpg"],
    }
    lines = list(seen.describe("mine"))
    assert lines[0] == "mine: left out: 1 (d/1.heic): a format"
    assert "'e/1.png' cannot be decoded (no picture of a kind that is known here)" in lines[1]
    assert "mine: folders whose photos were all left out: 2 (d, e): see above why" in lines


def test_levels_that_are_scaled_or_refused_are_counted_by_rule() -> None:
    seen = PhotoValidator({})
    for name, kind, most in (
        ("a/1.tif", np.uint16, 65_535),
        ("a/2.tif", np.uint16, 4000),
        ("a/3.tif", np.uint16, 300),
        ("a/4.tif", np.float32, 1),
        ("a/5.tif", np.int32, 70_000),
    ):
        levels = np.linspace(0, most, 2400).reshape(40, 60).astype(kind)
        assert seen.takes(item(name, 0, encoded(levels, "TIFF"))) == (name == "a/1.tif")
    dark = np.full((40, 60, 3), 4000, np.uint16)
    for name in ("a/6.png", "a/7.jp2"):  # where it is looked at as where it is read
        assert not seen.takes(item(name, 0, cv2.imencode(name[3:], dark)[1].tobytes()))
    lines = "\n".join(seen.describe("mine"))
    for words in (
        "left out: photos of 16 bits whose levels are all below 16384: 4 (a/2.tif, a/3.tif, a/6.png and 1 more): ",
        "left out: photos whose levels are floating point numbers: 1 (a/4.tif): ",
        "left out: photos whose levels are whole numbers of 32 bits, or with signs: 1 (a/5.tif): ",
        "photos of 16 bits: 1 (a/1.tif): their levels 0 to 65,535 become 0 to 255",
    ):
        assert words in lines


def test_pillow_warns_once_with_the_photos_name(recwarn: pytest.WarningsRecorder) -> None:
    exif, seen = Image.Exif(), PhotoValidator({})
    exif[ExifTags.Base.Orientation] = 6
    spoilt = encoded(np.zeros((40, 60), np.uint8), "JPEG", exif=exif.tobytes()[:18])
    assert seen.takes(item("a/1.jpg", 0, spoilt))
    assert seen.takes(item("a/2.png", 0, photo(3)))
    (line,) = seen.describe("mine")
    words = "mine: photos that Pillow warns of: 1 (a/1.jpg (Corrupt EXIF data. Expecting to read 12"
    assert line.startswith(words)
    assert not recwarn


@pytest.mark.parametrize("upright", [False, True])
def test_masks_of_rotated_photos_are_judged_by_edges(upright: bool) -> None:
    """Half turns of a square photo, which no shape tells."""
    mask = np.zeros((90, 90), np.uint8)
    mask[10:45, 8:30] = 255
    plain = np.random.default_rng(0).integers(60, 80, (90, 90, 3)).astype(np.uint8)
    shown = np.where(mask[..., None] > 0, np.uint8(200), plain)
    exif, seen = Image.Exif(), PhotoValidator({}, upright=upright)
    exif[ExifTags.Base.Orientation] = 3
    for name, levels, drawn, is_taken in (
        ("stored", shown, mask, not upright),
        ("shown", shown, np.ascontiguousarray(mask[::-1, ::-1]), upright),
        ("unclear", plain, mask, True),
    ):
        data = encoded(levels, "PNG", exif=exif)
        assert seen.takes(item(name, 0, data, truth=encode_png(drawn))) == is_taken
    assert seen.findings["rotated_with_a_mask"] == ["shown" if upright else "stored"]
    assert seen.findings["rotated_with_an_unclear_mask"] == ["unclear"]
    (reason,) = seen.left_out.values()
    assert "follows the photo's edges only where one of them is turned" in reason
    assert ("turn the mask too" in reason) is upright
    assert not seen.leave_out_unclear_masks(), "another one tells"
    seen._read["rotated_with_a_mask"].clear()
    assert seen.leave_out_unclear_masks() == ["unclear"]
    assert [i for i in seen.left_out if "all 1 that tell" in seen.left_out[i]] == ["unclear"]


# Second shots.


def picture(*name: object, height: int = 180, width: int = 240) -> Image.Image:
    """Coloured patches, as large as the parts of an object."""
    patches = seeds.generator("near-duplicates", *name).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, quality: int) -> Image.Image:
    return Image.open(io.BytesIO(encoded(np.asarray(image), "JPEG", quality=quality)))


def found(pictures: list[Image.Image], labels: list[int]) -> list[list[int]]:
    thumbnails = [thumbnail(np.asarray(image.convert("L"))) for image in pictures]
    sums = [hashlib.sha256(image.tobytes()).hexdigest() for image in pictures]
    return [rows.tolist() for rows in find(np.array(thumbnails), np.array(labels), sums)]


SECOND_SHOTS = {
    "cropped by a pixel": lambda image: saved(image.crop((1, 1, *image.size)), 60),
    "half as large": lambda image: saved(image.resize((120, 90)), 20),
    "brighter": lambda image: image.point(lambda level: min(255, 1.2 * level + 10)),
    "moved a little": lambda image: image.crop((3, 2, *image.size)),
}


@pytest.mark.parametrize("kind", SECOND_SHOTS)
def test_a_second_shot_is_found_in_its_class_and_under_another_label(kind: str) -> None:
    pictures = [picture(n) for n in range(4)] + [SECOND_SHOTS[kind](picture(n)) for n in range(2)]
    # Of three shots the first stands for all.
    within, across = found([*pictures, saved(picture(0), 40)], [0, 1, 0, 1, 0, 0, 0])
    assert within == [0, 1, 2, 3, 0, 5, 0]
    assert across == [0, 1, 2, 3, 4, 1, 6]


def test_frames_skies_and_walls_are_no_view() -> None:
    framed = []
    for n in range(4):
        image = Image.new("RGB", (240, 180))
        image.paste(picture("framed", n, height=168, width=228), (6, 6))
        framed.append(image)
    sky = np.linspace(60, 200, 180)[:, None, None]
    noise = seeds.generator("skies").normal(0, 1, (4, 180, 240, 3))
    skies = [Image.fromarray((sky + 5 * n + noise[n]).astype(np.uint8)) for n in range(4)]
    walls = [Image.new("RGB", (240, 180), (50 * n, 90, 90)) for n in range(4)]
    for alike in (framed, skies, walls):
        assert found(alike, [0, 0, 1, 1]) == [[0, 1, 2, 3]] * 2
    assert found([walls[0], walls[1], walls[0]], [0, 0, 0])[0] == [0, 1, 0]  # but for the very same file


def test_of_very_many_photos_those_of_a_class_are_compared_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty photos, each saved again in its class; then under another label half of them, and copies of the others."""
    pictures = [picture(n % 20) for n in range(60)]
    pictures[20:50] = [saved(image, 60 if n < 20 else 40) for n, image in enumerate(pictures[20:50])]
    labels = [n % 20 if n < 40 else 19 - n % 20 for n in range(60)]
    monkeypatch.setattr(examination, "BLOCK", 7)
    within, across = found(pictures, labels)
    assert within == [n % 20 if n < 40 else n for n in range(60)]
    assert across == [n if n < 40 else n % 20 for n in range(60)]
    monkeypatch.setattr(examination, "ALL_PAIRS", 59)
    assert found(pictures, labels) == [within, [n if n < 50 else n % 20 for n in range(60)]]
