"""The parts of a printed table: rows that are compared with one another, and which of them is the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from bgbias.report import names
from bgbias.report.tables._columns import Column, Row


@dataclass(frozen=True)
class Section:
    """The rows of one dataset and backbone: a heading, then a label and (text, is best) for each column."""

    heading: str
    rows: list[tuple[str, list[tuple[str, bool]]]]


def _sections(table: pd.DataFrame, columns: Sequence[Column]) -> list[Section]:
    made = []
    for (dataset, backbone), part in table.groupby(["dataset", "backbone"], sort=False):
        values = part.itertuples(index=False)
        rows: list[Row] = [dict(zip(table.columns, row, strict=True)) for row in values]
        plain = {row["loss"] for row in rows if row["method"] == names.PLAIN}
        lines = []
        for row in rows:
            rivals = [r for r in rows if r["loss"] == row["loss"]]
            label = names.row(row["loss"], row["method"], below_plain=row["loss"] in plain)
            lines.append((label, [(c.text(row), _is_best(c, row, rivals)) for c in columns]))
        repeated = (
            ("seed", "seeds"),
            ("fold", "folds"),
            ("draw", "draws"),
            ("query", "queries"),
            ("image", "images"),
            ("episode", "episodes"),
        )
        counts = [names.how_many(part, column, noun) for noun, column in repeated if column in part]
        heading = " · ".join([names.dataset(str(dataset)), str(backbone), *counts])
        made.append(Section(heading, lines))
    return made


def _is_best(column: Column, row: Row, rivals: list[Row]) -> bool:
    return bool(column.best) and len(rivals) > 1 and row[column.best] == max(r[column.best] for r in rivals)
