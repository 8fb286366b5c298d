"""What figures show of a grid's photos: of one dataset, as the grid's first backbone sees them, and by a pair of models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bgbias.engine import inputs
from bgbias.evaluation.conditions import random_background
from bgbias.report import names, sources
from bgbias.study import plan
from bgbias.study.cell import PLAIN, Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.study.album import Album


def dataset(study: Study) -> str:
    """The last dataset of the grid's first block."""
    return study.cells[0].datasets[-1]


def pair(study: Study) -> tuple[Cell, ...]:
    """A plain and a cured model of the dataset that differ in nothing else; nothing if the grid has none."""
    cells = plan.cells(study)
    for cell in cells:
        cured = replace(cell, method=names.BGAUGMENT)
        if cell.dataset == dataset(study) and cell.method == PLAIN and cured in cells:
            return cell, cured
    return ()


def corrupted(study: Study) -> sources.Sources:
    """Photos, masks and the backgrounds of the test split."""
    name = dataset(study)
    return inputs.photos(name) | inputs.masks(study, name) | inputs.pools(study, name, "test")


def cut_by(study: Study) -> dict[str, Any]:
    """Settings: the size that photos are shown at, that of the first backbone."""
    net = plan.backbone(study, study.cells[0].backbones[0])
    return {"backbone": {"name": net.kind, **net.params().model_dump(exclude={"weights", "sha256"})}}


def settings(study: Study) -> dict[str, Any]:
    """Settings: by what photos are cut, and how masks are used."""
    return cut_by(study) | inputs.mask_policy(study)


def evaluation(study: Study) -> EvaluationPhotos:
    """The test photos, with all that puts them on other backgrounds."""
    opened = album(study)
    return opened.evaluation(opened.table("test"), random_background.NEEDS, "test")


def album(study: Study) -> Album:
    """The dataset as the backbone sees it."""
    from bgbias.study.album import Album

    return Album.seen_by(study, dataset(study), study.cells[0].backbones[0])
