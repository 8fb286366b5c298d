"""What the figures of a grid show: photos of one dataset, as the grid's first backbone sees them, and a pair of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bgbias.engine import inputs
from bgbias.engine.node import Made, step
from bgbias.evaluation.conditions import random_background
from bgbias.report import formats
from bgbias.study import plan
from bgbias.study.cell import PLAIN, Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    import pandas as pd

    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.models.backbones import Facts
    from bgbias.study.album import Album

CURED = "bgaugment"


def dataset(study: Study) -> str:
    """The last dataset of the grid's first block."""
    return study.cells[0].datasets[-1]


def pair(study: Study) -> tuple[Cell, ...]:
    """A plain and a cured model of the dataset that differ in nothing else; nothing if the grid has none."""
    cells = plan.cells(study)
    for cell in cells:
        cured = replace(cell, method=CURED)
        if cell.dataset == dataset(study) and cell.method == PLAIN and cured in cells:
            return cell, cured
    return ()


def has_pair(study: Study) -> bool:
    """Whether there are two models to compare."""
    return bool(pair(study))


def corrupted(study: Study) -> dict[str, Made]:
    """Photos, masks and the backgrounds of the test split."""
    name = dataset(study)
    return inputs.photos(name) | inputs.masks(study, name) | inputs.pools(study, name, "test")


def of_pair(study: Study, name: str, *outputs: str) -> dict[str, Made]:
    """What the node ``name`` made of both models."""
    return {
        f"{output} {cell.name}": Made(step(name, cell=cell), output)
        for cell in pair(study)
        for output in outputs
    }


def table(number: int) -> dict[str, Made]:
    """A table of the report."""
    name = f"table{number}"
    return {name: Made(step("table", table=name), "table_csv")}


def tables(study: Study) -> Callable[[str], pd.DataFrame]:
    """What reads a table of the report back by its name, as ``figures.of_tables`` wants it."""
    return lambda name: formats.read(study.files.at("table_csv", table=name))


def table1(study: Study) -> dict[str, Made]:
    """Table 1."""
    return table(1)


def cut_by(study: Study) -> dict[str, Any]:
    """Settings: the size that photos are shown at, that of the first backbone."""
    named = plan.backbone(study, study.cells[0].backbones[0])
    return {"backbone": {"name": named.kind, **named.params().model_dump(exclude={"weights", "sha256"})}}


def settings(study: Study) -> dict[str, Any]:
    """Settings: by what photos are cut, and how masks are used."""
    return cut_by(study) | inputs.mask_policy(study)


def evaluation(study: Study) -> EvaluationPhotos:
    """The test photos, with all that puts them in front of other backgrounds."""
    _, opened = album(study)
    return opened.evaluation(opened.table("test"), random_background.NEEDS, "test")


def album(study: Study) -> tuple[Facts, Album]:
    """The dataset as the backbone sees it, and the facts of that."""
    from bgbias.models import backbones
    from bgbias.study.album import Album

    named = plan.backbone(study, study.cells[0].backbones[0])
    facts = backbones.facts(named.kind, named.params())
    return facts, Album(study, dataset(study), facts.resize, facts.input_size)
