"""What the ResNets (He et al., CVPR 2016) of torchvision have in common."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.models.backbones import Facts
from bgbias.models.backbones._imagenet import INPUT_SIZE, PREPROCESS, RESIZE

if TYPE_CHECKING:
    from torch import nn

HEAD = "fc."


def facts(channels: int) -> Facts:
    """Those of a ResNet with so many channels at its end."""
    return Facts(INPUT_SIZE, RESIZE, PREPROCESS, channels)


def published(file: str) -> tuple[Source, ...]:
    """torchvision's weights file, whose name ends in the beginning of its sha256."""
    sha256 = file.removesuffix(".pth").rpartition("-")[2]
    return (Source(place=f"https://download.pytorch.org/models/{file}", sha256=sha256),)


def trunk(name: str) -> nn.Module:
    """torchvision's ResNet ``name`` without pooling and classifier: [B, 3, H, W] to [B, channels, H/32, W/32]."""
    from torch import nn
    from torchvision import models

    whole: nn.Module = getattr(models, name)()
    kept = OrderedDict((k, v) for k, v in whole.named_children() if k not in ("avgpool", "fc"))
    return nn.Sequential(kept)
