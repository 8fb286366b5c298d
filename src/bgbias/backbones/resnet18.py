"""ResNet-18 (He et al., CVPR 2016) as torchvision builds, trains and normalises it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.images import Preprocess
from bgbias.strict import Strict

if TYPE_CHECKING:
    from torch import nn

INPUT_SIZE = 224
RESIZE = 256
PREPROCESS = Preprocess(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb")
CHANNELS = 512


class Params(Strict):
    """Where the ImageNet weights are."""

    weights: str | None = Field(
        description="torchvision's state dict, .pth or .safetensors; null: random weights"
    )


def build(params: Params) -> nn.Module:
    """The trunk: float [B, 3, H, W] to [B, 512, H/32, W/32]; a missing weights file is an error."""
    from torch import nn
    from torchvision.models import resnet18

    from bgbias.backbones import _weights

    whole = resnet18()
    trunk = nn.Sequential(
        OrderedDict((k, v) for k, v in whole.named_children() if k not in ("avgpool", "fc"))
    )
    if params.weights is not None:
        url = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
        _weights.load(trunk, params.weights, "resnet18", f"curl -fL -o {{file}} {url}", head="fc.")
    return trunk
