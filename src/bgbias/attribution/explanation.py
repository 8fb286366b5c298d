"""Why a model finds photos alike or different: similarity attention over two, three or four of them.

``explain(load(path), [photo, photo])`` gives the maps, ``figure_explanation`` draws them, and ``bgbias explain`` does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import SimilarityScore
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.models.model import EmbeddingModel

ROLES = {
    2: ("First", "Second"),
    3: ("Anchor", "Positive", "Negative"),
    4: ("Anchor", "Positive", *["Negative"] * 2),
}
# A model that is biased can have maps that lie on the object.
NOT_SHOWN = (
    "The maps show where these photos are compared, each up to its own most: not how much a place counts beside another photo's,"
    " not what counts against, and not what would be found in front of another background. A model that loses most of what it"
    " finds there can still have maps on the object."
)


@dataclass(frozen=True)
class Explanation:
    """Photos uint8 [S, S, 3] as the model saw them; for each, where it looked, float32 [S, S]: 1 at the place that counts most,
    0 everywhere if none counts for these photos; and the Euclidean distance 0..2 of each but the first to the first.
    """

    photos: tuple[np.ndarray, ...]
    maps: tuple[np.ndarray, ...]
    distances: tuple[float, ...]
    same: bool = True

    @property
    def roles(self) -> tuple[str, ...]:
        """What each photo is, in words."""
        return ROLES[len(self.photos)]


def explain(
    model: EmbeddingModel,
    photos: Sequence[np.ndarray],
    same: bool = True,
    score: SimilarityScore = "magnitude",
) -> Explanation:
    """By which places a model, in evaluation mode, compares decoded photos, each uint8 [H, W, 3] (RGB) of any size.

    Two photos: what they share, or what sets them apart if not ``same``. Three or four: anchor, positive and one or two
    negatives; what anchor and positive share and the negatives lack. Another number of photos is an error. ``score``: see
    ``attribution.similarity``; the published one shows little where embeddings have both signs.
    """
    if len(photos) not in ROLES:
        raise UserError(f"An explanation is of two, three or four photos, not {len(photos)}.")
    if len(photos) > 2 and not same:
        raise UserError(f"Only two photos can be compared as different; give two, not {len(photos)}.")
    views = [pixels.centre_crop(pixels.resize_short(p, model.resize), model.input_size) for p in photos]
    weight = model.embedder.weight
    with torch.no_grad():
        x = torch.from_numpy(np.stack(views)).to(weight.device).permute(0, 3, 1, 2).float()
        features = model.pooled_map(model.preprocess(x)).to(weight.dtype)
        embeddings = model.embed_features(features)
    importances = attention.importances(model.projected, features.split(1), same, score)
    size = (model.input_size, model.input_size)
    maps = attention.stretched(attention.weighted_map(torch.cat(importances), features))
    return Explanation(
        tuple(views),
        tuple(attention.enlarged(maps, size).cpu().numpy()),
        tuple((embeddings[1:] - embeddings[0]).norm(dim=1).tolist()),
        same,
    )


def read_photos(paths: Sequence[Path]) -> list[np.ndarray]:
    """The decoded photos of files; one that is missing or no picture is an error that names it."""
    for path in paths:
        if not path.is_file():
            raise UserError(
                f"The photo {path} is missing; give the names of two, three or four picture files."
            )
    return [pixels.decode(path.read_bytes(), str(path)) for path in paths]
