"""What a model sees of a photo is what torchvision, and our own evaluation, would show it."""

from __future__ import annotations

import numpy as np
import pytest
from brought_models import photos
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.models.look import Look


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize("squash", [False, True])
def test_photos_look_as_torchvision_makes_them(squash: bool, interpolation: str) -> None:
    for size, resize in ((48, 55), (33, 64)):
        side = (resize, resize) if squash else resize
        their = Compose([Resize(side, InterpolationMode(interpolation)), CenterCrop(size)])
        look = Look(size, resize, squash, interpolation, "even")  # type: ignore[arg-type]
        for photo in photos():
            expected = np.asarray(their(Image.fromarray(photo)))
            assert np.array_equal(look(photo), expected)
            assert np.array_equal(look(photo[..., 0]), expected[..., 0])  # as masks are seen


def test_rounding_down_is_that_of_our_own_evaluation() -> None:
    look = Look(48, 55)
    for photo in photos():
        expected = pixels.centre_crop(pixels.resize_short(photo, 55), 48)
        assert np.array_equal(look(photo), expected)
    moved = [not np.array_equal(look(p), Look(48, 55, rounding="even")(p)) for p in photos()]
    assert any(moved)


def test_what_cannot_be_seen_is_refused() -> None:
    with pytest.raises(UserError, match="give --resize 224 or more"):
        Look(224, 200)
    with pytest.raises(UserError, match="there are bilinear, bicubic"):
        Look(224, 256, interpolation="cubic")  # type: ignore[arg-type]
