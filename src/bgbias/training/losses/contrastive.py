"""Contrastive loss: positives within one margin, negatives beyond another (Hadsell et al., CVPR 2006)."""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

TITLE = "Contrastive"
PLACE = 1
IMAGES_PER_CLASS = 4
DISTANCE = "l2"


class Params(Strict):
    """Margins on Euclidean distances of unit vectors, which lie in 0..2."""

    pos_margin: float = Field(ge=-2, le=2, description="below 0, every positive pair always counts")
    neg_margin: float = Field(ge=0, le=2)


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d - pos_margin]+ over positive pairs plus that of [neg_margin - d]+ over others."""
    from bgbias.training.losses._parts import of_library

    return of_library("ContrastiveLoss", DISTANCE, **params.model_dump())
