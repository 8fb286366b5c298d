"""Commands beside the workflow: what a study needs, costs and has; going on after a kill."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from bgbias.attribution.settings import SimilarityScore
from bgbias.cli.arguments import DEFAULT, Device, Grid, ImageColumn, LabelColumn, Params, Place
from bgbias.cli.status import format_status
from bgbias.engine import availability, freshness
from bgbias.engine import forecast as costs
from bgbias.engine import resume as resuming
from bgbias.nodes import table
from bgbias.plugins import use
from bgbias.progress import say
from bgbias.study.params import load

app = typer.Typer()
Uri = Annotated[str | None, typer.Option(help="Tracking URI; $MLFLOW_TRACKING_URI or sqlite:///mlflow.db.")]


@app.command("data")
def data_table(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Print what every dataset needs to arrive: state, size, next step. Fetches nothing."""
    availability.show(load(params, grid), only_grid=grid is not None)


@app.command()
def doctor(
    photos: Annotated[
        str,
        typer.Argument(
            help="Folder, zip or tar of photos with a folder for each class; a table (CSV, Parquet) with the columns path and"
            " class; a COCO file; or a dataset of params.yaml."
        ),
    ],
    masks: Annotated[Path | None, typer.Option(help="Their masks.")] = None,
    class_level: Annotated[
        int | None, typer.Option(min=1, help="Which folder of a path is the class.")
    ] = None,
    image_column: ImageColumn = "",
    label_column: LabelColumn = "",
    place: Place = "",
    every: Annotated[bool, typer.Option("--all", help="Name all photos, not only the first ones.")] = False,
) -> None:
    """Tell what would be left out of your photos and why, and what stands out among the rest. Makes nothing."""
    from bgbias.auditing.photos import choose, look_at
    from bgbias.photos.examination import SHOWN
    from bgbias.photos.tables import NamedColumns

    path = Path(photos).expanduser()
    name = path.resolve().name if path.exists() else None
    named = NamedColumns(image_column, label_column, place)
    photo_set = look_at(choose(photos, masks, name, class_level, named=named))
    for line in photo_set.told(sys.maxsize if every else SHOWN):
        say(line, sys.stdout)
    of_classes = f" of {photo_set.classes} classes" if photo_set.classes else " without classes"
    say(
        f"{photo_set.name}: {len(photo_set)} photos{of_classes}, {len(photo_set.left_out)} files left out",
        sys.stdout,
    )


@app.command()
def show(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Print a grid's tables and what training took, and say where its figures are."""
    table.show(load(params, grid))


@app.command()
def report(
    grid: Annotated[
        str | None, typer.Argument(help="Named grid of params.yaml; its `grid` if not given.")
    ] = None,
    params: Params = DEFAULT,
) -> None:
    """Write a finished grid as a page for people, report.html beside its tables, which needs no other file and no network."""
    from bgbias.report import grid_page

    print(f"open {grid_page.write(load(params, grid))}")


@app.command()
def track(
    grid: Grid = None,
    params: Params = DEFAULT,
    follow: Annotated[int | None, typer.Option(help="Keep mirroring until this process ends.")] = None,
    uri: Uri = None,
) -> None:
    """Mirror records and training curves into MLflow; rebuilds any store, twice without duplicates."""
    from bgbias.tracking import follow as mirror

    study = load(params, grid)
    roots = study.paths
    folders = [Path(root) for root in (roots.work, roots.runs, roots.report, roots.raw)]
    target = uri or mirror.default_uri(Path.cwd())
    if follow is not None:
        mirror.follow(folders, target, study.grid, follow)
        return
    print(mirror.sync(folders, target, study.grid))


@app.command()
def ui(
    grid: Annotated[
        str | None, typer.Argument(help="Which grid; the one that ran last if not given.")
    ] = None,
    port: Annotated[int, typer.Option(help="Where MLflow answers, on this machine alone.")] = 5000,
    uri: Uri = None,
) -> None:
    """Compare models in MLflow's pages: prints the address of the charts, and serves them until Ctrl-C."""
    from bgbias.tracking import follow as mirror
    from bgbias.tracking import ui as pages

    target = uri or mirror.default_uri(Path.cwd())
    if target.startswith("http"):
        print(f"open {pages.link(target, grid, target.rstrip('/'))}")
        return
    pages.check_free(port)
    pages.serve(target, port, pages.link(target, grid, f"http://{pages.HOST}:{port}"))


@app.command()
def forecast(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Tell what a grid costs before anything runs: photos, passes through networks, room on the disk."""
    from bgbias.engine import checks

    study = load(params, grid)
    print(costs.told(study))
    checks.check(study)


@app.command()
def status(
    grid: Grid = None,
    params: Params = DEFAULT,
    deep: Annotated[
        bool,
        typer.Option(
            help="Read every file and every source, not only those whose size or times have changed."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            help="Fail unless every table and figure, and all they need, is current; implies --deep."
        ),
    ] = False,
) -> None:
    """Tell what is current, what is stale and why, and what is missing; nothing is changed."""
    study = load(params, grid)
    findings = freshness.examine(study, deep or check)
    print(format_status(study, findings, deep or check))
    if check and freshness.lacking(findings):
        raise typer.Exit(1)


@app.command()
def restore(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Verify every file that a remote or a cache brought against its record; the next run makes again what does not match."""
    study = load(params, grid)
    freshness.settle(study, deep=True)
    print(format_status(study, freshness.examine(study)))


@app.command()
def explain(
    model: Annotated[str, typer.Argument(help="A trained model.safetensors, or what audit's --model takes.")],
    photos: Annotated[
        list[Path],
        typer.Argument(help="A pair; anchor, positive, negative; or anchor, positive and two negatives."),
    ],
    out: Annotated[Path, typer.Option(help="The figure, .png or .pdf.")] = Path("explanation.png"),
    different: Annotated[
        bool, typer.Option("--different", help="A pair: ask what sets the two apart, not what they share.")
    ] = False,
    score: Annotated[
        SimilarityScore,
        typer.Option(
            help="What the maps explain: the size of what counts, or the paper's sum with its signs."
        ),
    ] = "magnitude",
    plugins: Annotated[
        list[Path] | None, typer.Option(help="A folder with the model's own backbone.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Draw by which places of two, three or four photos a model compares them (similarity attention)."""
    from bgbias import api
    from bgbias.attribution.explanation import NOT_SHOWN, read_photos
    from bgbias.report import look as figures
    from bgbias.report.maps import figure_explanation

    if plugins:
        use(*plugins)
    explanation = api.explain(model, read_photos(photos), not different, score, device=device)
    figures.write(figure_explanation(explanation), out)
    print(out)
    say(f"{NOT_SHOWN} To measure that: bgbias audit PHOTOS --model {model}")


@app.command()
def resume(
    snakemake: Annotated[
        list[str] | None, typer.Argument(help="Further arguments of Snakemake, after --.")
    ] = None,
    grid: Grid = None,
    params: Params = DEFAULT,
) -> None:
    """Go on after anything was killed: end leftover processes of ours, unlock, run the workflow."""
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError(name="snakemake")
    resuming.resume(load(params, grid), params, grid, snakemake or [])
