"""Cross-entropies over classes: each further negative is one more class, and never the right one."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bgbias.training.losses._parts import class_logits
from bgbias.training.repulsions import Further


def cross_entropy(base: Any, scale: float, embeddings: Tensor, labels: Tensor, further: Further) -> Tensor:
    """Over the loss's own logits and, for each further negative, scale * alpha * s + ln kappa, without a margin."""
    added = scale * further.alpha * further.similarities(embeddings) + math.log(further.kappa)
    added = added.masked_fill(~further.counts, -torch.inf)
    return F.cross_entropy(torch.cat((class_logits(base, embeddings, labels), added), 1), labels)
