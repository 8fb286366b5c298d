"""All that an audit measured, before anybody writes or reads it, and what of it is shown as pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bgbias.auditing.findings import Findings
from bgbias.auditing.looks import Looks
from bgbias.auditing.preparations import PreparationTrial
from bgbias.auditing.prepared import Prepared
from bgbias.auditing.question import Question
from bgbias.auditing.slices import BetterMasked, SurelyMasked, Third
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.variance import Shares
from bgbias.models.adapters import Adapted
from bgbias.photos.table import Given
from bgbias.report.html.pictures import jpeg
from bgbias.report.queries import ShownQuery
from bgbias.results.leak import Leak

MASKS = 8
AT_ONCE = 256  # queries whose gallery is compared
PICTURES, PICTURE = 1000, 112  # photos that are kept for comparisons, and their side in pixels


@dataclass(frozen=True)
class DoubtfulMask:
    """A photo uint8 [S, S, 3] with its mask uint8 [S, S], and its clarity."""

    image_id: str
    clarity: float
    photo: np.ndarray
    mask: np.ndarray


def doubtful(prepared: Prepared) -> tuple[DoubtfulMask, ...]:
    """The least clear ones; none where clarity tells nothing or somebody drew them."""
    known = prepared.qualities.dropna(subset=["clarity"])
    least = known[known["clarity"] < 1].sort_values(["clarity", "image_id"]).head(MASKS)
    photos, masks = prepared.photos, prepared.masks
    return tuple(
        DoubtfulMask(i, float(clarity), photos.get(i), masks.get(i))
        for i, clarity in zip(least["image_id"], least["clarity"], strict=True)
    )


def first_found(embeddings: Embeddings) -> pd.DataFrame:
    """A row a photo: its image id, and that of the photo which it finds first as it is (``first_clean``)
    and in front of the first random background (``first_changed``), in the gallery as it is.
    """
    labels, gallery = embeddings.labels, np.asarray(embeddings.views[CLEAN, 0])
    among = embeddings.given or Given.all_among_all(len(labels))
    ids = np.array(embeddings.ids, object)
    found = pd.DataFrame({"image_id": ids})
    for name, condition in (("first_clean", CLEAN), ("first_changed", RANDOM_BACKGROUND)):
        queries, first = embeddings.views[condition, 0], []
        for rows in np.array_split(np.arange(len(ids)), -(-len(ids) // AT_ONCE)):
            near = np.where(among.searched(rows, labels), queries[rows] @ gallery.T, -np.inf)
            first.append(ids[near.argmax(axis=1)])
        found[name] = np.concatenate(first)
    return found


def pictures(found: Findings, photos: EvaluationPhotos) -> dict[str, bytes]:
    """JPEGs of the queries, of at most ``PICTURES``, by lot: ``clean/<image id>``, and
    ``random_background/<image id>`` in front of the first random background.
    """
    asked = photos.table.rows(photos.table.frame["image_id"].isin(found.photos["image_id"]))
    made = {}
    for image_id in asked.keyed("audit pictures", PICTURES).ids:
        row = photos.table.ids.index(image_id)
        elsewhere = next(photos.views([(RANDOM_BACKGROUND, 0)], rows=range(row, row + 1)))
        for condition, view in ((CLEAN, photos.clean(image_id)), (RANDOM_BACKGROUND, elsewhere)):
            made[f"{condition}/{image_id}"] = jpeg(view, PICTURE)
    return made


@dataclass(frozen=True)
class Measured:
    """What was measured; from ``findings`` on, what needs labels.

    ``masker``: who made the masks. ``qualities``: a row a mask. ``remarks``: of masks. ``ties``: photos
    whose clean embedding is also another's. For a person: ``queries``, a photo of each class that loses
    most (``portraits``), and masks that are least clear (``doubtful``). For comparisons: which photo each
    query finds ``first``, and ``pictures`` of photos, encoded, by name. ``seconds_a_photo``: what
    preparing and embedding one takes, on this machine.
    """

    question: Question
    model: Adapted
    masker: str
    shift: pd.DataFrame
    shares: Shares | None
    looks: Looks
    qualities: pd.DataFrame
    usable: frozenset[str]
    doubtful: tuple[DoubtfulMask, ...]
    remarks: tuple[str, ...]
    ties: int
    findings: Findings | None = None
    queries: dict[str, list[ShownQuery]] = field(default_factory=dict)
    portraits: dict[str, str] = field(default_factory=dict)
    thirds: tuple[Third, ...] = ()
    surely: SurelyMasked | None = None
    better: tuple[BetterMasked, ...] = ()
    leak: Leak | None = None
    first: pd.DataFrame | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    seconds_a_photo: float = math.nan
    preparations: PreparationTrial = field(default_factory=PreparationTrial)
