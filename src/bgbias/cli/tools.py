"""Commands beside the workflow: what a study needs, costs and has; going on after a kill."""

import shlex
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from bgbias.attribution.settings import SimilarityScore
from bgbias.cli.arguments import (
    DEFAULT,
    WORDS,
    Device,
    Grid,
    ImageColumn,
    LabelColumn,
    Params,
    Place,
    Uri,
    argument,
    option,
)
from bgbias.engine import availability, freshness
from bgbias.engine import forecast as costs
from bgbias.engine import resume as resuming
from bgbias.engine.freshness import ARCHIVES, Finding
from bgbias.errors import for_this_study
from bgbias.nodes import table
from bgbias.plugins import use
from bgbias.progress import say
from bgbias.study.params import Study, load

app = typer.Typer()
STATES = ("current", "stale", "behind", "missing")


@app.command("data")
def data_table(grid: Grid = None, params: Params = DEFAULT) -> None:
    """Print what every dataset needs to arrive: state, size, next step. Fetches nothing."""
    availability.show(load(params, grid), only_grid=grid is not None)


@app.command()
def doctor(
    photos: Annotated[str, argument("doctor", "photos")],
    masks: Annotated[Path | None, option("doctor", "masks")] = None,
    class_level: Annotated[int | None, option("doctor", "class_level", min=1)] = None,
    image_column: ImageColumn = "",
    label_column: LabelColumn = "",
    place: Place = "",
    every: Annotated[bool, option("doctor", "every", "--all")] = False,
) -> None:
    """Tell what would be left out of your photos and why, and what stands out among the rest. Makes nothing."""
    from bgbias.auditing.photos import choose, look_at
    from bgbias.photos.examination import SHOWN
    from bgbias.photos.tables import NamedColumns

    path = Path(photos).expanduser()
    name = path.resolve().name if path.exists() else None
    columns = NamedColumns(image_column, label_column, place)
    photo_set = look_at(choose(photos, masks, name, class_level, columns=columns))
    for line in photo_set.describe(sys.maxsize if every else SHOWN):
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
def report(grid: Annotated[str | None, argument("all", "grid")] = None, params: Params = DEFAULT) -> None:
    """Write a finished grid as report.html beside its tables, which needs no other file and no network."""
    from bgbias.report import grid_page

    print(f"open {grid_page.write(load(params, grid))}")


@app.command()
def track(
    grid: Grid = None,
    params: Params = DEFAULT,
    follow: Annotated[int | None, option("track", "follow")] = None,
    uri: Uri = None,
) -> None:
    """Mirror records and training curves into MLflow; rebuilds any store, twice without duplicates."""
    from bgbias.tracking import watch as mirror

    study = load(params, grid)
    roots = study.paths
    folders = [Path(root) for root in (roots.work, roots.runs, roots.report, roots.raw)]
    target = uri or mirror.default_uri(Path.cwd())
    if follow is not None:
        mirror.follow(folders, target, study.grid, follow, mirror.stop_by_signal())
        return
    print(mirror.sync(folders, target, study.grid))


@app.command()
def ui(
    grid: Annotated[str | None, argument("ui", "grid")] = None,
    port: Annotated[int, option("ui", "port")] = 5000,
    uri: Uri = None,
) -> None:
    """Compare models in MLflow's pages: prints the address of the charts, and serves them until Ctrl-C."""
    from bgbias.tracking import ui as pages
    from bgbias.tracking import watch as mirror

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
    print(costs.format_forecast(study, freshness.current(freshness.examine(study))))
    checks.check(study)


@app.command()
def status(
    grid: Grid = None,
    params: Params = DEFAULT,
    deep: Annotated[bool, option("status", "deep")] = False,
    check: Annotated[bool, option("status", "check")] = False,
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
    model: Annotated[str, argument("explain", "model")],
    photos: Annotated[list[Path], argument("explain", "photos")],
    out: Annotated[Path, option("explain", "out")] = Path("explanation.png"),
    different: Annotated[bool, option("explain", "different", "--different")] = False,
    score: Annotated[SimilarityScore, option("explain", "score")] = "magnitude",
    plugins: Annotated[list[Path] | None, option("explain", "plugins")] = None,
    device: Device = "auto",
) -> None:
    """Draw by which places of two, three or four photos a model compares them (similarity attention)."""
    from bgbias import api
    from bgbias.attribution.explanation import NOT_SHOWN
    from bgbias.report import style as figures
    from bgbias.report.sheets import figure_explanation

    if plugins:
        use(*plugins)
    explanation = api.explain(model, photos, not different, score, device=device)
    figures.write(figure_explanation(explanation), out)
    print(out)
    say(f"{NOT_SHOWN} To measure that: bgbias audit PHOTOS --model {model}")


@app.command()
def resume(
    snakemake: Annotated[list[str] | None, argument("resume", "snakemake")] = None,
    grid: Grid = None,
    params: Params = DEFAULT,
) -> None:
    """Go on after anything was killed: end leftover processes of ours, unlock, run the workflow."""
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError(name="snakemake")
    resuming.resume(load(params, grid), params, grid, snakemake or [])


def format_status(study: Study, findings: list[Finding], deep: bool = False) -> str:
    """A line for each kind of step, then the reason of everything that is stale, then the next command.

    ``findings``: what ``freshness.examine`` gave, ``deep`` or not. What only a deep look finds, `restore` has to set aside, since
    nothing else tells Snakemake of it.
    """
    from bgbias.report import prose  # with pandas, which other commands do without

    counts = Counter((f.node.name, f.state) for f in findings)
    missing = [f.node for f in findings if f.state == "missing" and f.node.name not in ARCHIVES]
    targets = dict.fromkeys(
        WORDS["targets"].get(n.name) or shlex.quote(str(n.record(study))) for n in missing
    )
    text = prose.lines(
        "status.j2",
        study=study,
        states=STATES,
        kinds={f.node.name: [counts[f.node.name, state] for state in STATES] for f in findings},
        stale=[f for f in findings if f.state == "stale"],
        has_work=counts.keys() & {("table", "missing"), ("figure", "missing")}
        or any(state in ("stale", "behind") for _, state in counts),
        is_deep=deep,
        missing=missing,
        numbers=Counter(node.name for node in missing),
        targets=list(targets),
    )
    return for_this_study(text)
