"""One convolution with batch norm: the least that is a trunk."""

from torch import nn

from bgbias.models.backbones import Facts
from bgbias.models.preprocess import Preprocess
from bgbias.settings import Strict

CHANNELS = 8
FACTS = Facts(32, 36, Preprocess(1 / 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)), CHANNELS)


class Params(Strict):
    """No options."""


def build(params: Params) -> nn.Module:
    """The trunk: float [B, 3, 32, 32] to [B, 8, 7, 7]."""
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 5, stride=4), nn.BatchNorm2d(CHANNELS), nn.ReLU())
