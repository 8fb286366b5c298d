"""Options of the networks that predict masks, apart from them: planning must not import torch."""

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from bgbias.files.fetch import Source
from bgbias.settings import Strict, read_yaml

Colours = tuple[float, float, float]
# Of the colours R, G, B in 0..1, as usual for ImageNet.
MEAN: Colours = (0.485, 0.456, 0.406)
STD: Colours = (0.229, 0.224, 0.225)


def read_sources(masker: str) -> tuple[Source, ...]:
    """The places of one of our maskers' weights, best first, as ``published.yaml`` lists them."""
    places = read_yaml(Path(__file__).with_name("published.yaml"))[masker]
    return tuple(Source(**place) for place in places)


class SaliencyParams(Strict):
    """``weights``: the authors' .pth, rembg's .onnx, or the names of the former in a .safetensors file."""

    weights: str | None = None
    input_size: int = Field(320, ge=32, le=2048)
    batch_size: int = Field(4, ge=1)
    precision: Literal["fp32", "bf16"] = "fp32"


class GraphParams(Strict):
    """``weights``: the file that is published, or its copy."""

    weights: str | None = Field(None, description="an .onnx file, its URL, or `published`")
    input_size: int | None = Field(
        None, ge=32, le=4096, description="side in pixels at which a graph looks that takes any"
    )


class SaliencyRecipe(NamedTuple):
    """What a network wants of a photo, and what its map is.

    ``mean`` and ``std``: of R, G, B in 0..1. ``sigmoid``: the graph gives logits. ``side``: pixels, where the graph takes any
    size; None if nobody says. ``stretch``: to 0..1 per picture. ``output``: which one is the map; None: the first.
    """

    mean: Colours
    std: Colours
    sigmoid: bool
    side: int | None = None
    stretch: bool = True
    output: str | None = None
