"""Masks are understood however a program wrote them: levels, zeros and ones, palettes, cut-outs."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bgbias.errors import UserError
from bgbias.images import drawn_masks, pixels
from bgbias.masks import files

OBJECT = np.zeros((6, 8), np.uint8)
OBJECT[2:5, 3:7] = 1


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _palette() -> Image.Image:
    made = Image.fromarray(OBJECT, "P")
    made.putpalette([0, 0, 0, 38, 38, 38])
    return made


def _cut_out() -> Image.Image:
    photo = np.full((6, 8, 3), 90, np.uint8)
    return Image.fromarray(np.dstack([photo, OBJECT * 255]), "RGBA")


KINDS = {
    "white": lambda: Image.fromarray(OBJECT * 255),
    "zeros and ones": lambda: Image.fromarray(OBJECT),
    "two levels": lambda: Image.fromarray(OBJECT.astype(bool)),
    "palette": _palette,
    "cut-out": _cut_out,
    "white, opaque": lambda: Image.fromarray(
        np.dstack([OBJECT * 255] * 3 + [np.full_like(OBJECT, 255)]), "RGBA"
    ),
    "sixteen bits": lambda: Image.fromarray(OBJECT.astype(np.uint16) * 65535),
}


@pytest.mark.parametrize("kind", KINDS)
def test_object_is_white_however_it_was_written(tmp_path: Path, kind: str) -> None:
    data = _png(KINDS[kind]())
    assert np.array_equal(drawn_masks.decode_mask(data, kind), OBJECT * 255)
    assert np.array_equal(pixels.decode(drawn_masks.white(data, kind), kind, "L"), OBJECT * 255)
    (tmp_path / "7_mask.png").write_bytes(data)
    given = files.from_pictures(tmp_path, ["7.jpg"])("7.jpg")
    assert given is not None
    assert np.array_equal(given, OBJECT * 255)


@pytest.mark.parametrize("mode", ["L", "P"])
def test_raw_trimaps_are_no_masks(mode: str) -> None:
    trimap = Image.fromarray(np.array([[1, 2, 2], [3, 1, 2]], np.uint8), mode)
    if mode == "P":
        trimap.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    with pytest.raises(
        UserError, match=r"'cat\.png' is no mask: its grey levels are 1, 2, 3, .*Write all masks anew"
    ):
        drawn_masks.decode_mask(_png(trimap), "cat.png")


def test_soft_levels_stay() -> None:
    soft = np.linspace(0, 255, 48).reshape(6, 8).astype(np.uint8)
    assert np.array_equal(drawn_masks.decode_mask(_png(Image.fromarray(soft)), "soft"), soft)


def test_photos_of_sixteen_bits_keep_their_greys() -> None:
    ramp = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    seen = pixels.decode(_png(Image.fromarray(ramp)), "x-ray.png")
    assert seen.shape == (16, 16, 3)
    assert np.abs(seen[..., 0].ravel().astype(int) - np.arange(256)).max() <= 1
