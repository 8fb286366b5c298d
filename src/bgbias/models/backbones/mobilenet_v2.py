"""MobileNetV2 1.0 (Sandler et al., CVPR 2018) as torchvision builds, trains and normalises it; and with weights that
TensorFlow trained (1,001 ImageNet classes): its padding and its scaling.

With torchvision's symmetric padding every layer of stride 2 would look half a step aside of where TensorFlow's was
trained. Its weights are no public file: a state dict with torchvision's names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bgbias.compute.lazy import nn
from bgbias.models.backbones import Facts, Pretrained, _torchvision
from bgbias.models.preprocess import Preprocess

Params = Pretrained
FACTS = _torchvision.facts(channels=1280)
PUBLISHED = _torchvision.published("mobilenet_v2-b0353104.pth")
PREFIX, HEAD = "features.", "classifier."


def build(params: Params) -> nn.Module:
    """The trunk, random: float [B, 3, H, W] to [B, 1280, H/32, W/32]."""
    from torchvision.models import mobilenet_v2

    return mobilenet_v2().features


def build_as_tensorflow(params: Params) -> nn.Module:
    """The same with TensorFlow's padding; sides are multiples of 32."""
    from bgbias.models.backbones._layers import SamePaddedConv2d

    trunk = build(params)
    for layer in trunk.modules():
        if type(layer) is nn.Conv2d and layer.stride == (2, 2):
            # The same weights under the same names; only forward() differs.
            layer.__class__ = SamePaddedConv2d
            layer.padding = (0, 0)
    return trunk


TENSORFLOW = Facts(224, 256, Preprocess(1 / 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "rgb"), channels=1280)
MEMBERS: dict[str, dict[str, Any]] = {
    "mobilenet_v2_tf": {
        "__doc__": "MobileNetV2 1.0 with weights that TensorFlow trained (1,001 ImageNet classes): its padding and its"
        " scaling.",
        "FACTS": TENSORFLOW,
        "PUBLISHED": (),
        "build": build_as_tensorflow,
    },
    "mobilenet_v2_tf_112": {
        "__doc__": "``mobilenet_v2_tf`` on photos of half the side: a quarter of the cost, where a CPU attacks or"
        " trains on real photos.",
        "FACTS": replace(TENSORFLOW, input_size=112, resize=128),
        "PUBLISHED": (),
        "build": build_as_tensorflow,
    },
}
