"""Saliency networks that are ONNX graphs mask as a plain twin of the documented recipe does; errors name the step to take."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from PIL import Image
from saliency_graphs import BIAS, SIDE, WEIGHTS, graph

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.masks.onnx_saliency import GraphMasker
from bgbias.masks.policy import Mask

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Whether the published graph ends in a sigmoid, and what is done to its photos.
KINDS = {
    "isnet": (True, MEAN, (1.0, 1.0, 1.0)),
    "birefnet": (False, MEAN, STD),
    "birefnet_lite": (False, MEAN, STD),
}
SIZES = ((SIDE, SIDE), (40, 90), (120, 50), (1, 7))


def photo(height: int, width: int) -> np.ndarray:
    return seeds.generator("saliency", height, width).integers(0, 200, (height, width, 3), np.uint8)


def masker(kind: str, weights: Path | str | None, device: str = "cpu", **options: object) -> GraphMasker:
    module = plugins.load("maskers", kind)
    return module.build(module.Params(weights=weights and str(weights), **options), device)


Colours = tuple[float, ...]


def expected(
    picture: np.ndarray, mean: Colours, std: Colours, stretched: bool = True
) -> tuple[np.ndarray, float]:
    """A photo's mask and confidence, in double precision."""
    square = np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.LANCZOS), float)
    logits = (square / square.max() - mean) / std @ WEIGHTS.astype(float) + BIAS
    saliency = 1 / (1 + np.exp(-logits))
    confidence = saliency.max()
    if stretched:
        saliency = (saliency - saliency.min()) / (saliency.max() - saliency.min())
    small = Image.fromarray((saliency * 255).astype(np.uint8))
    return np.asarray(small.resize(picture.shape[1::-1], Image.Resampling.LANCZOS)), confidence


def assert_is(mask: Mask, wanted: tuple[np.ndarray, float]) -> None:
    """To a grey level, by which single precision may be truncated to another one, and what LANCZOS makes of that."""
    alpha, confidence = wanted
    assert mask.alpha.dtype == np.uint8
    assert mask.alpha.shape == alpha.shape
    assert np.abs(mask.alpha.astype(int) - alpha).max() <= 2
    assert mask.confidence == pytest.approx(confidence, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_those_of_the_documented_recipe_at_any_size(kind: str, tmp_path: Path) -> None:
    sigmoid, mean, std = KINDS[kind]
    photos = [photo(*size) for size in SIZES]
    make = masker(kind, graph(tmp_path / "net.onnx", sigmoid=sigmoid))
    for picture, mask, later in zip(photos, make(photos), make(photos[::-1])[::-1], strict=True):
        assert_is(mask, expected(picture, mean, std))
        np.testing.assert_array_equal(mask.alpha, later.alpha)
    assert make([]) == []
    # A graph of any size looks at the usual one, or at what is asked for.
    file = graph(tmp_path / "any.onnx", sigmoid=sigmoid, shape=("batch", 3, "height", "width"))
    (mask,) = masker(kind, file, input_size=SIDE)(photos[1:2])
    assert_is(mask, expected(photos[1], mean, std))
    assert masker(kind, file)(photos[1:2])[0].alpha.shape == photos[1].shape[:2]


def test_a_graph_of_ones_own_is_run_as_its_options_say(tmp_path: Path) -> None:
    picture = photo(40, 90)
    half = (0.5, 0.5, 0.5)
    logits = graph(tmp_path / "logits.onnx", sigmoid=False)
    (mask,) = masker("onnx", logits, mean=half, std=half, sigmoid=True)([picture])
    assert_is(mask, expected(picture, half, half))
    finished = graph(tmp_path / "finished.onnx", outputs=("side", "map"))
    (mask,) = masker("onnx", finished, stretch=False)([picture])
    assert_is(mask, expected(picture, MEAN, STD, stretched=False))
    (halved,) = masker("onnx", finished, stretch=False, output="map")([picture])
    assert halved.confidence == pytest.approx(mask.confidence / 2, abs=1e-5)


def test_a_graph_whose_masks_make_no_sense_is_refused_once_over_calls(tmp_path: Path) -> None:
    """What makes no sense, test_quality.py says. The stand-in's weights find red on green."""
    plain, discs = np.full((40, 40, 3), 9, np.uint8), []
    for n in range(8):
        away = np.hypot(*np.mgrid[-20:20, -20 - n : 20 - n])
        discs.append(np.where((away < 10)[..., None], [200, 20, 20], [20, 200, 20]).astype(np.uint8))
    make = masker("onnx", graph(tmp_path / "net.onnx"))
    make([plain] * 4 + discs)  # it finds objects in half of the first ones
    assert len(make([plain] * 8)) == 8
    blind = graph(tmp_path / "blind.onnx", bias=-14.0)
    make = masker("onnx", blind, stretch=False)
    make(discs[:7])
    words = r"of the first 8 masks 8 show nothing.* give mean, std.*: isnet, birefnet"
    with pytest.raises(UserError, match=words):
        make(discs[7:])
    kept: list[Mask] = []
    with pytest.raises(UserError, match=words):
        kept.extend(masker("onnx", blind, stretch=False).one_by_one(discs))
    assert not kept, "else the next command would take them for good ones"
    assert len(masker("isnet", blind)(discs)) == 8  # whose recipe is known


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        ({"inputs": ("photo", "points")}, {}, r"has 2 inputs \(photo, points\)"),
        ({"shape": (1, 3, 32, 64)}, {}, r"takes tensor\(float\) \[1, 3, 32, 64\], not a photo \[1, 3, S, S\]"),
        ({"kind": TensorProto.DOUBLE}, {}, r"takes tensor\(double\)|could not be loaded"),
        ({"shape": ("batch", 3, "height", "width")}, {}, r"photos of any size; .*`input_size: 320`, for example"),
        ({}, {"input_size": 64}, "photos of 32 pixels and no others; leave `input_size: 64` out"),
        ({}, {"output": "mask"}, "has no output 'mask'; name one of: output_image"),
        # What it gives.
        ({"maps": 2}, {}, r"gives \[1, 2, 32, 32\] as 'output_image', not one map"),
        ({"sigmoid": False}, {}, r"gives values from -.*not from 0 to 1.*`sigmoid: true`"),
        ({"sigmoid": False, "bias": float("nan")}, {"sigmoid": True}, "gives values from nan to nan"),
    ],
)  # fmt: skip
def test_graphs_that_are_no_saliency_networks_are_refused(
    made: dict[str, object], options: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        masker("onnx", graph(tmp_path / "net.onnx", **made), **options)([photo(40, 90)])  # type: ignore[arg-type]


def test_files_that_are_missing_or_no_graphs_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file .*none\.onnx; put it there \(published: https.*isnet-gen"):
        masker("isnet", tmp_path / "none.onnx")
    page = tmp_path / "page.onnx"
    page.write_text("<html>not found</html>")
    with pytest.raises(UserError, match=r"'isnet' could not be loaded: .*Make or copy .*page\.onnx again"):
        masker("isnet", page)
    kept = tmp_path / "isnet.safetensors"
    state_dicts.write_state_dict({}, kept)
    with pytest.raises(
        UserError, match=r"holds no ONNX graph, which masker 'isnet' is .*name an \.onnx file"
    ):
        masker("isnet", kept)
    file = graph(tmp_path / "net.onnx")
    assert masker("isnet", file).device == "cpu"
    with pytest.raises(UserError, match="Unknown device 'gpu'"):
        masker("isnet", file, "gpu")
