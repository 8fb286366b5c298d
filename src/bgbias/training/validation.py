"""The score that stops a training and picks its best epoch: retrieval among the validation photos."""

import numpy as np

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.device_views import embed_photos
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.whole_gallery import rank_among
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import How
from bgbias.training.settings import METRICS


class Validation:
    """Scores a model on ``photos``, which share no class with the training's; ``condition``: ``clean`` or ``corrupted``."""

    def __init__(self, photos: EvaluationPhotos, condition: str, how: How) -> None:
        self._photos, self._corrupted, self._how = photos, condition == "corrupted", how
        self._prefix = "val_corrupted" if self._corrupted else "val"

    @property
    def monitor(self) -> str:
        """The score that must improve."""
        return f"{self._prefix}_map_at_r"

    def __call__(self, model: EmbeddingModel) -> dict[str, float]:
        """Means over all photos that have another one of their class, by name."""
        # One fixed draw of backgrounds: redrawing it each epoch would favour lucky epochs.
        view = (RANDOM_BACKGROUND if self._corrupted else CLEAN, 0)
        vectors = embed_photos(model, self._photos, [view], self._how)[:, 0]
        table = self._photos.table
        ranked = rank_among(vectors, vectors, table.labels, table.given)
        values = {name: plugins.load("metrics", name).per_query(ranked) for name in METRICS}
        if np.isnan(values["map_at_r"]).all():
            raise UserError(
                "No validation photo has another one of its class; give the validation split more photos a class."
            )
        return {f"{self._prefix}_{name}": float(np.nanmean(v)) for name, v in values.items()}
