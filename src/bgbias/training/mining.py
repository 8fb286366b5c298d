"""Similarity mining: tuples of a batch, and what wiping out the attended places must do to them (docs/methods.md, section 7).

A model that has found all places by which it compares photos cannot compare them any more once these are wiped out
(Zheng et al. 2020, equations 3 to 5). Tuples are rows of the batch's photos, int64 [T, roles].
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def pairs(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Each photo with a random other one of its class: [T, 2]. Photos without one are left out."""
    candidates = _same(labels) & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    anchors = candidates.any(1).nonzero()[:, 0]
    return torch.stack((anchors, _random(candidates, generator)[anchors]), 1)


def with_negatives(chosen: Tensor, embeddings: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Tuples [T, r] of anchor, positive and negatives, each with one more negative, of a class that is not in it: [T, r + 1].

    It is the semi-hard one, the closest to the anchor among those that are farther than the positive; where there is none, a
    random one. A tuple for which no class is left is left out.
    """
    anchors, positives = chosen[:, 0], chosen[:, 1]
    # Not by way of a matrix product, in whose rounding close neighbours drown.
    z = embeddings.detach()
    distances = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    foreign = ~_same(labels)[chosen].any(1)
    from_anchor = distances[anchors]
    semi_hard = foreign & (from_anchor > distances[anchors, positives][:, None])
    nearest = from_anchor.masked_fill(~semi_hard, torch.inf).argmin(1)
    negatives = torch.where(semi_hard.any(1), nearest, _random(foreign, generator))
    return torch.cat((chosen, negatives[:, None]), 1)[foreign.any(1)]


def satisfied(chosen: Tensor, embeddings: Tensor) -> Tensor:
    """The tuples in which the positive is closer to the anchor than every negative."""
    apart = (embeddings[chosen[:, :1]] - embeddings[chosen[:, 1:]]).norm(dim=2)
    return chosen[(apart[:, :1] < apart[:, 1:]).all(1)]


def mining_loss(masked: Sequence[Tensor]) -> Tensor:
    """The mean over T tuples, given as the embeddings [T, d] of each role's masked photos.

    A pair shall be far apart; in a triplet positive and negative shall be equally far from the anchor; a quadruplet counts as
    the triplets of its two negatives.
    """
    anchor, positive, *negatives = masked
    to_positive = (anchor - positive).norm(dim=1)
    if not negatives:
        return -to_positive.mean()
    return torch.stack([(to_positive - (anchor - n).norm(dim=1)).abs().mean() for n in negatives]).sum()


def _same(labels: Tensor) -> Tensor:
    return labels[:, None] == labels[None]


def _random(candidates: Tensor, generator: torch.Generator) -> Tensor:
    """One of each row's candidates (bool [T, B]), all alike; drawn on the CPU, so that every device draws the same."""
    drawn = torch.rand(candidates.shape, generator=generator).to(candidates.device)
    return drawn.masked_fill(~candidates, -1.0).argmax(1)
