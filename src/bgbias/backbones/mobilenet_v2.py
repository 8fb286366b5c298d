"""MobileNetV2 1.0 (Sandler et al., CVPR 2018) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.images import Preprocess
from bgbias.strict import Strict

if TYPE_CHECKING:
    from torch import nn

INPUT_SIZE = 224
RESIZE = 256
PREPROCESS = Preprocess(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb")
CHANNELS = 1280


class Params(Strict):
    """Where the ImageNet weights are."""

    weights: str | None = Field(
        description="torchvision's state dict, .pth or .safetensors; null: random weights"
    )


def build(params: Params) -> nn.Module:
    """The trunk: float [B, 3, H, W] to [B, 1280, H/32, W/32]; a missing weights file is an error."""
    from torchvision.models import mobilenet_v2

    from bgbias.backbones import _weights

    trunk = mobilenet_v2().features
    if params.weights is not None:
        url = "https://download.pytorch.org/models/mobilenet_v2-b0353104.pth"
        _weights.load(
            trunk,
            params.weights,
            "mobilenet_v2",
            f"curl -fL -o {{file}} {url}",
            prefix="features.",
            head="classifier.",
        )
    return trunk
