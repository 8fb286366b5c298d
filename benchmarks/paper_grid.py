"""How long the published study takes on this GPU: each kind of work measured on its real path, times what the plan counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import Contender, Figure, Measured, masks, retrieval, training_gpu

TITLE = "the grid `paper` with 5 seeds on one GPU, a node at a time"
DEVICES = ("cuda",)
THREADS = None
ROUNDS = 3
GRID, PARAMS = "paper", Path("params.yaml")
# Early stopping decides how many a training takes; so many are assumed.
EPOCHS = 80
BATCH, DRAWS, SAMPLES = 32, 5, 25
EMBEDDED, DIFFERENT, ATTRIBUTED = 1280, 32, 40  # photos
TRAIN, MASKS, RETRIEVAL = training_gpu.ours(BATCH), masks.OURS["fp32"], retrieval.OURS
EMBED, ATTRIBUTE, START = "embedding", "attribution", "start of a node"
IMPORTS = "import typer, pydantic, yaml, pandas, torch, faiss, pytorch_metric_learning.losses"


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    # As the nodes do it: scores are the processor's work.
    for module, name, where in (
        (training_gpu, TRAIN, device),
        (masks, MASKS, device),
        (retrieval, RETRIEVAL, "cpu"),
    ):
        yield next(c for c in module.contenders(where, tiny) if c.name == name)
    embed, attribute = _evaluation(device, tiny)
    yield Contender(EMBED, "ours", embed)
    yield Contender(ATTRIBUTE, "ours", attribute)
    yield Contender(START, "ours", partial(subprocess.run, [sys.executable, "-c", IMPORTS], check=True))


def judge(measured: Measured) -> list[Figure]:
    from benchmarks._hours import Speeds, epochs, hours
    from bgbias.study.params import load

    tiny = measured.tiny
    steps, photos = (2, 8) if tiny else (training_gpu.STEPS[BATCH], BATCH)
    embedded, attributed = (2, 2) if tiny else (EMBEDDED, ATTRIBUTED)
    rates = [
        measured.rate("images/s, training", TRAIN, steps * photos, "/s"),
        measured.rate("views/s, embedding", EMBED, embedded * (1 + DRAWS), "/s"),
        measured.rate("noisy views/s, attribution", ATTRIBUTE, attributed * SAMPLES, "/s"),
        measured.rate("masks/s, fp32", MASKS, masks.photos(measured.device), "/s"),
        measured.rate("pairs/s, retrieval on the processor", RETRIEVAL, retrieval.photos(tiny) ** 2, "/s"),
        Figure("start of a node", measured.seconds[START], unit="s"),
    ]
    if not PARAMS.exists():
        missing = f"there is no {PARAMS} here; run the command in the project's folder"
        return [*rates, Figure(f"hours for `{GRID}`", [], missing=missing)]
    study = load(PARAMS, GRID)
    speeds = Speeds(*(median(rate.values) for rate in rates))
    usual = hours(study, speeds, EPOCHS)
    least, most = (sum(hours(study, speeds, n).values()) for n in epochs(study))
    return [
        *rates,
        *(Figure(f"hours of {step}, {EPOCHS} epochs a training", [h]) for step, h in usual.items()),
        Figure(f"hours for `{GRID}`, {EPOCHS} epochs a training", [sum(usual.values())]),
        Figure(f"hours for `{GRID}`, {epochs(study)[0]} epochs a training, the fewest", [least]),
        Figure(f"hours for `{GRID}`, {epochs(study)[1]:,} epochs a training, the most", [most]),
    ]


def _evaluation(device: str, tiny: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    from benchmarks import _album
    from bgbias import plugins, seeds
    from bgbias.attribution import smoothgrad
    from bgbias.attribution.settings import Attribution
    from bgbias.evaluation import embedding
    from bgbias.models.inference import for_inference
    from bgbias.models.model import build_model
    from bgbias.models.settings import How

    backbone, options = ("tiny", {}) if tiny else ("bn_inception", {"weights": None})
    module = plugins.load("backbones", backbone)
    params = module.Params.model_validate(options)
    model = build_model(backbone, params, 128, seeds.torch_generator("bench")).to(device)
    made = _album.album(2, 2) if tiny else _album.album(DIFFERENT, 60, EMBEDDED // DIFFERENT)
    photos = _album.evaluation(made, module.FACTS.input_size)
    attributed = _album.evaluation(made, module.FACTS.input_size, ATTRIBUTED)
    settings, network = Attribution(samples=SAMPLES), for_inference(model)
    return (
        lambda: embedding.embed(network, photos, _album.views(DRAWS), How(device)),
        lambda: smoothgrad.attribute_photos(model, attributed, "l2", settings, device),
    )
