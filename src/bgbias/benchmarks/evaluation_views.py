"""A test photo as it is and before five other backgrounds, without a model, against the published data path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bgbias.benchmarks import Contender, Figure, Measured

TITLE = "1 clean and 5 corrupted views of a photo, BN-Inception at 227, one thread, no model"
DEVICES = ("cpu",)
THREADS = 1
OURS, PEER = "bgbias", "published path"
DRAWS = 5


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from bgbias.backbones.bn_inception import FACTS
    from bgbias.benchmarks import _album
    from bgbias.benchmarks._published import PublishedPhotos

    made = _album.files(1 if tiny else 16, 2 if tiny else 60)
    _album.stores(made)
    photos = _album.evaluation(made, FACTS.input_size)
    published = PublishedPhotos(made, FACTS.input_size, FACTS.preprocess)

    def ours() -> int:
        x = torch.from_numpy(np.stack(list(photos.views(range(DRAWS))))).permute(0, 3, 1, 2)
        return len(FACTS.preprocess(x))

    yield Contender(OURS, "ours", ours)
    yield Contender(PEER, "peer", lambda: published.evaluation(list(range(len(made.photos))), DRAWS))


def judge(measured: Measured) -> list[Figure]:
    photos = measured.results[OURS] // (1 + DRAWS)
    return [
        measured.ratio("times as fast as the published path", PEER, OURS, at_least=15),
        measured.rate("photos/s, six views each", OURS, photos, "/s"),
    ]
