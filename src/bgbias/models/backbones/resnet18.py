"""ResNet-18 (He et al., CVPR 2016) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.models.backbones import _resnet
from bgbias.models.backbones._params import Pretrained as Params
from bgbias.models.backbones._resnet import HEAD

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FACTS", "HEAD", "PUBLISHED", "Params", "build"]

FACTS = _resnet.facts(channels=512)
PUBLISHED = _resnet.published("resnet18-f37072fd.pth")


def build(params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, 512, H/32, W/32]."""
    return _resnet.trunk("resnet18")
