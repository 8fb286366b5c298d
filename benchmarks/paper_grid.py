"""How long the published study takes on this GPU: each kind of work measured on its real path, times what the plan counts."""

import subprocess
import sys
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks import Case, Figure, Measured, Run, Values, rate, seconds
from benchmarks._album import Album, views
from benchmarks._models import random_model, trainer
from benchmarks._project import PROJECT
from benchmarks.networks import pictures, random_masker
from benchmarks.retrieval import clustered, score
from benchmarks.training import train_watched
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import attribute_photos
from bgbias.engine import forecast
from bgbias.evaluation.embedding import embed
from bgbias.models.inference import for_inference
from bgbias.models.settings import How
from bgbias.study import plan
from bgbias.study.params import Study, load

GRID = "paper"
# Early stopping decides how many a training takes; so many are assumed.
EPOCHS = 80
DRAWS, SAMPLES = 5, 25
TRAIN, MASKS, RETRIEVAL = "photos, batch 32", "bgbias, fp32", "bgbias"
EMBED, ATTRIBUTE, START = "embedding", "attribution", "start of a step"
IMPORTS = "import typer, pydantic, yaml, pandas, torch, faiss, pytorch_metric_learning.losses"


def paper_grid(
    device: str,
    backbone: str = "bn_inception",
    different: int = 32,
    times: int = 40,
    batch: int = 32,
    steps: int = 300,
    attributed: int = 320,
    net: str = "u2net",
    masked: int = 256,
    mask_size: int = 320,
    ranked: int = 60_502,
    classes: int = 11_316,
) -> Case:
    """``different`` photos, each so many ``times``."""
    model = random_model(backbone, device)
    network, size = for_inference(model), model.input_size
    album = Album(different, 60, times)
    to_train, to_embed = album.training(size, device=device), album.evaluation(size)
    to_attribute, settings = album.evaluation(size, attributed), Attribution(samples=SAMPLES)
    train = trainer("bgaugment", backbone, steps, device)
    ours: dict[str, Run] = {
        TRAIN: partial(train_watched, train, to_train, batch, steps),
        EMBED: lambda: embed(network, to_embed, views(DRAWS), How(device)),
        ATTRIBUTE: lambda: attribute_photos(model, to_attribute, "l2", settings, device),
        MASKS: partial(random_masker(net, mask_size, 32, "fp32", device), pictures(masked, mask_size)),
        RETRIEVAL: partial(score, *clustered(ranked, classes, 128), device),
        START: partial(subprocess.run, [sys.executable, "-c", IMPORTS], check=True),
    }
    rates = {
        "images/s, training": rate(TRAIN, steps * batch),
        "views/s, embedding": rate(EMBED, len(album.photos) * (1 + DRAWS)),
        "noisy views/s, attribution": rate(ATTRIBUTE, attributed * SAMPLES),
        "masks/s, fp32": rate(MASKS, masked),
        "pairs/s, retrieval": rate(RETRIEVAL, ranked**2),
    }
    study = load(PROJECT / "params.yaml", GRID)

    def by_step(epochs: int, m: Measured) -> dict[str, float]:
        speeds = (float(np.median(values(m))) for values in (*rates.values(), seconds(START)))
        return hours(study, Speeds(*speeds), epochs)

    def of_step(step: str) -> Values:
        return lambda m: by_step(EPOCHS, m)[step]

    def of_all(epochs: int) -> Values:
        return lambda m: sum(by_step(epochs, m).values())

    fewest, most = epochs(study)
    return Case(
        ours=ours,
        figures=[
            *(Figure(what, values, unit="/s") for what, values in rates.items()),
            Figure("start of a step", seconds(START), unit="s"),
            *(Figure(f"hours of {step}, {EPOCHS} epochs a training", of_step(step)) for step in COUNTED),
            Figure(f"hours for `{GRID}`, {EPOCHS} epochs a training", of_all(EPOCHS)),
            Figure(f"hours for `{GRID}`, {fewest} epochs a training, the fewest", of_all(fewest)),
            Figure(f"hours for `{GRID}`, {most:,} epochs a training, the most", of_all(most)),
        ],
    )


# What a grid would take on a machine whose speeds are known, one step after the other.

COUNTED = ("masks", "train", "embed", "score", "attribute")
HOUR = 3600.0


class Speeds(NamedTuple):
    """Photos trained, views embedded, noisy views attributed (there and back), photos masked, and pairs of a query and a photo of
    a gallery compared, in a second each; and the seconds that a process takes before it works.
    """

    trained: float
    embedded: float
    attributed: float
    masked: float
    compared: float
    start: float


def hours(study: Study, speeds: Speeds, epochs: int) -> dict[str, float]:
    """Hours by kind of step, if every training takes so many epochs; datasets whose photos nobody has counted are left out.

    Left out too is what happens once for all models: downloads, the index, the first decoding.
    """
    costs = forecast.forecast(study)
    per_epoch = study.train.iterations_per_epoch * study.train.batch_size / speeds.trained
    train = score = 0.0
    for cell in plan.cells(study):
        photos = forecast.photos(study, cell.dataset) or {}
        validation, test = photos.get("val", 0), photos.get("test", 0)
        score += (1 + 2 * study.evaluation.draws) * test**2 / speeds.compared
        if plan.trains(study, cell):
            train += epochs * (per_epoch + validation / speeds.embedded + validation**2 / speeds.compared)
    taken = {
        "masks": costs["masks"].forward[0] / speeds.masked,
        "train": train,
        "embed": costs["embed"].forward[0] / speeds.embedded,
        "score": score,
        "attribute": costs["attribute"].backward[0] / speeds.attributed,
    }
    return {step: (taken[step] + costs[step].nodes * speeds.start) / HOUR for step in COUNTED}


def epochs(study: Study) -> tuple[int, int]:
    """The fewest and the most that a training may take."""
    settings = study.train
    return min(settings.patience + 1, settings.max_epochs), settings.max_epochs
