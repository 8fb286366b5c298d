"""From a network of torch to an adapted model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, _activation, _pooling
from bgbias.models.adapters._failing import failing
from bgbias.models.adapters._preparation import Preparation
from bgbias.models.preprocess import Preprocess

if TYPE_CHECKING:
    from torch import Tensor


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
    the only number of pictures that it takes at once, if there is one.
    """
    import torch

    device = pick(options.device)
    if isinstance(network, torch.nn.Module):
        with suppress(NotImplementedError):  # of exported programs, which know no modes
            network.eval()
        network.to(device)
        computed = _activation.names(network)
        if computed and not any(line.startswith("activation: ") for line in told):
            told = (f"activation: {computed}", *told)
    dtype = _dtype(network)
    how = None if embedding else options.pooling

    def seen(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        return (x if normalise is None else normalise(x)).to(dtype)

    def embedded(x: Tensor, normalise: Preprocess | None = preparation.normalise) -> Tensor:
        parts = [seen(x, normalise)] if batch is None else seen(x, normalise).split(batch)
        return torch.cat([_pooling.pooled(network(part), how) for part in parts]).float()

    def vectors(views: np.ndarray, normalise: Preprocess | None = preparation.normalise) -> np.ndarray:
        with torch.inference_mode():
            return embedded(_batch(views, device), normalise).cpu().numpy()

    side = preparation.look.size
    black = np.zeros((batch or 1, side, side, 3), np.uint8)
    with torch.inference_mode():
        output = attempted(name, side, lambda: network(seen(_batch(black, device))))
        dim = _pooling.pooled(output, how).shape[1]
    lines = (preparation.told(), embedding or _pooling.told(output, how), *told)
    if batch is not None and batch > 1:
        raise UserError(
            f"{name} takes {batch} pictures at once and no other number; export it for one, or for any number."
        )
    others = {
        options: partial(vectors, normalise=normalise)
        for options, normalise in preparation.alternatives().items()
    }
    guesses = (*preparation.guesses(), *guesses)
    module = network if isinstance(network, torch.nn.Module) else None
    return Adapted(name, preparation.look, dim, lines, vectors, embedded, device, guesses, others, module)


def attempted(name: str, side: int, run: Callable[[], Any]) -> Any:
    """What ``run`` gives for a picture; any error of its own becomes one that names the model and the size."""
    remedy = " If it was made for another size, give --size."
    with failing(name, f"a picture of {side} x {side} pixels", remedy):
        return run()


def _batch(views: np.ndarray, device: str) -> Tensor:
    """Views uint8 [B, S, S, 3] as float32 [B, 3, S, S]."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(views)).to(device).permute(0, 3, 1, 2).float()


def _dtype(network: Any) -> Any:
    """That of its weights: input of another precision would be refused."""
    import torch

    tensors = network.parameters() if isinstance(network, torch.nn.Module) else ()
    return next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
