"""The network ``tiny`` with batch norm in the place of its group norm: for methods that are about batch norm, on toys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.models.backbones import tiny

if TYPE_CHECKING:
    from torch import nn

FACTS, Params = tiny.FACTS, tiny.Params


def build(params: tiny.Params) -> nn.Module:
    """The trunk, 0.1 million parameters: float [B, 3, H, W] to [B, 192, H/8, W/8]; random weights, ``tiny``'s own."""
    from torch import nn

    trunk = tiny.build(params)
    for parent in list(trunk.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.GroupNorm):
                setattr(parent, name, nn.BatchNorm2d(child.num_channels))
    return trunk
