"""Photos without their objects: nothing of these is left, and each is made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.images.inpainting import remove_object
from bgbias.photos import picture_cache

SIDE = 40
PHOTO = seeds.generator("inpainting").integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def test_nothing_of_an_objects_rim_is_left() -> None:
    """Soft edges reach beyond the mask's half: whatever colour the object has, what fills its place is the same."""
    away = np.hypot(*np.mgrid[-18:22, -20:20])
    soft = np.rint(255 * np.clip((9 - away) / 4, 0, 1)).astype(np.uint8)
    repainted = np.where(soft[..., None] > 0, 255 - PHOTO, PHOTO)
    assert not np.array_equal(repainted, PHOTO)
    np.testing.assert_array_equal(remove_object(PHOTO, soft), remove_object(repainted, soft))


def test_a_photo_that_is_all_object_leaves_grey() -> None:
    assert np.unique(remove_object(PHOTO, np.full((SIDE, SIDE), 255, np.uint8))).tolist() == [128]


def pictures(folder: Path, name: str, mode: str = "RGB", **kept: np.ndarray) -> picture_cache.Pictures:
    with writing(folder / f"{name}.zip") as store:
        for image_id, picture in kept.items():
            store.add(f"{image_id}.png", pixels.encode_png(picture))
    return picture_cache.pictures(folder / f"{name}.zip", SIDE, folder, mode)


def test_filled_photos_are_made_once_and_again_with_other_masks(tmp_path: Path) -> None:
    photos, calls = pictures(tmp_path, "photos", a=PHOTO, b=PHOTO), []

    def make(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
        calls.append(int(mask.max()))
        return photo - mask[..., None]

    for name, level in (("masks", 255), ("masks", 255), ("others", 0)):
        masks = pictures(tmp_path, name, "L", a=np.full((SIDE, SIDE), level, np.uint8))
        made = picture_cache.combined("made", tmp_path, photos, masks, make)
        assert made.ids == ["a.png"]
    assert calls == [255, 0]
    np.testing.assert_array_equal(made.get("a.png"), photos.get("a.png"))
    wide = pictures(tmp_path, "wide", "L", a=np.zeros((SIDE, SIDE + 9), np.uint8))
    with pytest.raises(UserError, match=r"The mask of 'a\.png' is \(40, 49\), its photo \(40, 40\)"):
        picture_cache.combined("made", tmp_path, photos, wide, remove_object)
