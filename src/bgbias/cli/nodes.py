"""One command for each node of the workflow: what a rule runs is what a person may type."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from bgbias.cli.arguments import (
    DEFAULT,
    Backbone,
    Dataset,
    Device,
    Expect,
    Grid,
    Loss,
    Method,
    Params,
    Pool,
    Seed,
    known,
    planned_study,
)
from bgbias.compute import gpu_slots
from bgbias.errors import UserError
from bgbias.photos.folds import seed_and_fold
from bgbias.study.cell import Cell
from bgbias.study.params import load

app = typer.Typer()


@app.command()
def fetch(
    dataset: Dataset,
    part: Annotated[
        str | None,
        typer.Argument(help="One of the dataset's files; all of them if not given.", show_default=False),
    ] = None,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Bring a dataset's files to data/raw and verify their checksums; goes on where a download broke off."""
    from bgbias.nodes.fetch import fetch, fetch_all

    if part is None:
        fetch_all(planned_study(params, grid, "fetch", None, dataset=dataset), dataset)
    else:
        fetch(planned_study(params, grid, "fetch", expect, dataset=dataset, part=part), dataset, part)


@app.command()
def index(dataset: Dataset, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Make a dataset's table of images and its photo store."""
    from bgbias.nodes import index as data

    data.index(planned_study(params, grid, "index", expect, dataset=dataset), dataset)


@app.command()
def weights(
    owner: Annotated[
        str,
        typer.Argument(help="A backbone of params.yaml, or maskers/<name>; its weights: published or a URL."),
    ],
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Fetch the weights that a backbone or a masker starts from, and verify their checksum."""
    from bgbias.nodes import weights

    owner = owner if "/" in owner else f"backbones/{owner}"
    weights.weights(planned_study(params, grid, "weights", expect, owner=owner), owner)


@app.command()
def masks(
    dataset: Dataset,
    masker: Annotated[
        str | None, typer.Argument(help="Name under `maskers`; the dataset's own if not given.")
    ] = None,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
    device: Device = "auto",
) -> None:
    """Make the masks of a dataset and a table of their quality."""
    study = load(params, grid)
    name = masker or study.datasets[known(study, dataset)].masker
    if name not in study.maskers:
        raise UserError(f"{params} has no masker '{name}'; there are: {', '.join(study.maskers)}.")
    study = planned_study(params, grid, "masks", expect, dataset=dataset, masker=name)
    gpu_slots.take(study.files.at("gpu_slots"), device)
    from bgbias.nodes import masks as node

    node.masks(study, dataset, name, device)


@app.command()
def gather(pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Bring the photos that a background set's lists name."""
    from bgbias.nodes.gather import gather

    gather(planned_study(params, grid, "gather", expect, pool=pool), pool)


@app.command()
def propose(
    pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None, device: Device = "auto"
) -> None:
    """Look which photos of a folder have no obvious foreground and would make backgrounds."""
    study = planned_study(params, grid, "propose", expect, pool=pool)
    gpu_slots.take(study.files.at("gpu_slots"), device)
    from bgbias.nodes.propose import propose

    propose(study, pool, device)


@app.command()
def backgrounds(pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Make three disjoint pools of background photos."""
    from bgbias.nodes import backgrounds as nodes

    nodes.backgrounds(planned_study(params, grid, "backgrounds", expect, pool=pool), pool)


def _of_a_model(node: str, module: str, text: str) -> None:
    """The command of a node that computes with one model, on a GPU of its own where there is one."""

    def command(
        dataset: Dataset,
        backbone: Backbone,
        loss: Loss,
        method: Method,
        seed: Seed = "0",
        grid: Grid = None,
        params: Params = DEFAULT,
        expect: Expect = None,
        device: Device = "auto",
    ) -> None:
        cell = Cell(dataset, backbone, loss, method, *seed_and_fold(seed))
        study = planned_study(params, grid, node, expect, cell=cell)
        # Before the node's file imports torch, which sees the GPUs that there are by then.
        gpu_slots.take(study.files.at("gpu_slots"), device)
        getattr(importlib.import_module(f"bgbias.nodes.{module}"), node)(study, cell, device)

    app.command(node, help=text)(command)


_of_a_model("train", "train", "Train one model; goes on where an interrupted run stopped.")
_of_a_model("embed", "embed", "Embed a model's test photos, clean and before other backgrounds.")


@app.command()
def score(
    dataset: Dataset,
    backbone: Backbone,
    loss: Loss,
    method: Method,
    seed: Seed = "0",
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Score a model's embeddings: MAP@R, P@1, RP and R@K, one value a query."""
    from bgbias.nodes import score as scores

    cell = Cell(dataset, backbone, loss, method, *seed_and_fold(seed))
    scores.score(planned_study(params, grid, "score", expect, cell=cell), cell)


_of_a_model("attribute", "attribute", "Score how much of a model's attribution lies on the object.")
_of_a_model(
    "segment",
    "segment",
    "Segment test photos by what a model compares them with others by, where the grid asks for it.",
)


@app.command()
def collect(grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Bring the scores of all models of a grid together."""
    from bgbias.nodes.collect import collect

    collect(planned_study(params, grid, "collect", expect))


@app.command()
def table(
    name: Annotated[
        str,
        typer.Argument(
            help="table1 (retrieval), table2 (attribution), table3 (methods against plain), table4 (segmentation)."
        ),
    ],
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Write a table as CSV, Markdown, LaTeX and a web page."""
    from bgbias.nodes import table as report

    report.table(planned_study(params, grid, "table", expect, name=name), name)


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="retrieval, attribution, drop, photos, masks, ...")],
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Draw a figure as PDF and PNG."""
    from bgbias.nodes import figure as pictures

    pictures.figure(planned_study(params, grid, "figure", expect, name=name), name)
