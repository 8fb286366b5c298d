"""What further negatives are to our own losses (docs/methods.md, section 6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bgbias.compute.lazy import F, Tensor, torch
from bgbias.training.losses._terms import class_logits, mean_of_violations

if TYPE_CHECKING:  # so that an option more among them is not in the digest of each
    from bgbias.training.repulsions import Further

ALPHA = True


def contrastive(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss plus kappa times the mean of non-zero [neg_margin - d(anchor, negative)]+."""
    excess = (base.loss.neg_margin - further.distances(embeddings))[further.counts]
    return base(embeddings, labels) + further.kappa * mean_of_violations(excess)  # type: ignore[no-any-return]


def triplet(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss plus kappa times the mean of non-zero [d(anchor, positive) - d(anchor, negative) + margin]+."""
    anchors, positives = (labels[:, None] == labels[None]).fill_diagonal_(False).nonzero(as_tuple=True)
    near = (embeddings[anchors] - embeddings[positives]).norm(dim=1, keepdim=True)
    excess = (near - further.distances(embeddings)[anchors] + base.loss.margin)[further.counts[anchors]]
    return base(embeddings, labels) + further.kappa * mean_of_violations(excess)  # type: ignore[no-any-return]


def multi_similarity(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss, with kappa e^(beta (alpha s - base)) for each further negative in its anchor's sum of negatives."""
    beta, turn = base.loss.beta, base.loss.base
    same = labels[:, None] == labels[None]
    others = (beta * (embeddings @ embeddings.T - turn)).masked_fill(same, -torch.inf)
    without = torch.cat((others.new_zeros(len(others), 1), others), 1).logsumexp(1, keepdim=True)
    added = beta * (further.alpha * further.similarities(embeddings) - turn) + math.log(further.kappa)
    added = added.masked_fill(~further.counts, -torch.inf)
    rise = torch.cat((without, added), 1).logsumexp(1, keepdim=True) - without
    return base(embeddings, labels) + rise.mean() / beta  # type: ignore[no-any-return]


def cross_entropy(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """Cross-entropy over the loss's own logits and one more class for each further negative of an anchor,
    never the right one, without a margin: scale * alpha * s + ln kappa.
    """
    loss = base.loss
    scale = loss.scale if hasattr(loss, "scale") else 1 / loss.temperature
    added = scale * further.alpha * further.similarities(embeddings) + math.log(further.kappa)
    added = added.masked_fill(~further.counts, -torch.inf)
    return F.cross_entropy(torch.cat((class_logits(base, embeddings, labels), added), 1), labels)


MEMBERS = {
    "contrastive": {"ALPHA": False, "loss": contrastive},
    "triplet": {"ALPHA": False, "loss": triplet},
    "multi_similarity": {"loss": multi_similarity},
    "normalized_softmax": {"loss": cross_entropy},
    "arcface": {"loss": cross_entropy},
    "cosface": {"loss": cross_entropy},
}
