"""What tables of many cells read: one output of each of them, together, with the cells' names beside it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from bgbias.engine.node import Made
from bgbias.results import rows
from bgbias.study.params import Study


def of_cells(study: Study, read: Mapping[str, Made], output: str) -> pd.DataFrame:
    """The files of this output among ``read``, CSV or Parquet, one below the other, with the columns dataset, ..., seed of their
    cells.
    """
    frames = []
    for made in read.values():
        if made.output == output:
            path = made.path(study)
            # An empty field alone is no value: a model may be called NA.
            frame = (
                pd.read_parquet(path)
                if path.suffix == ".parquet"
                else pd.read_csv(path, keep_default_na=False, na_values=[""])
            )
            frames.append(frame.assign(**made.node.wildcards))
    return rows.together(frames)


def levels(study: Study, read: Mapping[str, Made]) -> pd.DataFrame:
    """Each training's levels and drop (``rows.of_each_seed``), from ``read["results"]``."""
    return rows.of_each_seed(pd.read_csv(read["results"].path(study), keep_default_na=False))
