"""Test photos under every condition of the study, against the passes through the network that this takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks import Contender, Figure, Measured

TITLE = "every condition, five draws of those with chance, MobileNetV2 at 224"
DEVICES = ("cpu", "cuda")
THREADS = None
OURS, LIMIT = "bgbias", "passes alone"
DRAWS = 5
TIMES = {
    "cpu": 1,
    "cuda": 20,
}  # that each of 32 photos is seen: a GPU has done with a thousand views in a tenth of a second


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import numpy as np
    import torch

    from benchmarks import _album
    from bgbias import plugins, seeds
    from bgbias.evaluation import conditions, embedding
    from bgbias.evaluation.photos import workers
    from bgbias.models.backbones import mobilenet_v2
    from bgbias.models.inference import embed_views, for_inference
    from bgbias.models.model import build_model

    random = seeds.torch_generator("benchmark model")
    model = for_inference(
        build_model("mobilenet_v2", mobilenet_v2.Params.model_validate({"weights": None}), 128, random)
        .to(device)
        .eval()
    )
    times = 1 if tiny else TIMES[torch.device(device).type]
    photos = _album.evaluation(_album.album(8 if tiny else 32, 2 if tiny else 20, times), model.input_size)
    asked = conditions.views(plugins.names("conditions"), 1 if tiny else DRAWS)
    views = np.stack(list(photos.views(asked, workers(device, len(photos.table)))))
    yield Contender(OURS, "ours", lambda: (embedding.embed(model, photos, asked, device), len(views)))
    yield Contender(LIMIT, "limit", lambda: embed_views(model, itertools.chain(views), device))


def judge(measured: Measured) -> list[Figure]:
    import numpy as np

    found, views = measured.results[OURS]
    by_view = np.stack(list(found.views.values()), axis=1).reshape(views, -1)
    difference = float(np.abs(by_view - measured.results[LIMIT]).max())
    return [
        measured.ratio("times as long as the passes alone", OURS, LIMIT, at_most=1.1),
        Figure("greatest difference of an embedding's numbers", [difference], at_most=1e-6),
        measured.rate("views/s", OURS, views, "/s"),
    ]
