"""What the commands share: their arguments as people type them, and the study these name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bgbias.engine import digests
from bgbias.errors import UserError
from bgbias.study import cell, plan
from bgbias.study.params import Study, load
from bgbias.study.sources import parts_of

Grid = Annotated[
    str | None, typer.Option(help="Named grid of params.yaml; its `grid` if not given.", show_default=False)
]
Params = Annotated[Path, typer.Option(help="The study's file.")]
Expect = Annotated[
    str | None,
    typer.Option(help="Digest that the plan had; an edited params.yaml is noticed.", show_default=False),
]
Device = Annotated[
    str, typer.Option(help="auto, cpu or cuda; a GPU that is asked for and absent is an error.")
]
Dataset = Annotated[str, typer.Argument(help="Name under `datasets` in params.yaml.")]
Pool = Annotated[str, typer.Argument(help="Name under `backgrounds` in params.yaml.")]
Backbone = Annotated[str, typer.Argument(help="Name under `backbones` in params.yaml.")]
Loss = Annotated[
    str, typer.Argument(help="Name under `losses` in params.yaml; `none` for pretrained features.")
]
Method = Annotated[str, typer.Argument(help="plain, bgaugment, ... or `pretrained`.")]
Seed = Annotated[
    str, typer.Option(help="Seed of initialisation, batches and crops; 0-fold2 is seed 0 in fold 2 of four.")
]
DEFAULT = Path("params.yaml")


def planned_study(params: Path, grid: str | None, node: str, expect: str | None, **subject: object) -> Study:
    """The study, checked to know what the command names, and to be the one that was planned."""
    study = load(params, grid)
    for value in subject.values():
        if isinstance(value, cell.Cell):
            known(study, value.dataset)
            plan.check_cell(study, value)
    if subject.get("dataset"):
        known(study, str(subject["dataset"]))
    if expect is not None:
        found = digests.digest(study, node, **subject)
        if found != expect:
            raise UserError(
                f"{params} was edited since this was planned ({expect}, now {found}); run snakemake again."
            )
    return study


def known(study: Study, dataset: str) -> str:
    parts_of(study, dataset)
    return dataset
