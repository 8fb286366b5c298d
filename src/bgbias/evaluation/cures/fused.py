"""The embedding of a picture and that of its crop to the object, added with weights: what surrounds the object counts less."""

from collections.abc import Callable

from bgbias.evaluation.cures._beside import TENTHS, Joined, best
from bgbias.evaluation.cures._pictures import crop_to_object

TITLE = "fused with the crop to the object"
INDEX = "again"
FITTED = True
AT = "beside"
apply = crop_to_object


def fit(judge: Callable[[Joined], float]) -> Joined:
    """The crop's weight of 0, 0.1, ..., 1 that ``judge`` finds best, the smallest of several; the picture has the rest."""
    return best([Joined(1 - weight, weight) for weight in TENTHS], judge)
