"""Cue conflict: what a model follows where the object is of one class and the background of another (docs/methods.md, 9)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import OF_DONOR
from bgbias.results import rows
from bgbias.results.rows import Model, Values
from bgbias.results.uncertainty import Estimate

CONDITION = "mixed_rand"


def estimate(queries: pd.DataFrame, model: Model, draws: int) -> Estimate:
    """Of queries whose nearest photo is of the background's class or of the object's, the share of the first.

    ``queries``: one model's rows of ``scores.of_queries``, with the column ``OF_DONOR``. Unknown where nobody follows either.
    """

    def share(background: np.ndarray, of_object: np.ndarray) -> np.ndarray:
        return background / (background + of_object)

    asked = queries[(queries["setting"] == rows.QUERY_ONLY) & (queries["condition"] == CONDITION)]
    named = asked[["image_id", "label", "seed", "draw"]]
    parts = {name: named.assign(value=asked[name]) for name in (OF_DONOR, rows.PRECISION_AT_1)}
    values = Values.of(model, parts, "value", draws=dict.fromkeys(parts, draws))
    with np.errstate(invalid="ignore"):
        return values.estimate(list(parts), share)
