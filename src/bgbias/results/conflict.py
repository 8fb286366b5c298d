"""Cue conflict: what a model follows where the object is of one class, and its background or texture of another
(docs/methods.md, 9).
"""

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import OF_DONOR
from bgbias.results import rows
from bgbias.results.rows import Model, Values
from bgbias.results.uncertainty import Estimate

CONDITION = "mixed_rand"


def decision_rates(queries: pd.DataFrame, model: Model, own_column: str, donor_column: str) -> Values:
    """Columns of these names: the share of a query's draws in which its nearest photo is of its own class, and of its donor's.

    ``queries``: one model's rows of ``scores.score_queries`` in one condition, with the column ``OF_DONOR``.
    """
    keys = queries[["image_id", "label", "seed", "draw"]]
    columns = {own_column: rows.PRECISION_AT_1, donor_column: OF_DONOR}
    parts = {name: keys.assign(value=queries[column]) for name, column in columns.items()}
    return Values.from_parts(model, parts, "value")


def share(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The share of the one in what follows either; NaN where nothing does."""
    either = np.asarray(one + other)
    return np.divide(one, either, out=np.full(either.shape, np.nan), where=either != 0)


def estimate(queries: pd.DataFrame, model: Model) -> Estimate:
    """Of queries whose nearest photo is of the background's class or of the object's, the share of the first.

    ``queries``: one model's rows of ``scores.score_queries``, with the column ``OF_DONOR``. Unknown where nobody follows either.
    """
    mixed = queries[(queries["setting"] == rows.QUERY_ONLY) & (queries["condition"] == CONDITION)]
    return decision_rates(mixed, model, "object", "background").estimate(["background", "object"], share)
