"""Test photos under every condition of the study, against the passes through the network that this takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks import Contender, Figure, Measured

TITLE = "every condition but cue_conflict, five draws of those with chance, MobileNetV2 at 224"
DEVICES = ("cpu", "cuda")
THREADS = None
OURS, LIMIT = "bgbias", "passes alone"
# This one quilts a texture for each of its views.
QUILTED, CUE_CONFLICT = "cue_conflict", "views of cue_conflict alone"
DRAWS = 5
# How many times each of 32 photos is seen: enough for several processes.
TIMES = {"cpu": 1, "cuda": 8}


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import numpy as np
    import torch

    from benchmarks import _album
    from bgbias import plugins, seeds
    from bgbias.evaluation import conditions, embedding
    from bgbias.models.backbones import mobilenet_v2
    from bgbias.models.inference import embed_views, for_inference
    from bgbias.models.model import build_model
    from bgbias.models.settings import How

    random = seeds.torch_generator("benchmark model")
    model = for_inference(
        build_model("mobilenet_v2", mobilenet_v2.Params.model_validate({"weights": None}), 128, random)
        .to(device)
        .eval()
    )
    times = 1 if tiny else TIMES[torch.device(device).type]
    photos = _album.evaluation(_album.album(8 if tiny else 32, 2 if tiny else 20, times), model.input_size)
    draws = 1 if tiny else DRAWS
    of_audits = {name for name in plugins.names("conditions") if "second_masks" in conditions.needs([name])}
    asked = conditions.views(sorted(set(plugins.names("conditions")) - {QUILTED} - of_audits), draws)
    views = np.stack(list(photos.views(asked)))  # by one process, whatever ours does
    yield Contender(OURS, "ours", lambda: (embedding.embed(model, photos, asked, How(device)), len(views)))
    yield Contender(LIMIT, "limit", lambda: embed_views(model, itertools.chain(views), How(device)))
    quilted = conditions.views([QUILTED], draws)
    some = range(2 if tiny else 16)
    yield Contender(CUE_CONFLICT, "ours", lambda: len(list(photos.views(quilted, rows=some))))


def judge(measured: Measured) -> list[Figure]:
    import numpy as np

    found, views = measured.results[OURS]
    by_view = np.stack(list(found.views.values()), axis=1).reshape(views, -1)
    difference = float(np.abs(by_view - measured.results[LIMIT]).max())
    return [
        measured.ratio("times as long as the passes alone", OURS, LIMIT, at_most=1.1),
        Figure("greatest difference of an embedding's numbers", [difference], at_most=1e-6),
        measured.rate("views/s", OURS, views, "/s"),
        measured.rate(
            "views/s of cue_conflict, without a network", CUE_CONFLICT, measured.results[CUE_CONFLICT], "/s"
        ),
    ]
