"""Self-distillation between embeddings of several widths: S2SD's heads and its losses, on plain tensors
(Roth et al., ICML 2021; docs/methods.md, section 8)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bgbias.models.model import linear


class Heads(nn.Module):
    """From pooled features [B, channels] to an embedding of unit length for each width: two linear layers, ReLU in between.

    Weights are drawn by PyTorch's own rule from ``generator``. Counts the steps of a training, so that a resumed one goes on.
    """

    steps: Tensor

    def __init__(self, channels: int, widths: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(linear(channels, width, generator), nn.ReLU(), linear(width, width, generator))
            for width in widths
        )
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, pooled: Tensor) -> list[Tensor]:
        """Unit vectors [B, width], one tensor a width."""
        return [F.normalize(head(pooled), dim=1) for head in self.layers]


def pooled(features: Tensor) -> Tensor:
    """Mean plus maximum over places [B, channels] of feature maps [B, channels, h, w]."""
    return features.mean((2, 3)) + features.amax((2, 3))


def cosines(vectors: Tensor) -> Tensor:
    """Of all pairs of unit vectors [B, d], each with itself too: [B, B]."""
    return vectors @ vectors.T


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """From the teacher's similarities [B, B], which stand still, to the student's: a scalar.

    ``T^2 / B * sum p log(p / q)`` with p and q the softmax over each row of similarities / T.
    """
    p = (teacher.detach() / temperature).log_softmax(1)
    q = (student / temperature).log_softmax(1)
    return temperature**2 / len(student) * (p.exp() * (p - q)).sum()


def distilled(
    source: Tensor, targets: Sequence[Tensor], divergences: Sequence[Tensor], weight: float, kappa: float
) -> Tensor:
    """The loss of scalars: those of the embedding and of each target, and the divergence from each target.

    ``kappa`` 1 is ``(source + mean of targets) / 2 + weight * mean of divergences``, 0 the source alone.
    """
    beside = (torch.stack(list(targets)).mean() - source) / 2
    return source + kappa * (beside + weight * torch.stack(list(divergences)).mean())
