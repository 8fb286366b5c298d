"""Of a model whose preparation of photos was guessed: whether another usual one finds clearly more.

A few labelled photos, as they are, are embedded by each preparation and searched among themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bgbias.auditing.embedding import vectors
from bgbias.auditing.photos import PhotoCollection
from bgbias.errors import UserError
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import neighbours
from bgbias.models.adapters import Adapted
from bgbias.report import prose
from bgbias.results import uncertainty
from bgbias.results.uncertainty import SIGNIFICANT

CLASSES, PER_CLASS = 24, 4  # photos of so many classes, so many of each, at most
AS_GUESSED = ""


@dataclass(frozen=True)
class PreparationTrial:
    """MAP@R, 0..1, of the same ``photos`` by preparation: the options that choose it, "" as it was guessed; nothing where nothing
    was guessed or photos have no classes. ``better``: the preparation that finds most, if that is significantly more than as
    guessed (p < 0.05, corrected for the number of others).
    """

    photos: int = 0
    map_at_r: Mapping[str, float] = field(default_factory=dict)
    better: str | None = None

    @property
    def sentences(self) -> list[str]:
        """That another preparation of photos is better; nothing where none is."""
        return prose.fill_macro("text.j2", "better_preparation", trial=self)


def compare(model: Adapted, collection: PhotoCollection) -> PreparationTrial:
    """Embed up to 96 photos by each of the model's alternatives."""
    table = collection.table.keyed("preparation", None).frame
    table = table[table["label"].duplicated(keep=False)]
    if not model.alternatives or not collection.labelled or table.empty:
        return PreparationTrial()
    by_class = table.groupby("label", sort=False)
    table = table[(by_class.ngroup() < CLASSES) & (by_class.cumcount() < PER_CLASS)]
    ids, labels = table["image_id"].tolist(), table["label"].to_numpy(int)
    views = [np.asarray(model.look(collection.decode(i))) for i in ids]
    values = {AS_GUESSED: _score(model, views, labels, ids)}
    for options, of_option in model.alternatives.items():
        try:
            values[options] = _score(replace(model, vectors=of_option), views, labels, ids)
        except UserError:
            continue  # it fails on such numbers, so that they are not its preparation
    best = max(values, key=lambda options: values[options].mean())
    more = uncertainty.estimate([values[best], values[AS_GUESSED]], labels, uncertainty.difference)
    is_clear = best != AS_GUESSED and more.p < SIGNIFICANT / len(model.alternatives)
    means = {options: float(of_queries.mean()) for options, of_queries in values.items()}
    return PreparationTrial(len(ids), means, best if is_clear else None)


def _score(model: Adapted, views: list[np.ndarray], labels: np.ndarray, ids: list[str]) -> np.ndarray:
    embeddings = vectors(model, iter(views), ids)
    return map_at_r.per_query(neighbours(embeddings, labels, embeddings, labels))
