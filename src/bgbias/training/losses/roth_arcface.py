"""ArcFace as MDProp's tables have it, with or without the bug of the code behind them (Roth et al., ICML 2020; docs/methods.md,
section 8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "ArcFace (clamped)"
PLACE = 12
IMAGES_PER_CLASS = 2
CLASS_WEIGHTS = True
DISTANCE = "cosine"


class Params(Strict):
    """As published."""

    margin: float = Field(0.5, ge=0, le=math.pi / 2, description="radians")
    scale: float = Field(16.0, gt=0)
    lr: float = Field(5e-4, gt=0, description="learning rate of the class weights")
    bug: bool = Field(
        False,
        description="the margin moves all logits of a photo alike, which leaves a softmax without margin",
    )


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's replaced by cos(angle + margin); cosines below 0 count as 0.

    Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and normalised in use.
    """
    from bgbias.training.losses._parts import FullPrecision
    from bgbias.training.losses._roth import ClampedArcFace

    return FullPrecision(ClampedArcFace(params.margin, params.scale, params.bug, n_classes, dim, generator))
