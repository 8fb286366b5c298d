"""What figures show of each training: its MAP@R beside the means of Table 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bgbias.engine.node import Made, files_of, step
from bgbias.report.figures import _shown as shown
from bgbias.results import rows
from bgbias.study.params import Study

if TYPE_CHECKING:
    import pandas as pd


def reads(study: Study) -> dict[str, Made]:
    """Table 1, and the results that it is made of."""
    return shown.table1(study) | files_of(step("collect"), "results")


def tables(study: Study) -> Callable[[str], pd.DataFrame]:
    """As ``shown.tables``, with ``seeds``: MAP@R and its drop of every training of the grid (``rows.of_each_seed``)."""
    import pandas as pd

    def named(name: str) -> pd.DataFrame:
        if name != "seeds":
            return shown.tables(study)(name)
        return rows.of_each_seed(pd.read_csv(reads(study)["results"].path(study), keep_default_na=False))

    return named
