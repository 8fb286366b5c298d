"""Triplet loss: a further negative is farther than every positive, by the margin (docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.training.repulsions import Further, mean_of_violations

if TYPE_CHECKING:
    from torch import Tensor

ALPHA = False


def loss(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss plus kappa times the mean of non-zero [d(anchor, positive) - d(anchor, negative) + margin]+."""
    anchors, positives = (labels[:, None] == labels[None]).fill_diagonal_(False).nonzero(as_tuple=True)
    near = (embeddings[anchors] - embeddings[positives]).norm(dim=1, keepdim=True)
    excess = (near - further.distances(embeddings)[anchors] + base.loss.margin)[further.counts[anchors]]
    return base(embeddings, labels) + further.kappa * mean_of_violations(excess)  # type: ignore[no-any-return]
