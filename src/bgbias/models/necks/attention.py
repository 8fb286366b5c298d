"""Spatial and channel attention with learned weights, as a model keeps it that DCML trained (Deng & Zhang, ICML 2022)."""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn
from bgbias.settings import Strict


class Params(Strict):
    """The feature map's size, which the net is made for."""

    channels: int = Field(ge=1)
    positions: int = Field(ge=1, description="height times width")


def build(params: Params) -> nn.Module:
    """A net with random weights, to be filled."""
    from bgbias.models.necks._attention_net import AttentionNet

    return AttentionNet(params.channels, params.positions)
