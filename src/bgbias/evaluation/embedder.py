"""A trained model as a function from photos to embeddings, for whoever searches a gallery with it.

MLflow loads it by this module's name (``mlflow.pyfunc.load_model("models:/<name>@current")``); nothing is unpickled. Photos are
decoded, resized, cropped and normalised as evaluation does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.images.pixels import Photo
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.model import EmbeddingModel, load
from bgbias.models.settings import How

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("photo", "path")


class Embedder:
    """Photos of any size to embeddings, float32 [N, D] of unit length, in their order; on a GPU where there is one.

    ``model`` is the network itself, in evaluation mode; ``device`` is where it runs.
    """

    def __init__(self, weights: Path, device: str = "auto") -> None:
        self.weights, self.device = weights, pick(device)
        self.model = load(weights, self.device)

    def __repr__(self) -> str:
        return f"Embedder({self.model.backbone}, {self.model.dim} numbers a photo, {self.device})"

    @cached_property
    def _quick(self) -> EmbeddingModel:
        return for_inference(self.model)

    def embed(self, photos: Iterable[Photo], batch_size: int = 64) -> np.ndarray:
        """Embeddings of photos, decoded ones uint8 [H, W, 3] (RGB) each; one that is something else is an error that names it."""
        views = (self.view(pixels.decode_photo(p, f"Photo {number}")) for number, p in enumerate(photos))
        return embed_views(self._quick, views, How(self.device, batch_size=batch_size))

    def predict(self, frame: pd.DataFrame, params: dict[str, Any] | None = None) -> np.ndarray:
        """Embeddings of the pictures in a table's column ``photo`` (encoded: the bytes of a JPEG or PNG file) or ``path``."""
        columns = [name for name in COLUMNS if name in frame.columns]
        if len(columns) != 1:
            raise UserError(
                "Give the photos in one column: 'photo' (bytes of JPEG or PNG files) or 'path' (their names);"
                f" found: {', '.join(map(str, frame.columns)) or 'none of them'}."
            )
        # {"path": ["a.jpg", "b.jpg"]} arrives as one row.
        values: Iterable[Any] = frame[columns[0]].explode()
        if columns[0] == "photo":
            values = (pixels.decode(data, f"photo {number}") for number, data in enumerate(values))
        return self.embed(values)

    def view(self, photo: np.ndarray) -> np.ndarray:
        """What the model sees of a photo or a mask: the centre crop, uint8 [S, S, 3] or [S, S]."""
        return pixels.centre_crop(pixels.resize_short(photo, self.model.resize), self.model.input_size)


def _load_pyfunc(path: str) -> Embedder:
    return Embedder(Path(path))
