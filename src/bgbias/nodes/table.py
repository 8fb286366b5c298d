"""Node: a table of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bgbias.engine import records
from bgbias.engine.node import Made, files_of, step
from bgbias.errors import UserError
from bgbias.files.fingerprint import known_by
from bgbias.files.places import PUBLISHED, project_root
from bgbias.study import plan
from bgbias.study.cell import side_by_side
from bgbias.study.params import Study

if TYPE_CHECKING:
    import pandas as pd


SUBJECT = ("table",)
VERSION = 5
OUTPUTS = {
    "table_csv": "REPORT/{table}.csv",
    "table_md": "REPORT/{table}.md",
    "table_tex": "REPORT/{table}.tex",
    "table_html": "REPORT/{table}.html",
    "table_yaml": "REPORT/{table}.yaml",
    "table_record": "REPORT/{table}.json",
}


def goals(study: Study) -> list[dict[str, str]]:
    """The tables of the grid."""
    return [{"table": table} for table in plan.tables(study)]


def reads(study: Study, table: str) -> dict[str, Made]:
    """What the table is made of; one that the grid does not have is an error."""
    if table not in plan.tables(study):
        raise UserError(
            f"Grid '{study.grid}' has no table '{table}'; it has: {', '.join(plan.tables(study))}."
        )
    if table == plan.SEGMENTATION_TABLE:
        cells = plan.networks(study)
        return {f"segmentation {c.name}": Made(step("segment", cell=c), "segmentation") for c in cells}
    collected = step("collect")
    if table != "table3":
        return files_of(collected, "results", "all_queries", "all_attribution", "mask_report")
    read = files_of(collected, "all_queries", "all_attribution")
    read |= {t: Made(step("table", table=t), "table_csv") for t in ("table1", "table2")}
    for cell in (c for c in plan.cells(study) if plan.trains(study, c)):
        read[f"history {cell.name}"] = Made(step("train", cell=cell), "history")
        read[f"record {cell.name}"] = Made(step("train", cell=cell), "train_record")
    return read


def settings(study: Study, table: str) -> dict[str, Any]:
    """Published numbers, by content, and what the caption tells of the protocol."""
    if table == plan.SEGMENTATION_TABLE:
        return {"selection": study.train.selection}
    published = sorted((project_root() / PUBLISHED).glob("*.csv"))
    return {"published": {p.name: known_by(p) for p in published}, "selection": study.train.selection}


def table(study: Study, table: str) -> None:
    """Write Table 1 (retrieval), 2 (attribution score), 3 (methods against plain) or 4 (segmentation) as CSV, Markdown, LaTeX and
    HTML, its main numbers as YAML.
    """
    from bgbias.report import formats

    with records.node(study, step("table", table=table)) as record:
        by_name = {"table1": _table1, "table2": _table2, "table3": _table3, "table4": _table4}
        made, caption = by_name[table](study)
        formats.write(made, record.outputs["table_csv"].parent, table, caption)


def _table1(study: Study) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import retrieval
    from bgbias.results import published

    results = pd.read_csv(study.files.at("results"), keep_default_na=False)
    queries = pd.read_parquet(study.files.at("all_queries"))
    made = retrieval.table1(results, queries, published.read(), plan.cells(study))
    return made, captions.table1(made, study.train.selection, _excluded(study))


def _table2(study: Study) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import retrieval
    from bgbias.results import published

    attribution = pd.read_parquet(study.files.at("all_attribution"))
    trained = [c for c in plan.cells(study) if plan.trains(study, c)]
    made = retrieval.table2(attribution, published.read(), trained)
    return made, captions.table2(made, study.train.selection, study.attribution.images, _excluded(study))


def _table3(study: Study) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import methods
    from bgbias.results import costs

    queries, attribution = (pd.read_parquet(study.files.at(n)) for n in ("all_queries", "all_attribution"))
    first, second = (_read(study, name) for name in ("table1", "table2"))
    # Folds' models side by side have no training of their own, nor an attribution, to compare with plain's.
    first = first[[not side_by_side(method)[1] for method in first["method"]]]
    made = methods.table3(first, second, queries, attribution, costs.by_model(study))
    return made, captions.table3(made, study.train.selection, study.train.batch_size)


def _table4(study: Study) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    from bgbias.report.tables import _captions as captions
    from bgbias.report.tables import segmentation
    from bgbias.results.model_rows import together

    cells = plan.networks(study)
    found = [pd.read_csv(study.files.at("segmentation", **c.wildcards)).assign(**c.wildcards) for c in cells]
    made = segmentation.table4(together(found))
    judged = {d: str(plan.truth(study, d)) for d in plan.datasets(study)}
    return made, captions.table4(made, study.train.selection, study.segmentation.score, judged)


def _read(study: Study, name: str) -> pd.DataFrame:
    import pandas as pd

    path = study.files.at("table_csv", table=name)
    if not path.exists():
        raise UserError(f"{path} is missing; make it with: snakemake --cores all --config grid={study.grid}")
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _excluded(study: Study) -> dict[str, int]:
    import pandas as pd

    report = pd.read_csv(study.files.at("mask_report"))
    return dict(zip(report["dataset"], report["test_photos_without_trusted_mask"].astype(int), strict=True))


def show(study: Study) -> None:
    """Print the grid's tables, and say where figures are and how to compare runs."""
    from bgbias.report import formats, names

    files = study.files
    for name in plan.tables(study):
        shown = formats.show(_read(study, name), name)
        print(f"\n{names.table(name)} ({files.at('table_md', table=name)})\n\n{shown}")
    folder = files.at("figure_png", figure="x").parent
    print(f"\nFigures: {folder}/  ({', '.join(p.name for p in sorted(folder.glob('*.png')))})")
    print("Compare runs, curves and settings: make ui, then open http://127.0.0.1:5000")
