"""A model that bgbias trained: ``run:data/runs/<study>/.../model.safetensors``, or the file's name alone.

Photos are seen and embedded exactly as the workflow's evaluation does it, so that the numbers are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.compute.lazy import Tensor
from bgbias.models.adapters import Adapted, Options
from bgbias.models.look import Look
from bgbias.models.settings import How

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel

OF = "bgbias"
TAKES = "a file model.safetensors"
OPTIONS: frozenset[str] = frozenset()


def adapt(which: str, options: Options) -> Adapted:
    """The saved model; a missing or foreign file is an error that names it."""
    from bgbias.models.model import load

    device = pick(options.device)
    return _adapt(load(Path(which), device), which, device)


def of_object(model: Any, options: Options, name: str) -> Adapted:
    """What ``bgbias.load`` gives, where it lies; or its network."""
    network = getattr(model, "model", model)
    device = str(network.embedder.weight.device)
    options.at_home(device, name)
    return _adapt(network, str(getattr(model, "weights", name)), device)


def _adapt(model: EmbeddingModel, name: str, device: str) -> Adapted:
    from bgbias.models.inference import embed_views, for_inference

    quick = for_inference(model)

    def vectors(views: np.ndarray) -> np.ndarray:
        return embed_views(quick, iter(views), How(device, batch_size=max(1, len(views))))

    def network(x: Tensor) -> Tensor:
        return quick(quick.preprocess(x))

    look = Look(model.input_size, model.resize)
    notes = (
        f"photos: {look} (the model's file)",
        f"embedding: of a model that bgbias trained ({model.backbone})",
    )
    return Adapted(name, look, model.dim, notes, vectors, network, device, module=quick)
