"""MobileNetV2 1.0 (Sandler et al., CVPR 2018) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.models.backbones import Facts
from bgbias.models.backbones._imagenet import INPUT_SIZE, PREPROCESS, RESIZE
from bgbias.models.backbones._params import Pretrained as Params

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FACTS", "HEAD", "PREFIX", "PUBLISHED", "Params", "build"]

FACTS = Facts(INPUT_SIZE, RESIZE, PREPROCESS, channels=1280)
PUBLISHED = (
    Source(place="https://download.pytorch.org/models/mobilenet_v2-b0353104.pth", sha256="b0353104"),
)
PREFIX, HEAD = "features.", "classifier."


def build(params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, 1280, H/32, W/32]."""
    from torchvision.models import mobilenet_v2

    trunk: nn.Module = mobilenet_v2().features
    return trunk
