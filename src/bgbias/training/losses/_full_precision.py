"""The one place that keeps a loss out of mixed precision."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FullPrecision(nn.Module):
    """A loss that is computed in float32 (float64 stays) even inside an autocast region.

    Scales and exponents of up to several hundred stand on cosines: bfloat16's three digits would decide which
    pairs count. pytorch-metric-learning also recasts class weights to the embeddings' type, so bfloat16 must
    never get there.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit-length embeddings [B, d] with labels [B]."""
        if embeddings.dtype != torch.float64:
            embeddings = embeddings.float()
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.loss(embeddings, labels)
