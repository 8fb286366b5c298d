"""TensorFlow's "same" padding where it differs from PyTorch's: convolutions of stride 2 on maps of even size.

It adds nothing left and above, one column right and one row below.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class SamePaddedConv2d(nn.Conv2d):
    """A 3x3 convolution with stride 2 on maps of even size: padding left 0, right 1, top 0, bottom 1."""

    def forward(self, x: Tensor) -> Tensor:
        """The padded map's convolution: [B, C, H, W] to [B, D, H/2, W/2]."""
        return super().forward(F.pad(x, (0, 1, 0, 1)))
