"""How BiRefNets of every size are run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.masks.maskers._graph_params import MEAN, STD, GraphParams

if TYPE_CHECKING:
    from bgbias.masks.onnx_saliency import GraphMasker


def build(name: str, params: GraphParams, device: str) -> GraphMasker:
    """The masker ``name`` by rembg's recipe, whose mean and standard deviation are the authors' own; the graphs give logits."""
    from bgbias.masks.onnx_saliency import SaliencyRecipe, build_masker

    return build_masker(name, params, SaliencyRecipe(MEAN, STD, sigmoid=True, side=1024), device)
