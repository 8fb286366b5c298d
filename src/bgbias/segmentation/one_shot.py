"""One-shot segmentation: the object of a test photo, found by what a model shares it by with photos of its class.

Similarity attention of the test photo with regard to its supports, then GrabCut (Zheng et al. 2020, section 4.3). The model was
never trained to segment, and no mask of a support is read. Of photos with one object each, the two-way tasks ask for the test
photo's own class: its photos are the positives, those of the other class the negatives.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress
from bgbias.attribution import similarity as attention
from bgbias.attribution.sanity import centre
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.masks import grabcut
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.segmentation.episodes import CENTRE, SHOTS, TASKS, Episode
from bgbias.segmentation.settings import Segmentation
from bgbias.segmentation.truth import Truth


def segment_photos(
    model: EmbeddingModel,
    pooled: bool,
    photos: EvaluationPhotos,
    truth: Truth,
    episodes: Sequence[Episode],
    area: float,
    settings: Segmentation,
    device: str = "cpu",
    keep: int = 1,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """IoU of every episode, and the pictures of the first ``keep``; there is one at least.

    ``pooled``: the backbone is asked by its mean features, without an embedding layer; ``area``: the share of a photo that an
    object takes. Table: image_id of the test photo, task, iou after GrabCut, map_iou of the map alone. Pictures, of the first
    task: ids and supports (their ids) [K]; maps float16 and masks bool, both [K, S, S].
    """
    network = for_inference(model).to(device)
    rows: list[dict[str, object]] = []
    examples: list[tuple[str, str, np.ndarray, np.ndarray]] = []
    for episode in progress.track(episodes, len(episodes), "segmentation"):
        views = np.stack([photos.clean(name) for name in episode.photos])
        maps = attention_maps(network, views, settings, pooled) | {CENTRE: centre(photos.size)}
        for task, heat in maps.items():
            mask = grabcut.segment(views[0], heat, area, settings.sure, settings.rounds)
            iou, alone = (truth.iou(episode.test, m) for m in (mask, grabcut.brightest(heat, area)))
            rows.append({"image_id": episode.test, "task": task, "iou": iou, "map_iou": alone})
            if task == TASKS[0] and len(examples) < keep:
                examples.append((episode.test, episode.positives[0], heat.astype(np.float16), mask))
    pictures = map(np.array, zip(*examples, strict=True))
    return pd.DataFrame(rows), dict(zip(("ids", "supports", "maps", "masks"), pictures, strict=True))


def attention_maps(
    model: EmbeddingModel, views: np.ndarray, settings: Segmentation, pooled: bool = False
) -> dict[str, np.ndarray]:
    """The test photo's map [S, S] in 0..1 for each task, from an episode's photos uint8 [1 + 2 SHOTS, S, S, 3] in their order.

    Of several triplets each map is stretched to 0..1 before they are averaged: none outweighs the others.
    """
    weight = model.embedder.weight
    x = torch.from_numpy(views).to(weight.device).permute(0, 3, 1, 2)
    with torch.no_grad():
        features = model.pooled_map(model.preprocess(x)).to(weight.dtype)
    test, positives, negatives = features.split((1, SHOTS, SHOTS))
    of_tasks = {
        "one_way_1": (test, positives[:1]),
        "two_way_1": (test, positives[:1], negatives[:1]),
        "two_way_5": (test.expand(SHOTS, -1, -1, -1), positives, negatives),
    }
    head: Callable[[Tensor], Tensor] = (lambda maps: maps.mean(dim=(2, 3))) if pooled else model.projected
    size = (views.shape[1], views.shape[2])
    maps = {}
    for task, tuples in of_tasks.items():
        importance = attention.importances(head, tuples, score=settings.score)[0]
        each = attention.stretch(attention.weighted_map(importance, tuples[0]))
        large = attention.enlarge(each.mean(0, keepdim=True), size)
        maps[task] = attention.stretch(large)[0].cpu().numpy()
    return maps
