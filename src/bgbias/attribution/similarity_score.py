"""Similarity attention as a second attribution: where a model finds a photo like another one of its class
(docs/methods.md, section 7).

It is scored as gradients are (``smoothgrad.py``), with the variant's name ``similarity``. Every photo's partner is the same one
for every model.
"""

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress, seeds
from bgbias.attribution import similarity as attention
from bgbias.attribution.score import NoScoreError, scored
from bgbias.attribution.settings import Attribution
from bgbias.compute.device import autocast
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.photos.table import ImageTable

VARIANT = "similarity"
PAIRS = {"cpu": 12, "cuda": 64}  # that go through a network at once


def attribute_pairs(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    test: ImageTable,
    settings: Attribution,
    device: str = "cpu",
) -> pd.DataFrame:
    """Scores of every photo of ``photos``, whose partners are taken from all test photos; rows as those of ``attribute_photos``.

    A photo that is alone in its class has no score.
    """
    network = for_inference(model).to(device)
    chosen = partners(test, photos.table.ids)
    maps = _maps(network, photos, chosen, settings)
    stream = progress.track(maps, len(photos.table), "similarity attention")
    return pd.DataFrame([scored(photos, name, VARIANT, found)[0] for name, found in stream])


def partners(test: ImageTable, ids: Collection[str]) -> dict[str, str]:
    """For each of ``ids`` another photo of its class, drawn by the names of the two alone; none where there is no other."""
    key_of = dict(zip(test.ids, test.keys, strict=True))
    partner_of = {}
    for _, members in test.frame.groupby("label", sort=False)["image_id"]:
        for name in members[members.isin(list(ids))]:
            others = [other for other in members if other != name]
            if others:
                partner_of[name] = min(
                    others, key=lambda o: seeds.number(seeds.key("similarity", *key_of[name], *key_of[o]))
                )
    return partner_of


def _maps(
    model: EmbeddingModel, photos: EvaluationPhotos, chosen: dict[str, str], settings: Attribution
) -> Iterator[tuple[str, Tensor | NoScoreError]]:
    """Each photo's id and map [S, S] in the table's order, or why there is none."""
    kind, device = model.embedder.weight.dtype, model.embedder.weight.device
    step, ids = PAIRS.get(device.type, PAIRS["cpu"]), photos.table.ids
    for start in range(0, len(ids), step):
        group = ids[start : start + step]
        paired = [name for name in group if name in photos.usable and name in chosen]
        map_of: dict[str, Tensor] = {}
        if paired:
            views = [photos.clean(name) for name in (*paired, *(chosen[name] for name in paired))]
            x = torch.from_numpy(np.stack(views)).to(device).permute(0, 3, 1, 2)
            with torch.no_grad(), autocast(device.type, settings.precision):
                features = model.pooled_map(model.preprocess(x)).to(kind)
            score = settings.similarity or "magnitude"
            importance, _ = attention.importances(model.projected, features.chunk(2), score=score)
            maps = attention.weighted_map(importance, features[: len(paired)])
            large = attention.enlarged(maps, (photos.size, photos.size)).cpu()
            map_of = dict(zip(paired, large, strict=True))
        for name in group:
            why = "alone in its class" if name in photos.usable else "untrusted mask"
            yield name, map_of.get(name, NoScoreError(why))
