"""What models are compared with: ``reference:colours``, a histogram of colours, and
``reference:shuffled:<model>``, a model whose weights are shuffled, layer by layer.

The one has learned nothing, the other forgot it: a model that leaves neither behind is not looking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bgbias import plugins, seeds
from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.models import adapters
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options

TAKES = "colours, or shuffled:<model>"
OPTIONS = LOOKS | NORMALISES | {"weights", "pooling"}
COLOURS, SHUFFLED = "colours", "shuffled"
BINS = 4  # of each of R, G and B


def adapt(which: str, options: Options) -> Adapted:
    """The histogram is of what the options say that a model sees; a shuffled model sees what it saw."""
    name = f"reference:{which}"
    kind, _, spec = which.partition(":")
    if which == COLOURS:
        own = Options(**{field: getattr(options, field) for field in (*LOOKS, "precision")})
        histogram = plugins.load("adapters", "python").of_object(_compute_histograms, own, name)
        return replace(histogram, guesses=(), alternatives={})
    if kind != SHUFFLED or not spec:
        raise UserError(f"There is no {name}; references are {TAKES}.")
    # Whoever loads this reference sets its precision, and notes it once.
    model = adapters.load(spec, replace(options, precision=None))
    if model.module is None:
        raise UserError(f"{model.name} has no weights that can be shuffled; leave {name} out.")
    generator = seeds.generator("shuffled weights")
    with torch.no_grad():
        for weights in model.module.parameters():
            order = torch.from_numpy(generator.permutation(weights.numel())).to(weights.device)
            weights.copy_(weights.flatten()[order].view_as(weights))
    return replace(model, name=name, guesses=(), alternatives={})


def list_references(spec: str, model: Adapted, options: Options) -> dict[str, Options]:
    """The references to compare a model with and the options of each: the histogram, which computes in its own precision, and
    the model itself if it has weights that can be shuffled.
    """
    has_weights = model.module is not None and any(True for _ in model.module.parameters())
    shuffled = {f"reference:{SHUFFLED}:{spec}": options} if has_weights else {}
    return {f"reference:{COLOURS}": replace(options, precision=None), **shuffled}


def _compute_histograms(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Square roots of the shares of 64 colours, float32 [N, 64], whose products are Bhattacharyya's."""
    vectors = []
    for picture in pictures:
        bins = picture.reshape(-1, 3) // (256 // BINS)
        of_pixels = bins @ np.array([BINS**2, BINS, 1])
        vectors.append(np.bincount(of_pixels, minlength=BINS**3) / len(of_pixels))
    return np.sqrt(np.stack(vectors)).astype(np.float32)
