"""Quadruplet loss over all quadruplets of a batch, distances not squared (Chen et al., CVPR 2017; docs/methods.md, section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "Quadruplet"
PLACE = 3
IMAGES_PER_CLASS = 4
DISTANCE = "l2"


class Params(Strict):
    """By how much farther a negative must be than a positive; half of it for negatives of each other."""

    margin: float = Field(ge=0, le=2)


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(a, p) - d(a, n) + m]+ over triplets plus that of [d(a, p) - d(n1, n2) + m/2]+ over
    quadruplets, whose n1 and n2 are of two further classes; no mining.
    """
    from bgbias.training.losses._parts import FullPrecision, Quadruplets

    return FullPrecision(Quadruplets(params.margin))
