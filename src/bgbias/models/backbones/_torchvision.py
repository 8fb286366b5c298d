"""ResNets (He et al., CVPR 2016) as torchvision builds, trains and normalises them; and what its other networks have in common
with them: how photos are prepared, where weights lie."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from bgbias.compute.lazy import nn
from bgbias.files.fetch import Source
from bgbias.models.backbones import Facts, Pretrained
from bgbias.models.preprocess import IMAGENET

Params = Pretrained
HEAD = "fc."


def facts(channels: int) -> Facts:
    """Those of a network with so many channels at its end."""
    return Facts(input_size=224, resize=256, preprocess=IMAGENET, channels=channels)


def published(file: str) -> tuple[Source, ...]:
    """torchvision's weights file, whose name ends in the beginning of its sha256."""
    sha256 = file.removesuffix(".pth").rpartition("-")[2]
    return (Source(place=f"https://download.pytorch.org/models/{file}", sha256=sha256),)


def _resnet(name: str, file: str, channels: int) -> dict[str, Any]:

    def build(params: Pretrained) -> nn.Module:
        """The trunk, random and without pooling: [B, 3, H, W] to [B, channels, H/32, W/32]."""
        from torchvision import models

        layers = dict(getattr(models, name)().named_children())
        return nn.Sequential(OrderedDict((k, v) for k, v in layers.items() if k not in ("avgpool", "fc")))

    number = name.removeprefix("resnet")
    return {
        "__doc__": f"ResNet-{number} (He et al., CVPR 2016) as torchvision builds, trains and normalises it.",
        "FACTS": facts(channels),
        "PUBLISHED": published(file),
        "build": build,
    }


# The original recipe, as in the literature.
RESNET50 = _resnet("resnet50", "resnet50-0676ba61.pth", 2048)
MEMBERS = {
    "resnet18": _resnet("resnet18", "resnet18-f37072fd.pth", 512),
    "resnet50": RESNET50,
    "resnet50_96": RESNET50
    | {
        "__doc__": "``resnet50`` on photos of 96 pixels, as STL-10's are: a fifth of the cost. What is"
        " published was trained on larger ones.",
        "FACTS": replace(facts(2048), input_size=96, resize=96),
    },
    "resnet152": _resnet("resnet152", "resnet152-394f9c45.pth", 2048),
}
