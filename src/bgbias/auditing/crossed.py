"""Shares of variance: objects in front of the same backgrounds each, embedded so that a killed audit goes on."""

from __future__ import annotations

from itertools import repeat
from math import gcd
from pathlib import Path

import numpy as np

from bgbias.auditing import embedded
from bgbias.auditing.asked import Asked
from bgbias.auditing.mapped import KeptRows
from bgbias.auditing.steps import Steps
from bgbias.evaluation import crossing, variance
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.variance import Shares
from bgbias.models.adapters import Adapted

FOLDER, VECTORS = "crossing", "vectors"


def shares(model: Adapted, photos: EvaluationPhotos, asked: Asked, work: Path, steps: Steps) -> Shares | None:
    """Of variance, of a keyed subset of objects; None where too few have a trusted mask, or nobody asked."""
    if not asked.objects or len(photos.trusted) < 2:
        return None
    assert photos.backgrounds is not None
    shown = crossing.objects(photos, asked.objects)
    drawn = photos.backgrounds.for_all(asked.backgrounds)
    behind = [photos.backgrounds.picture(draw, photos.size) for draw in drawn]
    vectors = KeptRows(work / FOLDER, VECTORS, np.float32, (len(shown), len(behind), model.dim))
    # In whole batches, and the same ones after a kill: another batch moves vectors by their last digit, and takes memory anew.
    at_once = embedded.BATCH // gcd(embedded.BATCH, len(behind))
    missing = set(vectors.missing)
    with steps.step("crossing", len(missing)) as done:
        for start in range(0, len(shown), at_once):
            some = range(start, min(start + at_once, len(shown)))
            if missing.isdisjoint(some):
                continue
            ids = [shown.ids[row] for row in some]
            whose = (i for name in ids for i in repeat(name, len(behind)))
            flat = embedded.vectors(model, crossing.views(photos, ids, behind), whose)
            for row, of_object in zip(some, flat.reshape(len(some), len(behind), -1), strict=True):
                vectors[row] = of_object
            done(len(missing.intersection(some)))
    return variance.shares(vectors.values)


def left(work: Path, objects: int) -> int:
    """How many of the objects are missing; makes no file."""
    return KeptRows.left(work / FOLDER, VECTORS, objects)


def room(objects: int, backgrounds: int, dim: int) -> int:
    """Bytes on the disk."""
    return objects * backgrounds * dim * 4
