"""What a drop is made of, step by step from the original photo to random backgrounds (docs/methods.md, section 13).

clean -> own_inpainted       what cutting the object out and pasting it costs by itself
      -> mixed_same          what this very background contributed, beyond its class's kind of background
      -> random_background   what the class's backgrounds contributed
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import MATCHED, MATCHED_OTHERS, map_at_r
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.results import rows, uncertainty
from bgbias.results.rows import Model, Values
from bgbias.results.uncertainty import Estimate

PATH = (rows.CLEAN, "own_inpainted", "mixed_same", rows.CORRUPTED)
STEPS = ("pasting", "own_background", "class_background")
# In the query alone: a gallery of photos that lend each other backgrounds would have them twice.
GAP = ("mixed_same", "mixed_rand")
DROP = "drop"
# What is read of queries.parquet.
OF_QUERIES = [*rows.OF_QUERIES, *MATCHED.values(), *MATCHED_OTHERS.values()]


def matched_values(queries: pd.DataFrame, model: Model, setting: str, names: Sequence[str]) -> Values:
    """MAP@R of one model, from its rows of ``scores.score_queries``, in conditions of these names, in galleries that lack the
    same photos in each.
    """
    views = rows.views_in(setting, names)
    return rows.values_for_views(queries, model, views, MATCHED[setting], MATCHED_OTHERS[setting])


def steps(values: Values) -> dict[str, Estimate]:
    """Points of MAP@R, 0..1, lost in each of ``STEPS``, and the ``DROP`` that they add up to: all of the queries that have a
    value in every condition of ``PATH``. Unknown where no query has: classes of two photos have no other lender.
    """
    ends = {name: (n, n + 1) for n, name in enumerate(STEPS)} | {DROP: (0, len(STEPS))}
    return {
        name: values.estimate(PATH, lambda *means, first=first, last=last: means[first] - means[last])
        for name, (first, last) in ends.items()
    }


def chance_levels(labels: np.ndarray, split: QueryGallerySplit | None = None) -> dict[int, float]:
    """The expected MAP@R of a query of each class in a random order of all that it is asked among: all other photos, whose
    classes are ``labels`` [N], unless the dataset says who. NaN for a class with nobody to find.
    """
    if split is not None:
        of_class: dict[int, list[float]] = {}
        for row in np.flatnonzero(split.query):
            searched = split.searched(np.array([row]), labels)[0]
            relevant = np.array([(searched & (labels == labels[row])).sum()])
            of_class.setdefault(int(labels[row]), []).extend(map_at_r.chance_level(relevant, searched.sum()))
        return {c: uncertainty.mean(np.array(values)) for c, values in of_class.items()}
    classes, sizes = np.unique(labels, return_counts=True)
    levels = map_at_r.chance_level(sizes - 1, len(labels) - 1)
    return dict(zip(classes.tolist(), levels.tolist(), strict=True))
