"""Pictures of no class that a view is kept away from: made of the view itself (docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bgbias.training import tiles
from bgbias.training.methods._surroundings import LARGEST, SMALLEST

if TYPE_CHECKING:
    from bgbias.training.pretraining._settings import PretrainingParams


def of(
    params: PretrainingParams, views: Tensor, masks: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A picture for each view, normalised [N, 3, S, S], and which of them count, bool [N].

    ``masks``: float [N, 1, S, S] in 0..1; ``generator``: of the processor.
    """
    if params.active_negatives == "patches":
        pictures = tiles.patches(views, params.smallest, params.largest, generator)
        return pictures, torch.ones(len(views), dtype=torch.bool, device=views.device)
    if masks is None:
        raise ValueError("negatives of background alone need batches with masks")
    box = params.active_negatives == "boxes"
    return tiles.without_objects(views, masks, SMALLEST, LARGEST, box, generator)
