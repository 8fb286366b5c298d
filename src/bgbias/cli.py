"""The command line: turns typed functions of ``nodes`` into subcommands; nothing is computed here.

Heavy imports stay inside the commands, so that ``--help`` and the light nodes start at once.
"""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from bgbias import gpu_slots, plan, records
from bgbias.dataset_parts import parts_of
from bgbias.errors import UserError
from bgbias.params import Study, load
from bgbias.progress import say

app = typer.Typer(
    help="Does a retrieval model look at the object, or at what stands behind it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
Seed = Annotated[int, typer.Option(help="Seed of initialisation, batches and crops.")]
DEFAULT = Path("params.yaml")


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
    from bgbias.nodes import data

    if part is None:
        data.fetch_all(_study(params, grid, "fetch", None, dataset=dataset), dataset)
    else:
        data.fetch(_study(params, grid, "fetch", expect, dataset=dataset, part=part), dataset, part)


@app.command("data")
def data_table(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Print what every dataset needs to arrive: state, size, next step. Fetches nothing."""
    from bgbias import arrivals

    arrivals.show(load(params, grid), only_grid=grid is not None)


@app.command()
def index(dataset: Dataset, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Make a dataset's table of images and its photo store."""
    from bgbias.nodes import data

    data.index(_study(params, grid, "index", expect, dataset=dataset), dataset)


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
    weights.weights(_study(params, grid, "weights", expect, owner=owner), owner)


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
    name = masker or study.datasets[_known(study, dataset)].masker
    if name not in study.maskers:
        raise UserError(f"{params} has no masker '{name}'; there are: {', '.join(study.maskers)}.")
    study = _study(params, grid, "masks", expect, dataset=dataset, masker=name)
    gpu_slots.take(study, device)
    from bgbias.nodes import masks as node

    node.masks(study, dataset, name, device)


@app.command()
def gather(pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Bring the photos that a background set's lists name."""
    from bgbias.nodes import backgrounds as nodes

    nodes.gather(_study(params, grid, "gather", expect, pool=pool), pool)


@app.command()
def propose(
    pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None, device: Device = "auto"
) -> None:
    """Look which photos of a folder have no obvious foreground and would make backgrounds."""
    study = _study(params, grid, "propose", expect, pool=pool)
    gpu_slots.take(study, device)
    from bgbias.nodes import backgrounds as nodes

    nodes.propose(study, pool, device)


@app.command()
def backgrounds(pool: Pool, grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Make three disjoint pools of background photos."""
    from bgbias.nodes import backgrounds as nodes

    nodes.backgrounds(_study(params, grid, "backgrounds", expect, pool=pool), pool)


@app.command()
def train(
    dataset: Dataset,
    backbone: Backbone,
    loss: Loss,
    method: Method,
    seed: Seed = 0,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
    device: Device = "auto",
) -> None:
    """Train one model; goes on where an interrupted run stopped."""
    cell = plan.Cell(dataset, backbone, loss, method, seed)
    study = _study(params, grid, "train", expect, cell=cell)
    gpu_slots.take(study, device)
    from bgbias.nodes import models

    models.train(study, cell, device)


@app.command()
def embed(
    dataset: Dataset,
    backbone: Backbone,
    loss: Loss,
    method: Method,
    seed: Seed = 0,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
    device: Device = "auto",
) -> None:
    """Embed a model's test photos, clean and before other backgrounds."""
    cell = plan.Cell(dataset, backbone, loss, method, seed)
    study = _study(params, grid, "embed", expect, cell=cell)
    gpu_slots.take(study, device)
    from bgbias.nodes import models

    models.embed(study, cell, device)


@app.command()
def score(
    dataset: Dataset,
    backbone: Backbone,
    loss: Loss,
    method: Method,
    seed: Seed = 0,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Score a model's embeddings: MAP@R, P@1, RP and R@K, one value a query."""
    from bgbias.nodes import models

    cell = plan.Cell(dataset, backbone, loss, method, seed)
    models.score(_study(params, grid, "score", expect, cell=cell), cell)


@app.command()
def attribute(
    dataset: Dataset,
    backbone: Backbone,
    loss: Loss,
    method: Method,
    seed: Seed = 0,
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
    device: Device = "auto",
) -> None:
    """Score how much of a model's attribution lies on the object."""
    cell = plan.Cell(dataset, backbone, loss, method, seed)
    study = _study(params, grid, "attribute", expect, cell=cell)
    gpu_slots.take(study, device)
    from bgbias.nodes import models

    models.attribute(study, cell, device)


@app.command()
def collect(grid: Grid = None, params: Params = DEFAULT, expect: Expect = None) -> None:
    """Bring the scores of all models of a grid together."""
    from bgbias.nodes import report

    report.collect(_study(params, grid, "collect", expect))


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="table1 (retrieval) or table2 (attribution score).")],
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Write a table of the paper as CSV, Markdown and LaTeX."""
    from bgbias.nodes import report

    report.table(_study(params, grid, "table", expect, name=name), name)


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="retrieval, attribution, drop, calibration, photos or masks.")],
    grid: Grid = None,
    params: Params = DEFAULT,
    expect: Expect = None,
) -> None:
    """Draw a figure as PDF and PNG."""
    from bgbias.nodes import pictures

    pictures.figure(_study(params, grid, "figure", expect, name=name), name)


@app.command()
def show(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Print a grid's tables, and say where its figures are."""
    from bgbias.nodes import report

    report.show(load(params, grid))


@app.command()
def track(
    grid: Grid = None,
    params: Params = DEFAULT,
    follow: Annotated[
        int | None, typer.Option(help="Keep mirroring until this process ends.", show_default=False)
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="Tracking URI; $MLFLOW_TRACKING_URI or sqlite:///mlflow.db.")
    ] = None,
) -> None:
    """Mirror records and training curves into MLflow; rebuilds any store, twice without duplicates."""
    from bgbias.nodes import report

    report.track(load(params, grid), uri, follow)


@app.command()
def forecast(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Tell what a grid costs before anything runs: photos, passes through networks, room on the disk."""
    from bgbias import forecast as costs

    print(costs.told(load(params, grid)))


@app.command()
def status(
    grid: Grid = None,
    params: Params = DEFAULT,
    verify: Annotated[
        bool, typer.Option(help="Read every file, not only those younger than its record.")
    ] = False,
) -> None:
    """Tell what is current, what is stale and why, and what is missing; nothing is changed."""
    from bgbias import status as standing

    print(standing.told(load(params, grid), verify))


@app.command()
def restore(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Verify every file that a remote or a cache brought against its record, and tell Snakemake what is current."""
    from bgbias import freshness
    from bgbias import status as standing

    study = load(params, grid)
    freshness.settle(study, thorough=True)
    print(standing.told(study))


@app.command()
def toy_masker(
    out: Annotated[Path, typer.Option(help="Where the weights go.")] = Path(
        "data/weights/u2netp_toy.safetensors"
    ),
    steps: Annotated[int, typer.Option(help="Training steps of 8 photos.")] = 1600,
    seed: Annotated[int, typer.Option(help="Seed of specimens, initialisation and batches.")] = 0,
) -> None:
    """Train the small U²-Net-p of the demo on rendered objects and scenes that no toy dataset shows."""
    from bgbias import toy_masker as training

    print(f"{out}: mean IoU {training.train(out, steps=steps, seed=seed):.3f} on other specimens")


@app.command()
def train_masker(
    place: Annotated[Path, typer.Argument(help="Folder or table of photos with hand-drawn masks.")],
    out: Annotated[Path, typer.Option(help="Where the weights go.")] = Path(
        "data/weights/u2netp_mine.safetensors"
    ),
    start: Annotated[str, typer.Option(help="Weights to start from.")] = "shared:weights/u2netp.safetensors",
    kind: Annotated[str, typer.Option(help="u2netp or u2net: the net of these weights.")] = "u2netp",
    folds: Annotated[
        int | None,
        typer.Option(help="Write no weights; cross-validate with so many folds.", show_default=False),
    ] = None,
    report: Annotated[Path, typer.Option(help="Where the folds' table and picture go.")] = Path(
        "data/report/masker"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of 4 photos.")] = 100,
    blend: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the new weights; the rest is the start's.")
    ] = 0.2,
    input_size: Annotated[int, typer.Option(min=32, help="Pixels of the square that the net sees.")] = 320,
    seed: Annotated[int, typer.Option(help="Seed of batches and augmentation.")] = 0,
    device: Device = "auto",
) -> None:
    """Fine-tune a U²-Net masker on a handful of hand-drawn masks."""
    from bgbias.device import pick
    from bgbias.masker_finetuning import Recipe
    from bgbias.nodes import train_masker as node

    recipe = Recipe(steps=steps, blend=blend, input_size=input_size, seed=seed)
    if folds is None:
        node.fine_tune(place, out, start, kind, recipe, pick(device))
    else:
        node.judge(place, report, start, kind, folds, recipe, pick(device))


@app.command()
def resume(
    snakemake: Annotated[
        list[str] | None, typer.Argument(help="Further arguments of Snakemake, after --.")
    ] = None,
    grid: Grid = None,
    params: Params = DEFAULT,
) -> None:
    """Go on after anything was killed: end leftover processes of ours, unlock, run the workflow."""
    from bgbias import resuming

    load(params, grid)
    resuming.resume(params, grid, snakemake or [])


def main() -> None:
    """Run a command; what the user can put right is told in plain words, without a traceback."""
    # A terminated node must release its lock and mark its record, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not sys.stderr.isatty():
        say(f"$ {records.command()}")
    try:
        app(standalone_mode=True)
    except UserError as error:
        say(f"\nbgbias: {error}")
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = error.filename or Path.cwd()
        say(f"\nbgbias: the disk is full ({place}). Free some space and run the same command again;")
        say("nothing that was finished is lost.")
        sys.exit(2)


def _study(params: Path, grid: str | None, node: str, expect: str | None, **subject: object) -> Study:
    """The study, checked to know what the command names, and to be the one that was planned."""
    study = load(params, grid)
    for value in subject.values():
        if isinstance(value, plan.Cell):
            _known(study, value.dataset)
            plan.check_cell(study, value)
    if subject.get("dataset"):
        _known(study, str(subject["dataset"]))
    if expect is not None:
        found = plan.digest(study, node, **subject)
        if found != expect:
            raise UserError(
                f"{params} was edited since this was planned ({expect}, now {found}); run snakemake again."
            )
    return study


def _known(study: Study, dataset: str) -> str:
    parts_of(study, dataset)
    return dataset
