"""MobileNetV2 1.0 (Sandler et al., CVPR 2018) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.models.backbones import Pretrained as Params
from bgbias.models.backbones._torchvision import facts, published

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FACTS", "HEAD", "PREFIX", "PUBLISHED", "Params", "build"]

FACTS = facts(channels=1280)
PUBLISHED = published("mobilenet_v2-b0353104.pth")
PREFIX, HEAD = "features.", "classifier."


def build(params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, 1280, H/32, W/32]."""
    from torchvision.models import mobilenet_v2

    return mobilenet_v2().features
