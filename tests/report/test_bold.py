"""Bold marks one thing: what is significantly better than plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bgbias import plugins
from bgbias.report.columns import Column, number
from bgbias.results import rows
from bgbias.results.rows import Values

SEEDS, CLASSES, QUERIES = 3, 16, 4
COLUMN = Column("MAP@R", number("map", 1), gain="map_difference")


def bold(of_methods: dict[str, np.ndarray]) -> list[str]:
    """The methods in bold of a table of these values [S, N]."""
    queries = pd.Index([f"{query}.jpg" for query in range(CLASSES * QUERIES)])
    classes = np.repeat(np.arange(CLASSES), QUERIES)
    models = {
        model: Values(model, tuple(range(SEEDS)), queries, classes, {"map": values}, {})
        for method, values in of_methods.items()
        for model in [("toy", "tiny", "triplet", method)]
    }
    lines: list[dict[str, Any]] = []
    for model, values in models.items():
        more = values.against(rows.plain_of(models, model), ["map"])
        lines.append(rows.name_columns(model) | rows.tested("map_difference", more, 100))
    table = rows.correct_p_values(pd.DataFrame(lines), ["map_difference"]).to_dict("records")
    return [row["method"] for row in table if COLUMN.is_bold(row)]


def drawn(random: np.random.Generator, more: float = 0) -> np.ndarray:
    """A model's values: of its own in each class and seed, and noise a query."""
    shape = SEEDS, CLASSES, QUERIES
    parts = [random.normal(0, sd, size) for sd, size in ((0.1, (1, CLASSES, 1)), (0.05, (SEEDS, 1, 1)))]
    return (0.5 + more + sum(parts) + random.normal(0, 0.1, shape)).reshape(SEEDS, -1)


def test_of_twelve_equal_methods_one_is_bold_in_at_most_one_table_of_twenty() -> None:
    random = np.random.default_rng(0)
    names = ["plain", *(f"method_{number}" for number in range(12))]
    studies = [bold({name: drawn(random) for name in names}) for _ in range(60)]
    assert sum(map(bool, studies)) <= 4
    assert not any("plain" in of for of in studies)


def test_what_is_better_is_bold_and_what_is_worse_is_not() -> None:
    random = np.random.default_rng(1)
    of = {"plain": drawn(random), "better": drawn(random, 0.4), "worse": drawn(random, -0.4)}
    assert bold(of) == ["better"]
    # Nothing is bold where there is nothing to be better than.
    assert not bold({name: values for name, values in of.items() if name != "plain"})


@pytest.mark.parametrize("name", plugins.names("tables"))
def test_captions_explain_bold_where_it_is_set(name: str) -> None:
    table = plugins.load("tables", name)
    template = Path(str(table.__file__)).with_suffix(".j2").read_text()
    assert ("bold()" in template) == any(column.gain for column in table.COLUMNS)
