"""Files that tables and figures are made from: the steps that make them, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyarrow.parquet import read_schema

from bgbias.engine import inputs
from bgbias.engine.node import StepOutput, files_of, step
from bgbias.photos.places import PLACE
from bgbias.photos.table import ImageTable, read_table
from bgbias.report import formats, names
from bgbias.results import rows
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sources = dict[str, StepOutput]


def list_collected(*outputs: str) -> Sources:
    """What is collected of all models: ``all_queries``, ``mask_report``, ..."""
    return files_of(step("collect"), *outputs)


def make_reads(
    *outputs: str,
    photos: bool = False,
    cells: tuple[Callable[[Study], Iterable[Cell]], *tuple[str, ...]] | None = None,
) -> Callable[[Study], Sources]:
    """``reads`` of a table that is made of these outputs of ``list_collected``, the tables of all datasets' ``photos``, and
    of ``cells``: a function that lists models, and outputs of theirs.
    """

    def reads(study: Study) -> Sources:
        files = list_collected(*outputs) | (inputs.tables(*plan.datasets(study)) if photos else {})
        return files | (inputs.of_models(cells[0](study), *cells[1:]) if cells else {})

    return reads


def list_tables(*numbers: int) -> Sources:
    """Tables of the report by their numbers."""
    return {t: StepOutput(step("table", table=t), "table_csv") for t in map("table{}".format, numbers)}


def table(study: Study, number: int) -> pd.DataFrame:
    """A table of the report. Raises UserError if it was not made yet."""
    return formats.read(study.files.at("table_csv", table=f"table{number}"))


def make_figure_hooks(
    number: int, figure: Callable[[pd.DataFrame], Figure]
) -> dict[str, Callable[[Study], Any]]:
    """``reads`` and ``draw`` of a figure of one of the report's tables."""
    return {"reads": lambda _: list_tables(number), "draw": lambda study: figure(table(study, number))}


def queries(study: Study, columns: Sequence[str] = rows.OF_QUERIES) -> pd.DataFrame:
    """The values of all models' queries, with their place where photos say it."""
    path = study.files.at("all_queries")
    optional = {PLACE} & set(read_schema(path).names)
    return pd.read_parquet(path, columns=[*columns, *optional])


def test_splits(study: Study) -> dict[str, ImageTable]:
    """The test split of each dataset."""
    tables = {d: study.files.at("table", dataset=d) for d in plan.datasets(study)}
    return {dataset: read_table(path).split("test") for dataset, path in tables.items()}


def read_cells(study: Study, reads: Callable[[Study], Sources], *outputs: str) -> list[pd.DataFrame]:
    """Of each of these outputs the files that a table reads, CSV or Parquet, one below the other, with their cells' names."""
    frames: dict[str, list[pd.DataFrame]] = {output: [] for output in outputs}
    for source in reads(study).values():
        if source.output in frames:
            path = source.path(study)
            frame = pd.read_parquet(path) if path.suffix == ".parquet" else rows.read_csv(path)
            frames[source.output].append(frame.assign(**source.node.wildcards))
    return [rows.together(of_output) for of_output in frames.values()]


def excluded(study: Study, read: Mapping[str, StepOutput]) -> dict[str, int]:
    """Test photos of each dataset that masks exclude; nothing without the ``mask_report``."""
    if "mask_report" not in read:
        return {}
    report = rows.read_csv(read["mask_report"].path(study))
    return dict(zip(report["dataset"], report["test_photos_without_trusted_mask"].astype(int), strict=True))


def models(values: pd.DataFrame) -> Iterator[tuple[rows.Model, pd.DataFrame]]:
    """Each model with its rows, in the paper's order: plain comes before what is compared with it."""
    by_model = values.groupby(rows.MODEL, sort=False, observed=True)
    for model in names.in_order(values[rows.MODEL].drop_duplicates()).itertuples(index=False, name=None):
        yield model, by_model.get_group(model)
