"""A gain for each channel."""

import torch
from torch import Tensor, nn

from bgbias.settings import Strict


class Params(Strict):
    channels: int


class Gains(nn.Module):
    def __init__(self, params: Params) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.ones(1, params.channels, 1, 1))

    def forward(self, features: Tensor) -> Tensor:
        return features * self.gains


build = Gains
