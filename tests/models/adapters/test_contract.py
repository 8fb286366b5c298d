"""What every kind of model must do: show photos as torchvision does, and embed them as its own library does, and as ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from adapter_cases import CASES, WITHOUT_GRADIENTS, Case
from brought_models import assert_equal, assert_gradients_reach_the_picture, ours, photos
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.models.adapters import Adapted
from bgbias.models.look import Look

# A photo's unit vector along four fixed directions, when these numbers were written: of ours, and where the library itself
# resizes beside Pillow. Only a deliberate correction changes them.
GOLDEN = {
    "sentence_transformers": [-0.776218, -0.922991, 0.139293, 1.244005],
    "mteb": [-0.776218, -0.922991, 0.139293, 1.244005],
    "run": [-0.630187, 0.388067, -0.437306, -0.502416],
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Case]:
    library, make = CASES[request.param]
    pytest.importorskip(library)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        return request.param, make(tmp_path_factory.mktemp("brought"))


def fingerprint(model: Adapted, shift: int = 0) -> np.ndarray:
    """float64 [4] of a photo that is not square; ``shift``: columns by which it is moved."""
    photo = np.roll(photos()[1], shift, axis=1)
    vector = model.embed(model.look(photo)[None])[0].astype(np.float64)
    directions: Any = seeds.generator("golden directions").normal(size=(4, model.dim))
    return directions @ vector / np.linalg.norm(vector)


def test_photos_are_embedded_as_the_library_does_it_and_as_ever(case: tuple[str, Case]) -> None:
    name, brought = case
    model = brought.model
    assert_equal(ours(model), brought.expected, brought.share)
    assert model.dim == brought.expected.shape[1]
    if name in GOLDEN:
        np.testing.assert_allclose(fingerprint(model), GOLDEN[name], atol=1e-4)
        moved = np.abs(fingerprint(model, shift=1) - GOLDEN[name]).max()
        assert moved > 1e-3, "one column of pixels is noticed"


def test_gradients_reach_the_picture_where_there_are_any(case: tuple[str, Case]) -> None:
    name, brought = case
    if name.partition(",")[0] in WITHOUT_GRADIENTS:
        assert brought.model.network is None
    else:
        assert_gradients_reach_the_picture(brought.model)


def test_every_kind_has_a_case() -> None:
    """But for histograms, and for phones' networks, which are not written here (test_files.py)."""
    alike = {"transformers": "clip", "python": "function"}
    kinds = set(plugins.names("adapters")) - {"reference", "tflite"}
    assert {alike.get(kind, kind) for kind in kinds} <= CASES.keys()


# What is seen of a photo.


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
    assert any(not np.array_equal(look(p), Look(48, 55, rounding="even")(p)) for p in photos())
    with pytest.raises(UserError, match="give --resize 224 or more"):
        Look(224, 200)
    with pytest.raises(UserError, match="there are bilinear, bicubic"):
        Look(224, 256, interpolation="cubic")  # type: ignore[arg-type]
