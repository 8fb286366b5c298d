"""From a function that is given whole pictures, and prepares them itself, to an adapted model. It has no gradients."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from PIL import Image

from bgbias.errors import UserError
from bgbias.models.adapters import Adapted
from bgbias.models.adapters._calls import AloneCheck
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


def is_function(model: object) -> bool:
    """Whether it is a function: no network, and nothing with ``encode``."""
    return callable(model) and not hasattr(model, "parameters") and not hasattr(model, "encode")


def embed_whole(
    model: Callable[[list[np.ndarray]], Any], photos: Iterator[np.ndarray], batch_size: int
) -> np.ndarray:
    """What a function makes of whole photos, uint8 [H, W, 3] each: float32 [N, D] of unit length."""
    check, parts = AloneCheck(), list[np.ndarray]()
    while batch := list(islice(photos, batch_size)):
        vectors = as_array(model(batch))
        if vectors.ndim != 2 or len(vectors) != len(batch):
            raise UserError(
                f"The model gave {list(vectors.shape)} for {len(batch)} photos, not a vector of each."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise UserError("The model gave a vector that is zero or not finite; it has no direction.")
        check("The model", batch, vectors, lambda some: as_array(model(some)))
        parts.append(vectors / lengths)
    if not parts:
        raise UserError("There are no photos to embed.")
    return np.concatenate(parts)
