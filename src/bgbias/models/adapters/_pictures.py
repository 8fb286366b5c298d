"""From a function that is given whole pictures, and prepares them itself, to an adapted model. It has no gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from bgbias.errors import UserError
from bgbias.models.adapters import Adapted
from bgbias.models.adapters._network import attempted
from bgbias.models.adapters._preparation import Preparation


def adapted(
    name: str,
    embed: Callable[[list[np.ndarray]], Any],
    preparation: Preparation,
    told: tuple[str, ...],
    device: str = "cpu",
) -> Adapted:
    """``embed`` gives a vector for each of a list of pictures uint8 [S, S, 3]."""
    side = preparation.look.size

    def vectors(views: np.ndarray) -> np.ndarray:
        return as_array(embed(list(views)))

    found = attempted(name, side, lambda: vectors(np.zeros((1, side, side, 3), np.uint8)))
    if found.ndim != 2 or len(found) != 1:
        raise UserError(
            f"{name} gave {list(found.shape)} for a list of one picture, not a vector of each: [1, D]."
        )
    lines = (preparation.told(), *told)
    return Adapted(
        name, preparation.look, found.shape[1], lines, vectors, None, device, preparation.guesses()
    )


def pillow(views: list[np.ndarray]) -> list[Image.Image]:
    """The same pictures as Pillow's."""
    return [Image.fromarray(view) for view in views]


def as_array(answer: Any) -> np.ndarray:
    """float32 of an array or a tensor, or of a list of such, which may want gradients or lie on a GPU."""
    if isinstance(answer, (list, tuple)):
        return np.stack([as_array(one) for one in answer]) if answer else np.zeros((0, 0))
    return np.asarray(answer.detach().float().cpu() if hasattr(answer, "detach") else answer, np.float32)
