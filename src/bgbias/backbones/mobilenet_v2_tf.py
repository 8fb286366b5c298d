"""MobileNetV2 1.0 with weights that TensorFlow trained (1,001 ImageNet classes): its padding and its scaling.

TensorFlow's "same" padding of a 3x3 convolution with stride 2 on an even map adds nothing left and above, one column right
and one row below. With torchvision's symmetric padding every such layer would look half a step aside of where it was trained.
"""

from __future__ import annotations

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from bgbias.backbones import _weights
from bgbias.images import Preprocess
from bgbias.strict import Strict

INPUT_SIZE = 224
RESIZE = 256
PREPROCESS = Preprocess(1 / 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "rgb")
CHANNELS = 1280


class Params(Strict):
    """Where the ImageNet weights are."""

    weights: str | None = Field(
        description="state dict named as torchvision's mobilenet_v2, .pth or .safetensors; null: random weights"
    )


class SamePaddedConv2d(nn.Conv2d):
    """A 3x3 convolution with stride 2 on maps of even size, padded as TensorFlow pads: left 0, right 1, top 0, bottom 1."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)))


def build(params: Params) -> nn.Module:
    """The trunk: float [B, 3, H, W], sides multiples of 32, to [B, 1280, H/32, W/32]; a missing file is an error."""
    from torchvision.models import mobilenet_v2

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
