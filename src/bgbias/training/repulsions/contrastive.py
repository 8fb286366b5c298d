"""Contrastive loss: a further negative stays beyond the margin of negatives (docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.training.repulsions import Further, mean_of_violations

if TYPE_CHECKING:
    from torch import Tensor

ALPHA = False


def loss(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss plus kappa times the mean of non-zero [neg_margin - d(anchor, negative)]+."""
    excess = (base.loss.neg_margin - further.distances(embeddings))[further.counts]
    return base(embeddings, labels) + further.kappa * mean_of_violations(excess)  # type: ignore[no-any-return]
