"""Spatial and channel attention with learned weights, as a model keeps it that DCML trained (Deng & Zhang, ICML 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    from bgbias.models.necks._attention_net import AttentionNet


class Params(Strict):
    """The feature map's size, which the net is made for."""

    channels: int = Field(ge=1)
    positions: int = Field(ge=1, description="height times width")


def build(params: Params) -> AttentionNet:
    """A net with random weights, to be filled."""
    from bgbias.models.necks._attention_net import AttentionNet

    return AttentionNet(params.channels, params.positions)
