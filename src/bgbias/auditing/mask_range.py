"""What the drop would be, were all masks perfect: between what two segmentation models leave open (docs/methods.md, section 17).

Where both agree, they are taken for right. What only one takes for the object may be object or background: the drop is measured
with all of it (``either_mask``) and with none (``both_masks``). Photos with drawn masks say which share of it is object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.auditing.masker import Masks
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY
from bgbias.masks.quality import THRESHOLD
from bgbias.results import uncertainty
from bgbias.results.rows import Model, values_for_views, views_in
from bgbias.results.uncertainty import UNKNOWN, Estimate, at_most_all

EITHER, BOTH = "either_mask", "both_masks"
CONDITIONS = (EITHER, BOTH)
FEWEST_DRAWN, MOST_DRAWN = 5, 50  # photos whose masks give the share
LEAST_AGREEMENT = 0.5  # mean IoU below which two models do not speak of the same object


@dataclass(frozen=True)
class MaskRange:
    """The relative drop, 0..1, with what ``either`` and with what ``both`` segmentation models take for the object; ``second`` is
    the name of one. ``agreement``: the mean IoU of their masks. ``object_share``: of what only one of them takes for the
    object, the share that is object where masks are drawn, NaN if too few are; ``extrapolated``: the drop for it, unknown if so.
    """

    second: str
    agreement: float
    either: Estimate
    both: Estimate
    object_share: float
    extrapolated: Estimate

    @property
    def agrees(self) -> bool:
        """Whether the two speak of the same objects."""
        return self.agreement >= LEAST_AGREEMENT

    @property
    def ends(self) -> tuple[float, float]:
        """Those of the range; its lower end may be the drop with either."""
        low, high = sorted((self.either.value, self.both.value))
        return low, high


def measure_mask_range(
    queries: pd.DataFrame, model: Model, qualities: pd.DataFrame, first: Masks, second: Masks, name: str
) -> MaskRange:
    """From the rows of ``scores.score_queries``, the ``qualities`` of photos whose masks are trusted, and the ``name`` of the
    second segmentation model.
    """
    agreement = qualities.loc[~qualities["image_id"].isin(first.drawn_ids), "agreement"].mean()
    object_share = measure_object_share(select_drawn(first), first, second)
    values = values_for_views(queries, model, views_in(QUERY_ONLY, [CLEAN, *CONDITIONS]))
    either, both = (
        at_most_all(values.estimate([CLEAN, name], uncertainty.relative_drop)) for name in CONDITIONS
    )

    def at_share(clean: np.ndarray, either: np.ndarray, both: np.ndarray) -> np.ndarray:
        return uncertainty.relative_drop(clean, object_share * either + (1 - object_share) * both)

    extrapolated = UNKNOWN if np.isnan(object_share) else values.estimate([CLEAN, *CONDITIONS], at_share)
    return MaskRange(name, float(agreement), either, both, object_share, extrapolated)


def select_drawn(masks: Masks) -> list[str]:
    """Photos, spread over all that have drawn masks, for ``measure_object_share``; none if they are too few."""
    drawn = masks.drawn_ids
    rows = np.unique(np.linspace(0, len(drawn) - 1, MOST_DRAWN).astype(int))
    return [drawn[row] for row in rows] if len(drawn) >= FEWEST_DRAWN else []


def measure_object_share(ids: Sequence[str], first: Masks, second: Masks) -> float:
    """Of what only one of two segmentation models takes for the object, the share that drawn masks say is object, 0..1, over the
    photos ``ids``, each of which counts by what they leave open of it; NaN where they leave nothing open.
    """
    of_object = apart = 0.0
    for image_id in ids:
        one, other = (masks.find_predicted(image_id).alpha / 255 for masks in (first, second))
        truth = first.find(image_id)
        assert truth is not None  # drawn
        only_one = np.abs(one - other)
        of_object += float((only_one * (truth.alpha >= THRESHOLD)).mean())
        apart += float(only_one.mean())
    return of_object / apart if apart else float("nan")
