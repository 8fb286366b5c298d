"""The two losses of MDProp's tables as the code behind it has them: ArcFace with or without that code's bug, and
multi-similarity with mining inside a batch (Roth et al., ICML 2020; docs/methods.md, section 8).
"""

from __future__ import annotations

import math

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

IMAGES_PER_CLASS = 2
DISTANCE = "cosine"


class ArcFace(Strict):
    """As published."""

    margin: float = Field(0.5, ge=0, le=math.pi / 2, description="radians")
    scale: float = Field(16.0, gt=0)
    lr: float = Field(5e-4, gt=0, description="learning rate of the class weights")
    bug: bool = Field(False, description="the margin moves all logits alike: a softmax without one")


class MultiSimilarity(Strict):
    """As published."""

    alpha: float = Field(2.0, gt=0, description="sharpness for positives")
    beta: float = Field(40.0, gt=0, description="sharpness for negatives")
    base: float = Field(0.5, ge=-1, le=1, description="the cosine similarity at which both turn")
    epsilon: float = Field(
        0.1, ge=0, description="by how much a pair may be easier than the hardest of the other kind"
    )


def arcface(params: ArcFace, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's replaced by cos(angle + margin); cosines below 0
    count as 0.

    Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and normalised in use.
    """
    from bgbias.training.losses._parts import ClampedArcFace, FullPrecision

    return FullPrecision(ClampedArcFace(params.margin, params.scale, params.bug, n_classes, dim, generator))


def multi_similarity(
    params: MultiSimilarity, n_classes: int, dim: int, generator: torch.Generator
) -> nn.Module:
    """A negative counts whose similarity + epsilon is above that of the anchor's farthest positive, a
    positive whose similarity - epsilon is below that of its nearest negative; anchors that lack either
    are left out of the mean.
    """
    from bgbias.training.losses._parts import FullPrecision, MinedMultiSimilarity

    return FullPrecision(MinedMultiSimilarity(**params.model_dump()))


MEMBERS = {
    "roth_multi_similarity": {
        "TITLE": "Multi Similarity (mined)",
        "PLACE": 11,
        "Params": MultiSimilarity,
        "build": multi_similarity,
    },
    "roth_arcface": {
        "TITLE": "ArcFace (clamped)",
        "PLACE": 12,
        "CLASS_WEIGHTS": True,
        "Params": ArcFace,
        "build": arcface,
    },
}
