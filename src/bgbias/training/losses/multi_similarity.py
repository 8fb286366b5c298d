"""Multi-similarity loss (Wang et al., CVPR 2019), without its miner, as Kobs & Hotho 2022 use it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.settings import Strict

TITLE = "Multi Similarity"
PLACE = 4
IMAGES_PER_CLASS = 4
DISTANCE = "cosine"


class Params(Strict):
    """Sharpness for positives and negatives, and the cosine similarity at which both turn."""

    alpha: float = Field(gt=0, description="of positives")
    beta: float = Field(gt=0, description="of negatives")
    base: float = Field(ge=-1, le=1, description="lambda in the paper")


class MinedParams(Strict):
    """As published."""

    alpha: float = Field(2.0, gt=0, description="sharpness for positives")
    beta: float = Field(40.0, gt=0, description="sharpness for negatives")
    base: float = Field(0.5, ge=-1, le=1, description="the cosine similarity at which both turn")
    epsilon: float = Field(
        0.1, ge=0, description="by how much a pair may be easier than the hardest of the other kind"
    )


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of log(1 + sum_p e^(-alpha (s - base)))/alpha + log(1 + sum_n e^(beta (s - base)))/beta."""
    from bgbias.training.losses._parts import of_library

    return of_library("MultiSimilarityLoss", DISTANCE, **params.model_dump())


def mined(params: MinedParams, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """The same of hard pairs, a mean over the anchors that have both kinds; 0 where none has.

    A negative counts whose similarity + epsilon is above that of the anchor's farthest positive, a
    positive whose similarity - epsilon is below that of its nearest negative.
    """
    from bgbias.training.losses._parts import FullPrecision

    alpha, beta, base, epsilon = params.alpha, params.beta, params.base, params.epsilon

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        cosines = embeddings @ embeddings.T
        same = labels[:, None] == labels[None]
        positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        farthest = cosines.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
        nearest = cosines.masked_fill(same, -torch.inf).amax(1, keepdim=True)
        negative = ~same & (cosines + epsilon > farthest)
        positive = positive & (cosines - epsilon < nearest)
        near = torch.where(positive, (-alpha * (cosines - base)).exp(), 0).sum(1).log1p()
        far = torch.where(negative, (beta * (cosines - base)).exp(), 0).sum(1).log1p()
        has_both = positive.any(1) & negative.any(1)
        each = torch.where(has_both, near / alpha + far / beta, 0)
        return each.sum() / has_both.sum().clamp(min=1)

    return FullPrecision(loss)


MEMBERS: dict[str, dict[str, Any]] = {
    "roth_multi_similarity": {
        "__doc__": "Multi-similarity with mining inside a batch, as the code behind MDProp's tables has it (Roth et al.,"
        " ICML 2020; docs/methods.md, section 8).",
        "TITLE": "Multi Similarity (mined)",
        "PLACE": 11,
        "IMAGES_PER_CLASS": 2,
        "Params": MinedParams,
        "build": mined,
    }
}
