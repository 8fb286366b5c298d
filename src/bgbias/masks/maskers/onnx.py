"""Any saliency network that is an ONNX graph: one photo in, one map out. Its file is yours, and so is its licence to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from bgbias.masks.maskers._graph_params import MEAN, STD, Colours, GraphParams

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()
Positive = Annotated[float, Field(gt=0)]


class Params(GraphParams):
    """What no graph tells of itself."""

    mean: Colours = Field(MEAN, description="of R, G and B in 0..1, taken away")
    std: tuple[Positive, Positive, Positive] = Field(STD, description="by which they are divided then")
    sigmoid: bool = Field(False, description="the graph gives logits")
    stretch: bool = Field(True, description="every photo's map to 0..1")
    output: str | None = Field(None, description="which output is the map; null: the first")


def build(params: Params, device: str) -> GraphMasker:
    """The masker on ``device`` ("cpu", "cuda"); UserError where weights, library or device are missing."""
    from bgbias.masks.onnx_saliency import SaliencyRecipe, build_masker

    recipe = SaliencyRecipe(
        params.mean, params.std, params.sigmoid, stretch=params.stretch, output=params.output
    )
    return build_masker("onnx", params, recipe, device)
