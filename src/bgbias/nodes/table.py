"""Report nodes: the scores of all models of a grid together, as tables, on the terminal and in MLflow."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.report import names as wording
from bgbias.results.model_rows import together
from bgbias.study import cell, plan
from bgbias.study.params import Study


def table(study: Study, name: str) -> None:
    """Write Table 1 (retrieval), 2 (attribution score), 3 (methods against plain) or 4 (segmentation) as CSV, Markdown, LaTeX and
    HTML, its main numbers as YAML.
    """
    from bgbias.report import formats

    files = study.files
    forms = ("csv", "md", "tex", "html", "yaml")
    outputs = {form: files.at("report_table", table=name, format=form) for form in forms}
    with records.node(study, "table", outputs, files.at("table_record", table=name), name=name):
        by_name = {"table1": _table1, "table2": _table2, "table3": _table3, "table4": _table4}
        made, caption = by_name[name](study)
        formats.write(made, outputs["csv"].parent, name, caption)


def _table1(study: Study) -> tuple[pd.DataFrame, str]:
    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import retrieval
    from bgbias.results import published

    results = pd.read_csv(study.files.at("results"), keep_default_na=False)
    queries = pd.read_parquet(study.files.at("all_queries"))
    made = retrieval.table1(results, queries, published.read(), plan.cells(study))
    return made, captions.table1(made, study.train.selection, _excluded(study))


def _table2(study: Study) -> tuple[pd.DataFrame, str]:
    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import retrieval
    from bgbias.results import published

    attribution = pd.read_parquet(study.files.at("all_attribution"))
    trained = [c for c in plan.cells(study) if plan.trains(study, c)]
    made = retrieval.table2(attribution, published.read(), trained)
    return made, captions.table2(made, study.train.selection, study.attribution.images, _excluded(study))


def _table3(study: Study) -> tuple[pd.DataFrame, str]:
    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import methods
    from bgbias.results import costs

    queries, attribution = (pd.read_parquet(study.files.at(n)) for n in ("all_queries", "all_attribution"))
    first, second = (_read(study, name) for name in ("table1", "table2"))
    # Folds' models side by side have no training of their own, nor an attribution, to compare with plain's.
    first = first[[not cell.side_by_side(method)[1] for method in first["method"]]]
    made = methods.table3(first, second, queries, attribution, costs.by_model(study))
    return made, captions.table3(made, study.train.selection, study.train.batch_size)


def _table4(study: Study) -> tuple[pd.DataFrame, str]:
    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import segmentation

    cells = plan.networks(study)
    found = [pd.read_csv(study.files.at("segmentation", **c.wildcards)).assign(**c.wildcards) for c in cells]
    made = segmentation.table4(together(found))
    judged = {d: str(plan.truth(study, d)) for d in plan.datasets(study)}
    return made, captions.table4(made, study.train.selection, study.segmentation.score, judged)


def _read(study: Study, name: str) -> pd.DataFrame:
    path = study.files.at("report_table", table=name, format="csv")
    if not path.exists():
        raise UserError(f"{path} is missing; make it with: snakemake --cores all --config grid={study.grid}")
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def show(study: Study) -> None:
    """Print the grid's tables, and say where figures are and how to compare runs."""
    from bgbias.report import formats

    files = study.files
    for name in plan.tables(study):
        shown = formats.show(_read(study, name), name)
        print(f"\n{wording.table(name)} ({files.at('report_table', table=name, format='md')})\n\n{shown}")
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


def _excluded(study: Study) -> dict[str, int]:
    report = pd.read_csv(study.files.at("mask_report"))
    return dict(zip(report["dataset"], report["test_photos_without_trusted_mask"].astype(int), strict=True))
