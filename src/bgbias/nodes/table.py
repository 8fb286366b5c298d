"""Report nodes: the scores of all models of a grid together, as tables, on the terminal and in MLflow."""

from __future__ import annotations

from pathlib import Path

from bgbias.engine import records
from bgbias.report import names, tables
from bgbias.study.params import Study


def table(study: Study, name: str) -> None:
    """Write one of the grid's tables as CSV, Markdown, LaTeX and HTML, its main numbers as YAML."""
    from bgbias.report import formats

    files = study.files
    forms = ("csv", "md", "tex", "html", "yaml")
    outputs = {form: files.at("report_table", table=name, format=form) for form in forms}
    with records.node(study, "table", outputs, files.at("table_record", table=name), name=name):
        declared = tables.load(name)
        numbers = declared.make(study)
        formats.write(numbers, outputs["csv"].parent, name, declared.caption(study, numbers))


def show(study: Study) -> None:
    """Print the grid's tables, and say where figures are and how to compare runs."""
    from bgbias.report import formats

    files = study.files
    for name in tables.wanted(study):
        numbers = formats.read(files.at("report_table", table=name, format="csv"))
        printed = files.at("report_table", table=name, format="md")
        print(f"\n{names.table(name)} ({printed})\n\n{formats.show(numbers, name)}")
    folder = files.at("figures", figure="x", format="png").parent
    print(f"\nFigures: {folder}/  ({', '.join(p.name for p in sorted(folder.glob('*.png')))})")
    print("Compare runs, curves and settings: make ui, then open http://127.0.0.1:5000")


def track(study: Study, uri: str | None, follow: int | None) -> None:
    """Mirror the grid's records into MLflow, once or for as long as process ``follow`` lives."""
    from bgbias.tracking import follow as tracking

    folders = [
        Path(study.paths.work),
        Path(study.paths.runs),
        Path(study.paths.report),
        Path(study.paths.raw),
    ]
    target = uri or tracking.default_uri(Path.cwd())
    if follow is None:
        print(tracking.sync(folders, target, study.grid))
    else:
        tracking.follow(folders, target, study.grid, follow)
