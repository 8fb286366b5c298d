"""MobileNetV2 1.0 with weights that TensorFlow trained (1,001 ImageNet classes): its padding and its scaling.

With torchvision's symmetric padding every layer of stride 2 would look half a step aside of where it was
trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.images import Preprocess
from bgbias.strict import Strict

if TYPE_CHECKING:
    from torch import nn

INPUT_SIZE = 224
RESIZE = 256
PREPROCESS = Preprocess(1 / 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "rgb")
CHANNELS = 1280


class Params(Strict):
    """Where the ImageNet weights are."""

    weights: str | None = Field(
        description="state dict with torchvision's names, .pth or .safetensors; null: random weights"
    )


def build(params: Params) -> nn.Module:
    """The trunk: float [B, 3, H, W], sides multiples of 32, to [B, 1280, H/32, W/32].

    A missing weights file is an error that says how to get it.
    """
    from torch import nn
    from torchvision.models import mobilenet_v2

    from bgbias.backbones import _weights
    from bgbias.backbones._same_padding import SamePaddedConv2d

    trunk = mobilenet_v2().features
    for layer in trunk.modules():
        if type(layer) is nn.Conv2d and layer.stride == (2, 2):
            # The same weights under the same names; only forward() differs.
            layer.__class__ = SamePaddedConv2d
            layer.padding = (0, 0)
    if params.weights is not None:
        _weights.load(
            trunk,
            params.weights,
            "mobilenet_v2_tf",
            "cp <where you keep it>/mobilenet_v2_imagenet.safetensors {file}",
            prefix="features.",
            head="classifier.",
        )
    return trunk
