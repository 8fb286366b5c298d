"""Options of the maskers that are ONNX graphs, apart from what runs them: planning must not import torch."""

from __future__ import annotations

from pydantic import Field

from bgbias.settings import Strict

Colours = tuple[float, float, float]
# Of the colours R, G, B in 0..1, as usual for ImageNet.
MEAN: Colours = (0.485, 0.456, 0.406)
STD: Colours = (0.229, 0.224, 0.225)


class GraphParams(Strict):
    """Options of every masker that ONNX Runtime runs."""

    weights: str | None = Field(None, description="an .onnx file, its URL, or `published`")
    input_size: int | None = Field(
        None, ge=32, le=4096, description="side in pixels at which a graph looks that takes any"
    )
