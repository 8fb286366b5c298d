"""How much of what an embedding says is the object, and how much the background: a two-way layout without labels.

n objects, each in front of the same m backgrounds (docs/methods.md, section 13). Components are those of a random-effects
analysis of variance (Searle, Casella & McCulloch, Variance Components, 1992, section 4.3), their traces over the dimensions.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shares:
    """Variance components as shares of their sum, 0..1: of the ``object``, the ``background``, and their ``interaction``.

    ``negative``: the components whose estimate was below 0, which count as 0.
    """

    object: float
    background: float
    interaction: float
    negative: tuple[str, ...] = ()


def shares(crossed: np.ndarray) -> Shares:
    """Shares of variance of embeddings [n, m, d] of n objects in front of m backgrounds, at least two of each.

    Raises ValueError for fewer. All three are NaN where all embeddings are the same.
    """
    n, m = crossed.shape[:2]
    if min(n, m) < 2:
        raise ValueError(f"{n} objects and {m} backgrounds are crossed; variance needs two of each")
    values = crossed.reshape(n, m, -1).astype(np.float64)
    mean = values.mean(axis=(0, 1))
    of_objects, of_backgrounds = values.mean(axis=1) - mean, values.mean(axis=0) - mean
    rest = values - mean - of_objects[:, None] - of_backgrounds
    mean_squares = {
        "object": m * np.square(of_objects).sum() / (n - 1),
        "background": n * np.square(of_backgrounds).sum() / (m - 1),
        "interaction": np.square(rest).sum() / ((n - 1) * (m - 1)),
    }
    noise = mean_squares["interaction"]
    found = {
        "object": (mean_squares["object"] - noise) / m,
        "background": (mean_squares["background"] - noise) / n,
        "interaction": noise,
    }
    kept = {name: max(0.0, float(value)) for name, value in found.items()}
    total = sum(kept.values())
    parts = {name: value / total if total else float("nan") for name, value in kept.items()}
    return Shares(**parts, negative=tuple(name for name, value in found.items() if value < 0))
