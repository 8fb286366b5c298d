"""Photos that show one view are told from photos that only look alike."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from bgbias import seeds
from bgbias.photos import examination
from bgbias.photos.examination import find_near_duplicates as find
from bgbias.photos.examination import thumbnail


def picture(*name: object, height: int = 180, width: int = 240) -> Image.Image:
    """Coloured patches, as large as the parts of an object."""
    patches = seeds.generator("near-duplicates", *name).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, quality: int) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return Image.open(stream)


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
