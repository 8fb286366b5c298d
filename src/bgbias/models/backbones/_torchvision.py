"""What torchvision's networks have in common: how photos are prepared, where weights lie, what a ResNet's trunk is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from bgbias.files.fetch import Source
from bgbias.models.backbones import Facts
from bgbias.models.preprocess import Preprocess
from bgbias.settings import Strict

if TYPE_CHECKING:
    from torch import nn

IMAGENET = Preprocess(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb")


def facts(channels: int) -> Facts:
    """Those of a network with so many channels at its end."""
    return Facts(input_size=224, resize=256, preprocess=IMAGENET, channels=channels)


def published(file: str) -> tuple[Source, ...]:
    """torchvision's weights file, whose name ends in the beginning of its sha256."""
    sha256 = file.removesuffix(".pth").rpartition("-")[2]
    return (Source(place=f"https://download.pytorch.org/models/{file}", sha256=sha256),)


def resnet(name: str) -> Callable[[Strict], nn.Module]:
    """What builds the ResNet ``name``'s trunk, random and without pooling: [B, 3, H, W] to [B, channels, H/32, W/32]."""

    def build(params: Strict) -> nn.Module:
        from torch import nn
        from torchvision import models

        layers = dict(getattr(models, name)().named_children())
        return nn.Sequential(OrderedDict((k, v) for k, v in layers.items() if k not in ("avgpool", "fc")))

    return build
