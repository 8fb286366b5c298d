"""Where a model that somebody brings looks: by its gradients, or, without any, by blurring places.

The latter after occlusion sensitivity (Zeiler & Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014). A place
is a cell of a grid; it is blurred and not greyed, so that no edge is drawn where there was none. The map has a cell's value at
each of its pixels: the cosine that the embedding loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import cv2
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import seeds
from bgbias.attribution.score import score_photo
from bgbias.attribution.settings import GRADIENTS, OCCLUSION, Attribution
from bgbias.attribution.smoothgrad import VARIANTS, attribute_photos, gradient_maps
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.adapters import Adapted, embed_unit, failing
from bgbias.photos.table import COLUMNS, ImageTable

if TYPE_CHECKING:
    from bgbias.evaluation.embedder import Embedder
    from bgbias.photos.picture_cache import Pictures

CELLS = 7  # on a side, which are blurred one after the other
# From a photo uint8 [S, S, 3] and what draws for it are keyed by to its maps [S, S], by variant.
MapMaker = Callable[[np.ndarray, tuple[str, str]], dict[str, np.ndarray]]


def choose_maps(
    model: Adapted, settings: Attribution | None = None, distance: str = "cosine"
) -> tuple[str, MapMaker]:
    """How maps of this model are made, and what makes a photo's: ``ref`` and ``robust`` by gradients
    (docs/methods.md, section 3); by occlusion the two are one.
    """
    if model.network is None:
        return OCCLUSION, lambda photo, _: dict.fromkeys(
            VARIANTS, occlusion_map(embed_unit(model, np.stack(list(occlude(photo)))), len(photo))
        )
    return GRADIENTS, _explain_by_gradients(model, settings or Attribution(), distance)


def as_photos(
    views: Sequence[np.ndarray], masks: Sequence[np.ndarray | None], names: Sequence[str]
) -> EvaluationPhotos:
    """What a model sees of photos, uint8 [S, S, 3] each, with masks [S, S] or None, as attribution
    takes them; ``names`` key their noise.
    """
    ids = [str(number) for number in range(len(views))]
    rows = [(i, 0, "", "test", "", name) for i, name in zip(ids, names, strict=True)]
    masked = {i: mask for i, mask in zip(ids, masks, strict=True) if mask is not None}
    # Of pictures on a disk, attribution asks no more than a dictionary answers.
    return EvaluationPhotos(
        ImageTable(pd.DataFrame(rows, columns=list(COLUMNS))),
        cast("Pictures", dict(zip(ids, views, strict=True))),
        len(views[0]),
        cast("Pictures", masked),
        frozenset(masked),
    )


def score_photos(
    model: Adapted | Embedder, photos: EvaluationPhotos, settings: Attribution, distance: str
) -> pd.DataFrame:
    """A row a photo: ``ref`` and ``robust`` scores, ``mask_fraction``, and why there is none
    (``skipped``). ``attrs["how"]``: how maps were made.
    """
    how = GRADIENTS
    if not isinstance(model, Adapted):
        rows, _ = attribute_photos(model.model, photos, distance, settings, model.device)
    else:
        how, maps = choose_maps(model, settings, distance)
        scored_rows = []
        for i, key in zip(photos.table.ids, photos.table.keys, strict=True):
            of_photo = maps(photos.clean(i), key) if i in photos.usable else {}
            for variant in VARIANTS:
                strengths = torch.from_numpy(of_photo[variant]) if of_photo else "no mask"
                scored_rows.append(score_photo(photos, i, variant, strengths)[0])
        rows = pd.DataFrame(scored_rows)
    ref, robust = (rows[rows["variant"] == name].reset_index(drop=True) for name in VARIANTS)
    skipped = ref["skipped"].where(ref["skipped"] != "", robust["skipped"])
    columns = {"ref": ref["score"], "robust": robust["score"], "mask_fraction": ref["mask_fraction"]}
    table = pd.DataFrame(columns | {"skipped": skipped})
    table.attrs["how"] = how
    return table


def _explain_by_gradients(model: Adapted, settings: Attribution, distance: str) -> MapMaker:
    network, size = model.network, model.look.size
    assert network is not None

    def embed(x: Tensor) -> Tensor:
        return normalize(network(255 * x).float(), dim=1)

    @cache
    def black() -> Tensor:
        with torch.no_grad():
            return embed(torch.zeros(1, 3, size, size, device=model.device))[0]

    def make(photo: np.ndarray, key: tuple[str, str]) -> dict[str, np.ndarray]:
        view = torch.from_numpy(photo.copy()).permute(2, 0, 1)[None].float() / 255
        view, keys = view.to(model.device), [seeds.key(*key)]

        def at_once(passes: int) -> dict[str, np.ndarray]:
            with failing(f"{model.name} fails on the gradients of a picture"):
                maps = gradient_maps(embed, view, keys, black(), distance, settings, passes)
            return {variant: values[0].cpu().numpy() for variant, values in maps.items()}

        return model.batch.run(model.name, settings.samples, at_once)

    return make


def occlude(photo: np.ndarray) -> Iterator[np.ndarray]:
    """The photo uint8 [S, S, 3] as it is, then with each cell of the grid blurred, row by row."""
    size = len(photo)
    blurred = np.asarray(cv2.GaussianBlur(photo, (0, 0), size / CELLS))
    yield photo
    for rows, columns in _list_cells(size):
        hidden = photo.copy()
        hidden[rows, columns] = blurred[rows, columns]
        yield hidden


def occlusion_map(vectors: np.ndarray, size: int) -> np.ndarray:
    """A photo's map float64 [S, S] from the unit vectors [1 + cells, D] of what ``occlude`` gave; never below 0."""
    drops = np.maximum(0, 1 - vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64))
    values = np.zeros((size, size))
    for (rows, columns), value in zip(_list_cells(size), drops, strict=True):
        values[rows, columns] = value
    return values


def _list_cells(size: int) -> Iterator[tuple[slice, slice]]:
    edges = np.linspace(0, size, min(CELLS, size) + 1).round().astype(int)
    spans = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    for rows in spans:
        for columns in spans:
            yield rows, columns
