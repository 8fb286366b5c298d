"""Where an audited model looks, on a few photos; and pictures of queries that it lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.auditing import embedded
from bgbias.auditing.findings import Findings, without_common_folder
from bgbias.auditing.mapped import Rows
from bgbias.auditing.steps import Steps
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.adapters import Adapted
from bgbias.photos import subset
from bgbias.photos.table import ImageTable
from bgbias.results import uncertainty
from bgbias.results.uncertainty import Estimate

if TYPE_CHECKING:
    from torch import Tensor

# From a photo uint8 [S, S, 3] and what draws for it are keyed by to its map [S, S].
LookAt = Callable[[np.ndarray, tuple[str, str]], np.ndarray]
GRADIENTS, OCCLUSION = "gradients", "occlusion"
SHOWN = 12  # queries on a sheet
COLUMNS = ["image_id", "label", "score", "mask_fraction", "skipped"]


def scored(
    model: Adapted, photos: EvaluationPhotos, count: int, work: Path, steps: Steps
) -> tuple[pd.DataFrame, str, Estimate]:
    """Attribution scores of a keyed subset of the photos with a trusted mask, how they were made, and their mean.

    By gradients (docs/methods.md, section 3, ``ref`` with cosine), or by occlusion where there are none. Maps that are
    in ``work`` stay.
    """
    import torch

    from bgbias.attribution.score import scored as score

    trusted = ImageTable(photos.table.frame.iloc[photos.trusted].reset_index(drop=True))
    chosen = subset.keyed(trusted, "attribution", count)
    how = GRADIENTS if model.network is not None else OCCLUSION
    if not len(chosen):
        return pd.DataFrame(columns=COLUMNS), how, uncertainty.UNKNOWN
    kind = np.float32 if how == GRADIENTS else np.float64
    maps = Rows(work / "attribution", "maps", kind, (len(chosen), photos.size, photos.size))
    look_at = _by_gradients(model, photos.size) if how == GRADIENTS else _by_occlusion(model)
    with steps.step("attribution", len(maps.missing)) as done:
        for row in maps.missing:
            maps[row] = look_at(photos.clean(chosen.ids[row]), chosen.keys[row])
            done(1)
    rows = [
        score(photos, image_id, "ref", torch.from_numpy(found.copy()))[0]
        for image_id, found in zip(chosen.ids, maps.values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["image_id", "variant", *COLUMNS[2:]])
    made = chosen.labelled(frame)[COLUMNS]
    known = made[made["score"].notna()]
    mean = uncertainty.UNKNOWN
    if len(known):
        mean = uncertainty.estimate([known["score"].to_numpy()], known["label"].to_numpy())
    return made, how, mean


def _by_gradients(model: Adapted, size: int) -> LookAt:
    import torch
    from torch.nn.functional import normalize

    from bgbias.attribution.settings import Attribution
    from bgbias.attribution.smoothgrad import gradient_maps

    network = model.network
    assert network is not None

    def embed(x: Tensor) -> Tensor:
        return normalize(network(255 * x).float(), dim=1)

    with torch.no_grad():
        black = embed(torch.zeros(1, 3, size, size, device=model.device))[0]

    def map_of(photo: np.ndarray, key: tuple[str, str]) -> np.ndarray:
        view = torch.from_numpy(photo.copy()).permute(2, 0, 1)[None].float() / 255
        maps = gradient_maps(embed, view.to(model.device), [seeds.key(*key)], black, "cosine", Attribution())
        return maps.ref[0].numpy()

    return map_of


def _by_occlusion(model: Adapted) -> LookAt:
    from bgbias.attribution.occlusion import occluded, occlusion_map

    return lambda photo, key: occlusion_map(embedded.vectors(model, occluded(photo)), len(photo))


def sheets(
    found: Findings, photos: EvaluationPhotos, embeddings: Embeddings, names: Mapping[int, str]
) -> dict[str, list[tuple[str, np.ndarray]]]:
    """Two lists of captioned pictures, four a query: the photo, its object in front of another background, and what each finds
    first. ``worst``: the queries that lose most; ``random``: a keyed choice of all, against cherry-picking.
    """
    short = without_common_folder(names.values())
    names = {label: short[name] for label, name in names.items()}
    asked = found.photos[found.photos["lost"].notna()]
    worst = asked.sort_values(["lost", "image_id"], ascending=[False, True])["image_id"][:SHOWN].tolist()
    of_queries = photos.table.frame[photos.table.frame["image_id"].isin(asked["image_id"])]
    chosen = subset.keyed(ImageTable(of_queries.reset_index(drop=True)), "audit sheet", SHOWN).ids
    return {
        title: [entry for image_id in ids for entry in _four(image_id, photos, embeddings, names)]
        for title, ids in {"worst": worst, "random": chosen}.items()
    }


def _four(
    image_id: str, photos: EvaluationPhotos, embeddings: Embeddings, names: Mapping[int, str]
) -> Iterator[tuple[str, np.ndarray]]:
    row = embeddings.ids.index(image_id)
    own = int(embeddings.labels[row])
    corrupted = next(photos.views([(RANDOM_BACKGROUND, 0)], rows=range(row, row + 1)))
    yield names[own], photos.clean(image_id)
    yield "another background", corrupted
    gallery = np.asarray(embeddings.views[CLEAN, 0])
    for view in ((CLEAN, 0), (RANDOM_BACKGROUND, 0)):
        near = gallery @ embeddings.views[view][row]
        near[row] = -np.inf
        first = int(near.argmax())
        label = int(embeddings.labels[first])
        yield f"{'right' if label == own else 'wrong'}: {names[label]}", photos.clean(embeddings.ids[first])
