"""What a grid would take on a machine whose speeds are known, one node after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bgbias.engine import forecast
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

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
