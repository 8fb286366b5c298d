"""Training batches whose backgrounds are replaced, against the published data path on the main process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "training batches with background replacement, BN-Inception at 227, one thread"
DEVICES = ("cpu",)
THREADS = 1
OURS, PEER, LIMIT = "bgbias", "published path", "decoding the photos alone"
BATCH = 32


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks import _album
    from benchmarks._published import RATIO, SCALE, PublishedPhotos
    from bgbias import seeds
    from bgbias.images import pixels
    from bgbias.models.backbones.bn_inception import FACTS

    made = _album.album(2 if tiny else 64, 2 if tiny else 60)
    published = PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)
    photos = _album.training(made, FACTS.input_size)
    rows = [n % len(made.photos) for n in range(2 if tiny else BATCH)]
    difference = _pixel_difference(photos, published, rows)
    encoded = [(p.read_bytes(), p.name) for p in made.photos]

    def ours() -> float:
        crops, behind = seeds.generator("crop", "bench"), seeds.generator("background", "bench")
        _shown(photos.batch(np.array(rows), crops, behind, SCALE, RATIO))
        return difference

    yield Contender(OURS, "ours", ours)
    yield Contender(PEER, "peer", lambda: published.training(rows))
    yield Contender(LIMIT, "limit", lambda: [pixels.decode(*encoded[row]) for row in rows])


def judge(measured: Measured) -> list[Figure]:
    rows = 2 if measured.tiny else BATCH
    return [
        measured.ratio("times as fast as the published path", PEER, OURS, at_least=6),
        Figure("mean difference of pixels, grey levels", [measured.results[OURS]], at_most=0.05),
        measured.ratio("by the time that decoding the photos alone takes", OURS, LIMIT),
        measured.rate("images/s", OURS, rows, "/s"),
    ]


def _shown(batch: Any) -> Any:
    """What a network gets to see of a batch in training."""
    from bgbias.images.composite import blend_batch
    from bgbias.models.backbones.bn_inception import FACTS

    return FACTS.preprocess(blend_batch(batch.images, batch.masks, batch.backgrounds))


def _pixel_difference(photos: Any, published: Any, rows: list[int]) -> float:
    """Of a batch from the published one with the same crops and backgrounds, in grey levels, which this network's numbers are."""
    import torch

    from benchmarks._published import mixed, part_of
    from bgbias.backgrounds.draws import Draw

    parts, behind, expected = [], [], []
    for place, row in enumerate(rows):
        index = place % len(published.files.backgrounds)
        background = published.files.backgrounds[index]
        part, other = part_of(published.files.photos[row]), part_of(background)
        photo, mask = published.cropped(row, part)
        expected.append(mixed(photo, mask, published.background(background, other)))
        parts.append(part.relative)
        behind.append(Draw(index, *other.relative))
    found = _shown(photos.cropped(np.array(rows), parts, behind))
    return float((found - torch.stack(expected)).abs().mean())
