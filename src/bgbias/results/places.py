"""What another place costs, what composites cost the same model, and how much of the former backgrounds carry (docs/methods.md,
section 16). Queries count so that all places of a class count alike, however many photos each has.

natural drop     originals, asked at their own place and at another one
composite drop   originals and objects on random backgrounds, both asked at their own place
background       objects on their class's background here and asked here (A), on it and asked there (B), on their class's
                 background there and asked there (C): of A - B the background of the place wins back C - B
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bgbias.evaluation.across_places import (
    OTHER_PLACE,
    OTHER_WITHOUT_LENDERS,
    SAME_PLACE,
    SAME_WITHOUT_LENDERS,
)
from bgbias.photos.places import PLACE, weights
from bgbias.results import rows, uncertainty
from bgbias.results.rows import CLEAN, CORRUPTED, Model, Values
from bgbias.results.uncertainty import UNKNOWN, Estimate

LEVELS = {"here": (SAME_PLACE, CLEAN), "there": (OTHER_PLACE, CLEAN), "composite": (SAME_PLACE, CORRUPTED)}
# A, B and C above.
CARRIED = {
    "here_on_here": (SAME_WITHOUT_LENDERS, "class_here"),
    "there_on_here": (OTHER_WITHOUT_LENDERS, "class_here"),
    "there_on_there": (OTHER_WITHOUT_LENDERS, "class_there"),
}


@dataclass(frozen=True)
class AcrossPlaces:
    """MAP@R and its drops, 0..1, of the queries that have photos to find at both places: their own (``here``) and another one
    (``there``); ``composite`` on random backgrounds here.

    ``natural`` and ``on_composites``: relative drops; ``points``: of the natural one. ``carried``: the share that the background
    carries of what pasted objects lose there, unknown where objects on backgrounds of their class lose nothing significant.
    """

    queries: int
    classes: int
    here: Estimate
    there: Estimate
    composite: Estimate
    natural: Estimate
    points: Estimate
    on_composites: Estimate
    carried: Estimate = UNKNOWN


def share_of_background(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """(C - B) / (A - B) of the levels above; of no drop (A = B) it is NaN."""
    nothing = np.full(np.shape(a), np.nan)
    return np.divide(c - b, a - b, out=nothing, where=np.asarray(a) != np.asarray(b))


def values_for_views(queries: pd.DataFrame, model: Model, views: Mapping[str, tuple[str, str]]) -> Values:
    """``rows.values_for_views`` of settings of places, each query's values times its weight; NaN unless it has all of them."""
    values = rows.values_for_views(queries, model, views)
    complete = ~np.isnan(np.concatenate(list(values.columns.values()))).any(axis=0)
    places = queries.dropna(subset=[PLACE]).groupby("image_id")[PLACE].first()
    weight = np.full(len(complete), np.nan)
    weight[complete] = weights(values.classes[complete], places.reindex(values.queries[complete]).to_numpy())
    columns, of_others = (
        {name: weight * array for name, array in part.items()} for part in (values.columns, values.of_others)
    )
    return replace(values, columns=columns, of_others=of_others)


def compare_places(queries: pd.DataFrame, model: Model) -> AcrossPlaces | None:
    """Of one model, from its rows of ``scores.score_queries``; None without places, and where no query has anybody to find."""
    if SAME_PLACE not in set(queries["setting"]):
        return None
    values = values_for_views(queries, model, LEVELS)
    counted = ~np.isnan(values.columns["here"]).any(axis=0)
    if not counted.any():
        return None
    ends = ["here", "there"], ["here", "composite"]
    here, there, composite = (values.estimate([name]) for name in LEVELS)
    carried = values_for_views(queries, model, CARRIED)
    lost = carried.estimate(list(CARRIED)[:2], uncertainty.difference)
    return AcrossPlaces(
        queries=int(counted.sum()),
        classes=len(set(values.classes[counted])),
        here=here,
        there=there,
        composite=composite,
        natural=values.estimate(ends[0], uncertainty.relative_drop),
        points=values.estimate(ends[0], uncertainty.difference),
        on_composites=values.estimate(ends[1], uncertainty.relative_drop),
        carried=carried.estimate(list(CARRIED), share_of_background) if lost.low > 0 else UNKNOWN,
    )
