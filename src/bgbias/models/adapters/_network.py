"""From a network of torch to an adapted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.compute.lazy import Tensor, torch
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options
from bgbias.models.adapters._calls import failing
from bgbias.models.adapters._preparation import Preparation
from bgbias.models.adapters._weights import list_activations
from bgbias.models.preprocess import Preprocess


def adapted(
    name: str,
    network: Any,
    preparation: Preparation,
    options: Options,
    told: tuple[str, ...] = (),
    embedding: str = "",
    batch: int | None = None,
    guesses: tuple[str, ...] = (),
) -> Adapted:
    """The network, which is moved to the device and into evaluation mode, behind its preparation.

    ``embedding`` says what its output is, if it is known to be vectors; else the output is pooled as ``options`` say. ``batch``:
    1 if it takes one picture at a time; another fixed number is an error.
    """
    if batch not in (None, 1):
        raise UserError(
            f"{name} takes {batch} pictures at once and no other number; export it for one, or for any number."
        )
    device, dtype = pick(options.device), torch.float32
    if isinstance(network, torch.nn.Module):
        with suppress(NotImplementedError):  # of exported programs, which know no modes
            network.eval()
        network.to(device)
        computed = list_activations(network)
        if computed and not any(line.startswith("activation: ") for line in told):
            told = (f"activation: {computed}", *told)
        # Input of another precision than its weights' would be refused.
        dtype = next((t.dtype for t in network.parameters() if t.is_floating_point()), dtype)
    how = None if embedding else options.pooling

    def seen(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        return (x if normalise is None else normalise(x)).to(dtype)

    def embedded(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        parts = [seen(x, normalise)] if batch is None else seen(x, normalise).split(1)
        return torch.cat([pooled(network(part), how)[0] for part in parts]).float()

    def vectors(views: np.ndarray, normalise: Preprocess | None = preparation.normalise) -> np.ndarray:
        with torch.inference_mode():
            return embedded(_batch(views, device), normalise).cpu().numpy()

    side = preparation.look.size
    black = np.zeros((1, side, side, 3), np.uint8)
    with torch.inference_mode():
        output, words = pooled(attempted(name, side, lambda: network(seen(_batch(black, device)))), how)
    lines = (preparation.told(), embedding or words, *told)
    others = {
        options: partial(vectors, normalise=normalise)
        for options, normalise in preparation.alternatives().items()
    }
    guesses = (*preparation.guesses(), *guesses)
    module = network if isinstance(network, torch.nn.Module) else None
    return Adapted(
        name, preparation.look, output.shape[1], lines, vectors, embedded, device, guesses, others, module
    )


def attempted(name: str, side: int, run: Callable[[], Any]) -> Any:
    """What ``run`` gives for a picture; any error of its own becomes one that names the model and the size."""
    remedy = " If it was made for another size, give --size."
    with failing(f"{name} fails on a picture of {side} x {side} pixels", remedy):
        return run()


def _batch(views: np.ndarray, device: str) -> Tensor:
    """Views uint8 [B, S, S, 3] as float32 [B, 3, S, S]."""
    return torch.from_numpy(np.ascontiguousarray(views)).to(device).permute(0, 3, 1, 2).float()


def pooled(output: Any, how: str | None) -> tuple[Tensor, str]:
    """Vectors [B, D] of vectors, a map [B, D, h, w] (its mean) or tokens [B, N, D] (``how``: cls, the first, or mean); and what
    they are, in words.
    """
    output = _tensor(output)
    shape = list(output.shape)
    match output.ndim, how:
        case 2, None:
            return output, "embedding: the network's output"
        case 4, None | "mean":
            return output.mean((2, 3)), "embedding: the mean of the network's feature map"
        case 3, "cls":
            return output[:, 0], "embedding: the first token that the network gives"
        case 3, "mean":
            return output.mean(1), "embedding: the mean of the tokens that the network gives"
        case 2, _:
            fault = f"vectors {shape}: there is nothing to pool. Leave --pooling out."
        case 3, _:
            fault = f"tokens {shape}. Say --pooling cls (the first of them) or --pooling mean."
        case 4, _:
            fault = f"a map {shape}, which has no class token. Say --pooling mean."
        case _:
            fault = f"{shape}, where vectors [B, D], a map [B, D, h, w] or tokens [B, N, D] are expected."
    raise UserError(f"The network gives {fault}")


def _tensor(output: Any) -> Tensor:
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
