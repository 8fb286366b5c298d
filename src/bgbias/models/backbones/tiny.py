"""A small network for 64-pixel photos that is trained from scratch in half a minute on one core.

4x4 patches, one residual stage at 7x7, and a gate that can learn where the object is. Group normalisation
instead of batch norm: it trains from random weights, behaves alike in training and evaluation, and leaves
nothing to freeze. With the gate and a last layer of 1x1 convolutions places mix little, so that a background
can be ignored by a network this small.
"""

from __future__ import annotations

from bgbias.compute.lazy import nn
from bgbias.models.backbones import Facts
from bgbias.models.preprocess import Preprocess
from bgbias.settings import Strict

CHANNELS = 192
Params = Strict  # nothing to choose
FACTS = Facts(56, 64, Preprocess(1 / 255, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), "rgb"), CHANNELS)


def build(params: Params) -> nn.Module:
    """The trunk, 0.1 million parameters: float [B, 3, H, W] to [B, 192, H/8, W/8]; random weights."""
    from bgbias.models.backbones._layers import ConvGroupNormRelu, ResidualBlock, SpatialGate

    return nn.Sequential(
        ConvGroupNormRelu(3, 32, kernel=4, stride=4),
        ConvGroupNormRelu(32, 64, kernel=3, stride=2),
        ResidualBlock(64),
        ConvGroupNormRelu(64, CHANNELS, kernel=1),
        SpatialGate(CHANNELS),
    )


def with_batch_norm(params: Params) -> nn.Module:
    """The trunk, 0.1 million parameters: float [B, 3, H, W] to [B, 192, H/8, W/8]; random weights, ``tiny``'s own."""
    trunk = build(params)
    for parent in list(trunk.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.GroupNorm):
                setattr(parent, name, nn.BatchNorm2d(child.num_channels))
    return trunk


MEMBERS = {
    "tiny_batch_norm": {
        "__doc__": "The network ``tiny`` with batch norm in the place of its group norm: for methods that are"
        " about batch norm, on toys.",
        "build": with_batch_norm,
    }
}
