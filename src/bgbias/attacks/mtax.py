"""MTAX: photos that lie between several classes, by their distances to a photo of each ("multi-targeted", MDProp's paper;
docs/methods.md, section 8)."""

from __future__ import annotations

from bgbias.compute.lazy import Tensor
from bgbias.errors import UserError

TITLE = "MTAX"
VARIANTS = "the number of targets"


def targets(variant: str) -> int:
    """As many as the name says, 2 or more."""
    if not (variant.isdecimal() and int(variant) > 1):
        raise UserError(
            f"'mtax:{variant}' in attacks: write a number of targets of 2 or more behind the colon, as in mtax:5;"
            " with one target it is stax."
        )
    return int(variant)


def objective(embeddings: Tensor, targets: Tensor, reduction: str) -> Tensor:
    """A scalar of embeddings [B, d] and targets [B, T, d]: the sum over photos of the mean squared Euclidean distance.

    ``l2``: of the mean distance itself; ``released``: the square of the mean over photos and targets, as the released code of
    MDProp has it, whose gradient has the same signs as that of ``l2``.
    """
    apart = embeddings[:, None] - targets
    if reduction == "squared":
        return apart.square().sum(2).mean(1).sum()
    distances = apart.norm(dim=2)
    return distances.mean().square() if reduction == "released" else distances.mean(1).sum()
