"""ResNet-152 (He et al., CVPR 2016) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.models.backbones import _resnet
from bgbias.models.backbones._params import Pretrained as Params
from bgbias.models.backbones._resnet import HEAD

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = _resnet.facts(channels=2048)
PUBLISHED = _resnet.published("resnet152-394f9c45.pth")  # the original recipe, as in the literature


def build(params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, 2048, H/32, W/32]."""
    return _resnet.trunk("resnet152")
