"""Embedding a test set, clean and before five draws of backgrounds, against the network alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "embedding a test set clean and before 5 draws of backgrounds, MobileNetV2 at 224"
DEVICES = ("cpu", "cuda")
THREADS = None
OURS, LIMIT = "bgbias", "six forward passes over tensors in memory"
DRAWS, BATCH = 5, 64
# How many times each of 64 photos is seen: a GPU is done with all their views before the processes that make them have begun.
TIMES = {"cpu": 1, "cuda": 40}


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from benchmarks import _album
    from bgbias import seeds
    from bgbias.evaluation import embedding
    from bgbias.models.backbones.mobilenet_v2 import FACTS, Params
    from bgbias.models.inference import for_inference
    from bgbias.models.model import build_model
    from bgbias.models.settings import How

    times = 1 if tiny else TIMES[torch.device(device).type]
    made = _album.album(2 if tiny else 64, 2 if tiny else 60, times)
    photos = _album.evaluation(made, FACTS.input_size)
    model = build_model("mobilenet_v2", Params(weights=None), 128, seeds.torch_generator("bench"))
    network = for_inference(model).to(device)
    stream = photos.views(_album.views(DRAWS))  # by one process, whatever ours does
    batches = []
    while some := list(itertools.islice(stream, BATCH)):
        x = FACTS.preprocess(torch.from_numpy(np.stack(some)).to(device).permute(0, 3, 1, 2).float())
        batches.append(x.contiguous(memory_format=torch.channels_last))

    @torch.inference_mode()
    def alone() -> Any:
        return torch.cat([network(batch) for batch in batches]).cpu().numpy()

    yield Contender(LIMIT, "limit", alone)
    yield Contender(
        OURS,
        "ours",
        lambda: embedding.embed(network, photos, _album.views(DRAWS), How(device, batch_size=BATCH)),
    )


def judge(measured: Measured) -> list[Figure]:
    found, alone = measured.results[OURS], measured.results[LIMIT]
    shaped = np.stack(list(found.views.values()), axis=1).reshape(alone.shape)
    return [
        measured.ratio("by six forward passes", OURS, LIMIT, at_most=1.2),
        Figure("largest difference of an embedding", [float(np.abs(shaped - alone).max())], at_most=1e-5),
        measured.rate("photos/s, six views each", OURS, len(found.ids), "/s"),
    ]
