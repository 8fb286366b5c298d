"""CosFace: a further negative is one more class of its anchor (docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from bgbias.training.repulsions import Further

ALPHA = True


def loss(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """Cross-entropy with a logit more for each further negative, alpha * s as the loss scales cosines, plus ln kappa."""
    from bgbias.training.repulsions._classes import cross_entropy

    return cross_entropy(base, base.loss.scale, embeddings, labels, further)
