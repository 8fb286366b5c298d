"""From photos to embeddings: every test photo is decoded once and seen in all its views."""

from collections.abc import Sequence

import numpy as np

from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import View
from bgbias.evaluation.device_views import embed_photos
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How


def embed(
    model: EmbeddingModel, photos: EvaluationPhotos, views: Sequence[View], how: How = USUAL
) -> Embeddings:
    """Embeddings of these views of every photo of the split, in one pass over the photos."""
    by_photo = embed_photos(model, photos, views, how)
    masked = "masks" in conditions.needs(name for name, _ in views)
    usable = np.array([not masked or i in photos.usable for i in photos.table.ids])
    of_views = {view: np.ascontiguousarray(by_photo[:, n]) for n, view in enumerate(views)}
    table = photos.table
    donors = photos.donors(views)
    originals = photos.originals if donors else None
    return Embeddings(
        table.ids, table.labels, usable, of_views, donors, table.given, originals, photos.places
    )
