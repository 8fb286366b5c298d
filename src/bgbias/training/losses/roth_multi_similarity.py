"""Multi-similarity loss with mining inside a batch, as MDProp has it (Roth et al., ICML 2020; docs/methods.md, section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "Multi Similarity (mined)"
PLACE = 11
IMAGES_PER_CLASS = 2
DISTANCE = "cosine"


class Params(Strict):
    """As published."""

    alpha: float = Field(2.0, gt=0, description="sharpness for positives")
    beta: float = Field(40.0, gt=0, description="sharpness for negatives")
    base: float = Field(0.5, ge=-1, le=1, description="the cosine similarity at which both turn")
    epsilon: float = Field(
        0.1, ge=0, description="by how much a pair may be easier than the hardest of the other kind"
    )


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """A negative counts whose similarity + epsilon is above that of the anchor's farthest positive, a positive whose similarity -
    epsilon is below that of its nearest negative; anchors that lack either are left out of the mean.
    """
    from bgbias.training.losses._parts import FullPrecision
    from bgbias.training.losses._roth import MinedMultiSimilarity

    return FullPrecision(MinedMultiSimilarity(**params.model_dump()))
