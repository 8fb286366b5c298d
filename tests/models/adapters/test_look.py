"""What a model sees of a photo is what torchvision, and our own evaluation, would show it."""

from __future__ import annotations

import numpy as np
import pytest
from brought_models import photos
from PIL import Image

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.models.look import Look


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize(("size", "resize"), [(48, 55), (48, 48), (33, 64)])
def test_photos_look_as_torchvision_makes_them(
    size: int, resize: int, squash: bool, interpolation: str
) -> None:
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

    side = (resize, resize) if squash else resize
    their = Compose([Resize(side, InterpolationMode(interpolation)), CenterCrop(size)])
    look = Look(size, resize, squash, interpolation, "even")  # type: ignore[arg-type]
    for photo in photos():
        assert np.array_equal(look(photo), np.asarray(their(Image.fromarray(photo))))


def test_rounding_down_is_that_of_our_own_evaluation() -> None:
    look = Look(48, 55)
    for photo in photos():
        expected = pixels.centre_crop(pixels.resize_short(photo, 55), 48)
        assert np.array_equal(look(photo), expected)
    moved = [not np.array_equal(look(p), Look(48, 55, rounding="even")(p)) for p in photos()]
    assert any(moved)


def test_masks_are_seen_as_their_photos_are() -> None:
    """A white rectangle in the photo and in the mask stay in the same place."""
    photo, mask = np.zeros((97, 131, 3), np.uint8), np.zeros((97, 131), np.uint8)
    photo[30:60, 40:80], mask[30:60, 40:80] = 255, 255
    look = Look(48, 55, interpolation="bicubic")
    assert look(mask).shape == (48, 48)
    assert np.array_equal(look(photo)[..., 0], look(mask))


def test_what_cannot_be_seen_is_refused() -> None:
    with pytest.raises(UserError, match="give --resize 224 or more"):
        Look(224, 200)
    with pytest.raises(UserError, match="there are bilinear, bicubic"):
        Look(224, 256, interpolation="cubic")  # type: ignore[arg-type]


def test_a_look_is_told_in_words() -> None:
    assert str(Look(224, 256)) == "short side 256 pixels (bilinear), centre crop 224 x 224"
    assert str(Look(224, 224, True, "bicubic")) == "both sides 224 pixels (bicubic)"
