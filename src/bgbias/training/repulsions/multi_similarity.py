"""Multi-similarity loss: a further negative stands in its anchor's sum of negatives (docs/methods.md, section 6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from bgbias.training.repulsions import Further

ALPHA = True


def loss(base: Any, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """The loss, with kappa e^(beta (alpha s - base)) for each further negative in the sum over negatives."""
    import torch

    beta, turn = base.loss.beta, base.loss.base
    own = labels[:, None] == labels[None]
    others = (beta * (embeddings @ embeddings.T - turn)).masked_fill(own, -torch.inf)
    without = torch.cat((others.new_zeros(len(others), 1), others), 1).logsumexp(1, keepdim=True)
    added = beta * (further.alpha * further.similarities(embeddings) - turn) + math.log(further.kappa)
    added = added.masked_fill(~further.counts, -torch.inf)
    rise = torch.cat((without, added), 1).logsumexp(1, keepdim=True) - without
    return base(embeddings, labels) + rise.mean() / beta  # type: ignore[no-any-return]
