"""Which photos an attack brings a photo to: of other classes, and no two of one class. Drawn by names, the same for every model.

Each target is a random photo of the classes that are left: neither the photo's own nor those of its targets before. (The released
code of MDProp permutes half a batch, so that a photo can be its own target, or one of its class; docs/methods.md, section 8.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds
from bgbias.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def of_batch(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rows of the batch, int64 [B, count]: each row's targets. ``generator`` is one of the CPU: every device draws the same.

    Too few classes for so many targets are an error.
    """
    import torch

    classes = len(labels.unique())
    if classes <= count:
        raise UserError(
            f"An attack with {_targets(count)} needs photos of {count + 1} classes in a batch; this one has {classes}."
            " Take fewer targets, or raise train.batch_size in params.yaml."
        )
    own = labels.cpu()
    taken = own[:, None] == own[None]
    chosen = []
    for _ in range(count):
        drawn = torch.rand(taken.shape, generator=generator).masked_fill_(taken, -1.0)
        chosen.append(drawn.argmax(1))
        taken = taken | (own[chosen[-1]][:, None] == own[None])
    return torch.stack(chosen, 1).to(labels.device)


def of_photos(labels: np.ndarray, keys: Sequence[tuple[str, object]], count: int, draw: int) -> np.ndarray:
    """Rows of a split's photos with ``labels`` [N], int64 [N, count]; ``keys``: each photo's ``<dataset>|<split>`` and item.

    With u the first 8 bytes of sha256("<dataset>|<split>|attack|<draw>|<item>|<number of the target>"), from 0, a target is
    photo u mod n of the n photos of the classes that are left, in the table's order. Too few classes are an error.
    """
    classes = len(np.unique(labels))
    if classes <= count:
        raise UserError(
            f"An attack with {_targets(count)} needs photos of {count + 1} classes; there are photos of {classes}."
            " Take fewer targets."
        )
    found = np.empty((len(labels), count), np.int64)
    for row, (key_set, item) in enumerate(keys):
        left = labels != labels[row]
        for number in range(count):
            rows = np.flatnonzero(left)
            drawn = seeds.number(seeds.key(key_set, "attack", draw, item, number))
            found[row, number] = rows[drawn % len(rows)]
            left &= labels != labels[found[row, number]]
    return found


def _targets(count: int) -> str:
    return f"{count} target{'s' * (count > 1)}"
