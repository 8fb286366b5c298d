"""Where an audited model looks, on a few photos."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.attribution.settings import GRADIENTS
from bgbias.auditing import embedding
from bgbias.auditing.resumable import ResumableRows
from bgbias.compute.lazy import torch
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.adapters import Adapted
from bgbias.progress import showing
from bgbias.results import uncertainty
from bgbias.results.uncertainty import Estimate

MAPS = 6  # that a person is shown
COLUMNS = ["image_id", "label", "score", "mask_fraction", "skipped"]


@dataclass(frozen=True)
class ShownPhoto:
    """A photo uint8 [S, S, 3] and its mask uint8 [S, S] for a person to look at, and what was measured of them: the attribution
    score, and the map stretched to 0..1 [S, S], or how clear the mask is.
    """

    image_id: str
    photo: np.ndarray
    mask: np.ndarray
    value: float
    attribution: np.ndarray | None = None


@dataclass(frozen=True)
class Looks:
    """``scores``: a row a photo (``COLUMNS``); ``how`` their maps were made; ``mean`` over photos; the first few of the maps."""

    scores: pd.DataFrame
    how: str
    mean: Estimate
    maps: tuple[ShownPhoto, ...] = ()


NOWHERE = Looks(pd.DataFrame(columns=COLUMNS), "none", uncertainty.UNKNOWN)


def score_attribution(model: Adapted, photos: EvaluationPhotos, count: int, work: Path) -> Looks:
    """Attribution scores of a keyed subset of the photos with a trusted mask.

    By gradients (docs/methods.md, section 3, ``ref`` with cosine), or by occlusion where there are none. Maps that are
    in ``work`` stay.
    """
    from bgbias.attribution.any_model import choose_maps
    from bgbias.attribution.score import score_photo as score

    chosen = photos.table.rows(photos.trusted).keyed("attribution", count)
    how, make_maps = choose_maps(model)
    if not len(chosen):
        return replace(NOWHERE, how=how)
    kind = np.float32 if how == GRADIENTS else np.float64
    maps = ResumableRows(work, how, kind, (len(chosen), photos.size, photos.size))
    with showing(len(maps.missing), "attribution") as done:
        for row in maps.missing:
            with embedding.name_photos_in_errors([chosen.ids[row]]):
                maps[row] = make_maps(photos.clean(chosen.ids[row]), chosen.keys[row])["ref"]
            done(1)
    rows, examples = [], list[ShownPhoto]()
    for image_id, attribution in zip(chosen.ids, maps.values, strict=True):
        of_photo, stretched = score(photos, image_id, "ref", torch.from_numpy(attribution.copy()))
        rows.append(of_photo)
        if stretched is not None and len(examples) < MAPS:
            value = float(str(of_photo["score"]))
            examples.append(
                ShownPhoto(image_id, photos.clean(image_id), photos.mask(image_id), value, stretched.numpy())
            )
    frame = pd.DataFrame(rows, columns=["image_id", "variant", *COLUMNS[2:]])
    scores = chosen.labelled(frame)[COLUMNS]
    valid = scores.dropna(subset=["score"])
    values, labels = valid["score"].to_numpy(), valid["label"].to_numpy()
    mean = uncertainty.estimate([values], labels) if len(valid) else uncertainty.UNKNOWN
    return Looks(scores, how, mean, tuple(examples))
