"""What the commands share: their arguments as people type them, and the study these name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from bgbias.engine import digests
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.study import plan
from bgbias.study.params import Study
from bgbias.study.sources import parts_of

Grid = Annotated[
    str | None, typer.Option(help="Named grid of params.yaml; its `grid` if not given.", show_default=False)
]
Params = Annotated[Path, typer.Option(help="The study's file.")]
Expect = Annotated[
    str | None,
    typer.Option(
        help="Digest that the plan had; an edited params.yaml or code is noticed.", show_default=False
    ),
]
Device = Annotated[
    str, typer.Option(help="auto, cpu or cuda; a GPU that is asked for and absent is an error.")
]
DEFAULT = Path("params.yaml")
REQUIRED = inspect.Parameter.empty


def _argument(text: str) -> Any:
    return Annotated[str, typer.Argument(help=text, show_default=False)]


# Of a node's subject, by the name that its file gives it.
SUBJECTS: dict[str, Any] = {
    "dataset": _argument("Name under `datasets` in params.yaml."),
    "part": _argument("One of the dataset's files; all of them if not given."),
    "masker": _argument("Name under `maskers`; the dataset's own if not given."),
    "backbone": _argument("Name under `backbones` in params.yaml."),
    "pool": _argument("Name under `backgrounds` in params.yaml."),
    "owner": _argument("A backbone of params.yaml, or maskers/<name>; its weights: published or a URL."),
    "run": _argument("Seed of initialisation, batches and views; 0-fold2 is seed 0 in fold 2 of four."),
    "table": _argument("table1, table2, ...: what the grid has."),
    "figure": _argument("retrieval, attribution, drop, photos, masks, ...: what the grid has."),
}
SEED = "Seed of initialisation, batches and crops; 0-fold2 is seed 0 in fold 2 of four."
# A model, by its parts.
CELL_ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "dataset": (SUBJECTS["dataset"], REQUIRED),
    "backbone": (SUBJECTS["backbone"], REQUIRED),
    "loss": (_argument("Name under `losses` in params.yaml; `none` for pretrained features."), REQUIRED),
    "method": (_argument("plain, bgaugment, ... or `pretrained`."), REQUIRED),
    "seed": (Annotated[str, typer.Option(help=SEED)], "0"),
}


def checked(study: Study, typed: dict[str, Any]) -> None:
    """Refuse a command that names what params.yaml does not know."""
    cell = typed.get("cell")
    dataset = cell.dataset if cell else typed.get("dataset")
    if dataset:
        parts_of(study, dataset)
    if cell:
        plan.check_cell(study, cell)


def known_digest(study: Study, step: Node, expected: str, params: Path) -> None:
    """Refuse a node that is not what was planned."""
    now = digests.digest(study, step.name, **step.keywords)
    if now != expected:
        raise UserError(
            f"{params}, or code that {step.name} works by, was edited since this was planned ({expected}, now {now}); run"
            " snakemake again."
        )
