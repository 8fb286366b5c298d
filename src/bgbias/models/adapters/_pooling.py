"""From what a network gives to one vector for each picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bgbias.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


def pooled(output: Any, how: str | None) -> Tensor:
    """Vectors [B, D] of vectors, a map [B, D, h, w] (its mean) or tokens [B, N, D] (``how``: cls, the first, or mean)."""
    output = _tensor(output)
    if output.ndim == 2 and how is None:
        return output
    if output.ndim == 4 and how in (None, "mean"):
        return output.mean((2, 3))
    if output.ndim == 3 and how is not None:
        return output[:, 0] if how == "cls" else output.mean(1)
    shape = list(output.shape)
    if output.ndim == 2:
        raise UserError(f"The network gives vectors {shape}: there is nothing to pool. Leave --pooling out.")
    if output.ndim == 3:
        raise UserError(
            f"The network gives tokens {shape}. Say --pooling cls (the first of them) or --pooling mean."
        )
    if output.ndim == 4:
        raise UserError(f"The network gives a map {shape}, which has no class token. Say --pooling mean.")
    raise UserError(
        f"The network gives {shape}, where vectors [B, D], a map [B, D, h, w] or tokens [B, N, D] are expected."
    )


def told(output: Any, how: str | None) -> str:
    """The same in words."""
    dims = _tensor(output).ndim
    if dims == 2:
        return "embedding: the network's output"
    if dims == 4:
        return "embedding: the mean of the network's feature map"
    return (
        f"embedding: {'the first token' if how == 'cls' else 'the mean of the tokens'} that the network gives"
    )


def _tensor(output: Any) -> Tensor:
    """The one tensor of an output."""
    import torch

    named = dict(output) if isinstance(output, Mapping) else {}
    if isinstance(output, (tuple, list)):
        named = {str(place): part for place, part in enumerate(output)}
    if len(named) == 1:
        (output,) = named.values()
    if isinstance(output, torch.Tensor):
        return output
    what = f"several things ({', '.join(map(str, named))})" if named else f"a {type(output).__name__}"
    raise UserError(
        f"The network gives {what}, where one tensor is expected. Wrap it: a file with a function that returns a network whose"
        " forward() gives the embedding alone, as --model file.py:function."
    )
