"""How long the published study takes on this GPU: each kind of work measured on its real path, times what the plan counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import Contender, Figure, Measured, _retrieval, _training, masks
from benchmarks._project import random_model
from bgbias.engine import forecast
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study, load

GRID, PARAMS = "paper", Path("params.yaml")
# Early stopping decides how many a training takes; so many are assumed.
EPOCHS = 80
BATCH, DRAWS, SAMPLES = 32, 5, 25
EMBEDDED, DIFFERENT, ATTRIBUTED = 1280, 32, 40  # photos
TRAIN, MASKS, RETRIEVAL = _training.on_photos(BATCH), masks.OURS["fp32"], _retrieval.OURS
EMBED, ATTRIBUTE, START = "embedding", "attribution", "start of a step"
IMPORTS = "import typer, pydantic, yaml, pandas, torch, faiss, pytorch_metric_learning.losses"


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    # As the nodes do it: scores are the processor's work.
    for contenders_of, name, where in (
        (_training.gpu_contenders, TRAIN, device),
        (masks.contenders, MASKS, device),
        (_retrieval.contenders, RETRIEVAL, "cpu"),
    ):
        yield next(c for c in contenders_of(where, tiny) if c.name == name)
    embed, attribute = _evaluation(device, tiny)
    yield Contender(EMBED, "ours", embed)
    yield Contender(ATTRIBUTE, "ours", attribute)
    yield Contender(START, "ours", partial(subprocess.run, [sys.executable, "-c", IMPORTS], check=True))


def judge(measured: Measured) -> list[Figure]:
    tiny = measured.tiny
    steps, photos = (2, 8) if tiny else (_training.GPU_STEPS[BATCH], BATCH)
    embedded, attributed = (2, 2) if tiny else (EMBEDDED, ATTRIBUTED)
    rates = [
        measured.rate("images/s, training", TRAIN, steps * photos),
        measured.rate("views/s, embedding", EMBED, embedded * (1 + DRAWS)),
        measured.rate("noisy views/s, attribution", ATTRIBUTE, attributed * SAMPLES),
        measured.rate("masks/s, fp32", MASKS, masks.photos(measured.device)),
        measured.rate("pairs/s, retrieval on the processor", RETRIEVAL, _retrieval.photos(tiny) ** 2),
        Figure("start of a step", measured.seconds[START], unit="s"),
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
    from bgbias.attribution import smoothgrad
    from bgbias.attribution.settings import Attribution
    from bgbias.evaluation import embedding
    from bgbias.models.inference import for_inference
    from bgbias.models.settings import How

    model = random_model("tiny" if tiny else "bn_inception", device)
    made = _album.album(2, 2) if tiny else _album.album(DIFFERENT, 60, EMBEDDED // DIFFERENT)
    photos = _album.evaluation(made, model.input_size)
    attributed = _album.evaluation(made, model.input_size, ATTRIBUTED)
    settings, network = Attribution(samples=SAMPLES), for_inference(model)
    return (
        lambda: embedding.embed(network, photos, _album.views(DRAWS), How(device)),
        lambda: smoothgrad.attribute_photos(model, attributed, "l2", settings, device),
    )


# What a grid would take on a machine whose speeds are known, one node after the other.

HOUR = 3600.0


@dataclass(frozen=True)
class Speeds:
    """Things a second, and the seconds that a process takes before it works."""

    trained: float
    """photos in training steps"""
    embedded: float
    """views that go through the network, from prepared photos to embeddings"""
    attributed: float
    """noisy views, there and back"""
    masked: float
    """photos"""
    compared: float
    """pairs of a query and a gallery's photo"""
    start: float


def hours(study: Study, speeds: Speeds, epochs: int) -> dict[str, float]:
    """Hours by kind of node, if every training takes so many epochs; datasets whose photos nobody has counted are left out.

    Left out too is what happens once for all models: downloads, the index, the first decoding.
    """
    costs = forecast.forecast(study)
    found = {"masks": costs["masks"].forward[0] / speeds.masked} if "masks" in costs else {}
    found["train"] = sum(_trainings(study, speeds, epochs))
    found["embed"] = costs["embed"].forward[0] / speeds.embedded
    found["score"] = sum(
        (1 + 2 * study.evaluation.draws) * _photos(study, cell, "test") ** 2 / speeds.compared
        for cell in plan.cells(study)
    )
    found["attribute"] = costs["attribute"].backward[0] / speeds.attributed if "attribute" in costs else 0.0
    return {step: (s + costs[step].nodes * speeds.start) / HOUR for step, s in found.items() if step in costs}


def epochs(study: Study) -> tuple[int, int]:
    """The fewest and the most that a training may take."""
    settings = study.train
    return min(settings.patience + 1, settings.max_epochs), settings.max_epochs


def _trainings(study: Study, speeds: Speeds, epochs: int) -> Iterator[float]:
    shown = study.train.iterations_per_epoch * study.train.batch_size
    for cell in plan.cells(study):
        if plan.trains(study, cell):
            validation = _photos(study, cell, "val")
            yield epochs * (
                shown / speeds.trained + validation / speeds.embedded + validation**2 / speeds.compared
            )


def _photos(study: Study, cell: Cell, split: str) -> int:
    return (forecast.photos(study, cell.dataset) or {}).get(split, 0)
