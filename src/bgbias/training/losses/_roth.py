"""The two losses of MDProp's tables as the code behind it has them (Roth et al., ICML 2020; docs/methods.md, section 8)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Cosines are kept off 1, where an angle has no slope.
NEARLY_ONE = 1 - 1e-6


class MinedMultiSimilarity(nn.Module):
    """Multi-similarity of the hard pairs of each anchor, a mean over the anchors that have both kinds."""

    def __init__(self, alpha: float, beta: float, base: float, epsilon: float) -> None:
        super().__init__()
        self.alpha, self.beta, self.base, self.epsilon = alpha, beta, base, epsilon

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit vectors [B, d] with labels [B]; 0 where no anchor has hard pairs of both kinds."""
        cosines = embeddings @ embeddings.T
        same = labels[:, None] == labels[None]
        positive = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        farthest = cosines.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
        nearest = cosines.masked_fill(same, -torch.inf).amax(1, keepdim=True)
        negative = ~same & (cosines + self.epsilon > farthest)
        positive = positive & (cosines - self.epsilon < nearest)
        near = torch.where(positive, (-self.alpha * (cosines - self.base)).exp(), 0).sum(1).log1p()
        far = torch.where(negative, (self.beta * (cosines - self.base)).exp(), 0).sum(1).log1p()
        kept = positive.any(1) & negative.any(1)
        each = torch.where(kept, near / self.alpha + far / self.beta, 0)
        return each.sum() / kept.sum().clamp(min=1)


class ClampedArcFace(nn.Module):
    """ArcFace on cosines that are not below 0. Class weights [dim, n_classes] come from N(0, 1)."""

    def __init__(
        self, margin: float, scale: float, bug: bool, n_classes: int, dim: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.margin, self.scale, self.bug = margin, scale, bug
        self.W = nn.Parameter(torch.empty(dim, n_classes).normal_(generator=generator))
        self.cross_entropy = nn.CrossEntropyLoss()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit vectors [B, d] with labels [B]."""
        weights = F.normalize(self.W, dim=0).to(embeddings.dtype)
        cosines = (embeddings @ weights).clamp(1e-10, NEARLY_ONE)
        own = cosines.gather(1, labels[:, None])
        moved = (own.acos() + self.margin).cos() - own
        chosen = F.one_hot(labels, cosines.shape[1]).bool()
        # The bug: all logits of a photo move alike, which cross-entropy does not see.
        moves = moved.expand_as(cosines) if self.bug else torch.where(chosen, moved, 0)
        return self.cross_entropy(self.scale * (cosines + moves), labels)  # type: ignore[no-any-return]
