"""Training batches whose backgrounds are replaced, against the published data path on the main process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bgbias.benchmarks import Contender, Figure, Measured

TITLE = "training batches with background replacement, BN-Inception at 227, one thread"
DEVICES = ("cpu",)
THREADS = 1
OURS, PEER, LIMIT = "bgbias", "published path", "decoding the photos alone"
BATCH = 32


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias import images
    from bgbias.backbones.bn_inception import FACTS
    from bgbias.benchmarks import _album
    from bgbias.benchmarks._published import PublishedPhotos

    made = _album.files(2 if tiny else 64, 2 if tiny else 60)
    _album.stores(made)
    published = PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)
    rows = [n % len(made.photos) for n in range(2 if tiny else BATCH)]
    encoded = [(p.read_bytes(), p.name) for p in made.photos]
    yield Contender(OURS, "ours", _ours(_album.training(made, FACTS.input_size), FACTS.preprocess, rows))
    yield Contender(PEER, "peer", lambda: _published(published, rows))
    yield Contender(LIMIT, "limit", lambda: [images.decode(*encoded[row]) for row in rows])


def judge(measured: Measured) -> list[Figure]:
    difference = _pixel_difference(*measured.results[PEER])
    rows = 2 if measured.tiny else BATCH
    return [
        measured.ratio("times as fast as the published path, pixels within .3", PEER, OURS, at_least=8),
        measured.ratio("the same, pixels within .05", PEER, OURS, at_least=6),
        Figure("mean difference of pixels, grey levels", [difference], at_most=0.05),
        measured.ratio("by the time that decoding the photos alone takes", OURS, LIMIT),
        measured.rate("images/s", OURS, rows, "/s"),
    ]


def _ours(photos: Any, preprocess: Any, rows: list[int]) -> Callable[[], object]:
    from bgbias import seeds
    from bgbias.benchmarks._published import RATIO, SCALE
    from bgbias.composite import replaced

    def run() -> object:
        crops, behind = seeds.generator("crop", "bench"), seeds.generator("background", "bench")
        batch = photos.batch(np.array(rows), crops, behind, SCALE, RATIO)
        return preprocess(replaced(batch.images, batch.masks, batch.backgrounds))

    return run


def _published(photos: Any, rows: list[int]) -> Any:
    photos.training(rows)
    return photos, rows


def _pixel_difference(published: Any, rows: list[int]) -> float:
    """Of our crops from the published ones of the same parts, in grey levels, before a background that is the photo mirrored."""
    from torchvision import transforms

    from bgbias import images
    from bgbias.backbones.bn_inception import FACTS
    from bgbias.benchmarks._published import RATIO, SCALE

    differences, size = [], FACTS.input_size
    for row in rows:
        photo, mask = published.resized(row)
        other = photo.transpose(0)
        top, left, height, width = transforms.RandomResizedCrop.get_params(photo, list(SCALE), list(RATIO))
        w, h = photo.size
        box = images.Box(left / w, top / h, width / w, height / h)

        def theirs(picture: Any, part: Any = (top, left, height, width)) -> np.ndarray:
            return np.asarray(published.crop(picture, part, False), np.float64)

        def ours(picture: Any, part: images.Box = box) -> np.ndarray:
            return images.crop(np.asarray(picture), part, size, False).astype(np.float64)

        m, n = theirs(mask)[..., None] / 255, ours(mask)[..., None] / 255
        expected = m * theirs(photo) + (1 - m) * theirs(other)
        found = n * ours(photo) + (1 - n) * ours(other)
        differences.append(np.abs(found - expected).mean())
    return float(np.mean(differences))
