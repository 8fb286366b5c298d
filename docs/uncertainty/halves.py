"""Whether an interval speaks of other classes, without any model of chance: halves of the classes, each a study of its own.

Classes are split at random in two; each half is embedded and ranked by itself, as if the other did not exist. Two such studies
differ by chance alone, so that their difference by its stated standard error has a standard deviation of 1 over many splits.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import bgbias
from bgbias.datasets import toy
from bgbias.evaluation.exclusion import change_for_others, deep_enough
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import neighbours
from bgbias.images import pixels
from bgbias.results.uncertainty import CONFIDENCE, Estimate, Statistic, itself, relative_drop

SPLITS = 300
DRAWS = 3
TOYS = toy.Params(test_correlation=0.9, train_classes=1, val_classes=1, test_classes=80, photos_per_class=12)
WALLS = toy.Params(train_classes=1, val_classes=1, test_classes=100, photos_per_class=1)
EMBEDDING = 128


@dataclass(frozen=True)
class Photos:
    """Embeddings of photos as they are [N, D] and in front of other backgrounds [draws, N, D] (or none), and their classes
    [N]."""

    clean: np.ndarray
    corrupted: np.ndarray
    classes: np.ndarray


def groceries(archive: Path, weights: Path) -> dict[str, Photos]:
    """All 81 classes as MobileNetV2 with ImageNet's weights sees them: its features, and these under a random layer."""
    from bgbias import seeds
    from bgbias.models.backbones.mobilenet_v2 import Params
    from bgbias.models.inference import embed_views, for_inference
    from bgbias.models.model import build_model
    from bgbias.models.settings import How

    layer = seeds.torch_generator("model", "grocery", "mobilenet_v2_tf", 0)
    model = build_model("mobilenet_v2_tf", Params(weights=str(weights)), EMBEDDING, layer, True, weights)

    with zipfile.ZipFile(archive) as files:
        names = sorted(name for name in files.namelist() if name.endswith(".jpg"))
        views = [
            pixels.centre_crop(
                pixels.resize_short(pixels.decode(files.read(n), n), model.resize), model.input_size
            )
            for n in names
        ]
    classes = np.array([name.split("/")[-2] for name in names])
    nothing = np.zeros((0, len(names), 0), np.float32)
    quick = for_inference(model)
    seen = {
        name: embed_views(quick, iter(views), How(pooled=pooled))
        for name, pooled in (("pooled", True), ("random layer", False))
    }
    return {name: Photos(vectors, nothing, classes) for name, vectors in seen.items()}


def toys(weights: Path) -> Photos:
    """80 toys as a model of the demo's sees them, in front of their own class's scene in nine of ten, and of others."""
    model = bgbias.load(weights, "cpu")
    items = [item for item in toy.items(TOYS) if item.split == "test"]
    walls = [pixels.decode(item.data, item.image_id) for item in toy.items(WALLS) if item.split == "test"]
    photos = [pixels.decode(item.data, item.image_id) for item in items]
    masks = [pixels.decode(item.truth or b"", item.image_id)[..., 0] for item in items]
    corrupted = [
        bgbias.embed(
            model,
            [
                bgbias.corrupt(photo, mask, walls, item.image_id, draw)
                for photo, mask, item in zip(photos, masks, items, strict=True)
            ],
        )
        for draw in range(DRAWS)
    ]
    return Photos(bgbias.embed(model, photos), np.stack(corrupted), np.array([i.label for i in items]))


def study(photos: Photos, kept: np.ndarray, of: Statistic) -> tuple[Estimate, Estimate]:
    """What a study of the ``kept`` photos alone would report, and what it would if other classes did not matter to a query."""
    labels = photos.classes[kept]

    def values(view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ranked = neighbours(view[kept], labels, view[kept], labels, deep_enough(labels))
        return map_at_r.per_query(ranked), change_for_others(ranked, labels, np.ones(len(labels), bool))

    views = [[photos.clean], list(photos.corrupted)] if len(photos.corrupted) else [[photos.clean]]
    columns, of_others = zip(
        *(np.mean([values(view) for view in draws], axis=0) for draws in views), strict=True
    )
    return bgbias.estimate(columns, labels, of, of_others), bgbias.estimate(columns, labels, of)


def spreads(photos: Photos, of: Statistic, splits: int, random: np.random.Generator) -> tuple[float, float]:
    """The standard deviation over ``splits`` of the halves' difference by its standard error: as reported, and as if other
    classes did not matter.
    """
    classes = np.unique(photos.classes)
    apart = []
    for _ in range(splits):
        half = np.isin(photos.classes, random.permutation(classes)[: len(classes) // 2])
        both = study(photos, half, of), study(photos, ~half, of)
        first, second = len(classes) // 2, -(-len(classes) // 2)
        apart.append(
            [
                (a.value - b.value) / np.hypot(_error(a, first), _error(b, second))
                for a, b in zip(*both, strict=True)
            ]
        )
    as_reported, alone = np.std(apart, axis=0, ddof=1)
    return float(as_reported), float(alone)


def rows(archive: Path, imagenet: Path, demo: Path, splits: int = SPLITS) -> Iterator[dict[str, object]]:
    """A row a kind of photos, features and number."""
    kinds = [
        ("Grocery Store", name, photos, "clean", itself)
        for name, photos in groceries(archive, imagenet).items()
    ]
    of_toys = toys(demo)
    kinds += [("toys", "demo's plain model", of_toys, "relative drop", relative_drop)]
    kinds += [
        (
            "toys",
            "demo's plain model",
            Photos(of_toys.clean, of_toys.corrupted[:0], of_toys.classes),
            "clean",
            itself,
        )
    ]
    for number, (photos, features, seen, what, of) in enumerate(kinds):
        spread, alone = spreads(seen, of, splits, np.random.default_rng(number))
        yield {
            "photos": photos,
            "features": features,
            "number": what,
            "classes": len(set(seen.classes)),
            "splits": splits,
            "sd": spread,
            "sd without the gallery": alone,
        }


def _error(found: Estimate, classes: int) -> float:
    """The standard error that an interval over classes of equal size was made of."""
    return (found.high - found.low) / 2 / float(stdtrit(classes - 1, (1 + CONFIDENCE) / 2))


def table(splits: int = SPLITS, **files: Path) -> pd.DataFrame:
    """All rows."""
    return pd.DataFrame(rows(splits=splits, **files))
