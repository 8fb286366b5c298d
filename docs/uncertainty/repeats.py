"""What tests say where there is nothing to find: one method beside itself, trained again with other seeds.

The grid ``repeats`` trains each model with many seeds. They are dealt into groups of three, and every two groups are a pair of
methods that do not differ, no group in two pairs: each of three differences is starred if its p is below .05, as Table 3 would.
One deal is a handful of pairs, and cannot tell 5 % from 8; so the same seeds are dealt many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import progress, seeds
from bgbias.results.rows import Values, retrieval_values
from bgbias.results.uncertainty import SIGNIFICANT, Statistic, change_of_relative_drop, difference
from bgbias.study import plan
from bgbias.study.params import load

GRID, SEEDS, DEALS = "repeats", 3, 100
DIFFERENCES: dict[str, tuple[list[str], Statistic]] = {
    "corrupted": (["corrupted"], difference),
    "clean": (["clean"], difference),
    "relative drop": (["clean", "corrupted"], change_of_relative_drop),
}


def trained(params: Path) -> Iterator[Values]:
    """Each model of the grid with the queries of all its seeds. Needs the grid's scores."""
    study = load(params, GRID)
    cells = pd.DataFrame(
        [{"cell": c, "model": (c.dataset, c.backbone, c.loss, c.method)} for c in plan.cells(study)]
    )
    for model, own in cells.groupby("model", sort=False):
        queries = pd.concat(
            [pd.read_parquet(params.parent / study.files.at("queries", **c.wildcards)) for c in own["cell"]]
        )
        yield retrieval_values(queries, model)


def pairs(of: Values, deal: int) -> Iterator[tuple[Values, Values]]:
    """A deal of a model's seeds: two groups at a time, their seeds numbered anew, so that the first stands beside the first."""
    order = seeds.generator("repeats", *of.model, deal).permutation(len(of.seeds))
    groups = order[: len(order) // (2 * SEEDS) * 2 * SEEDS].reshape(-1, 2, SEEDS)
    for first, second in groups:
        yield _only(of, first), _only(of, second)


def _only(of: Values, rows: np.ndarray) -> Values:
    columns, of_others = ({n: v[rows] for n, v in every.items()} for every in (of.columns, of.of_others))
    return replace(of, seeds=tuple(range(len(rows))), columns=columns, of_others=of_others)


def table(params: Path) -> pd.DataFrame:
    """A row for each model and difference: how many pairs there were, and how many of them were starred."""
    lines = []
    for of in progress.track(trained(params), None, "repeats"):
        dealt = [pair for deal in range(DEALS) for pair in pairs(of, deal)]
        for name, (columns, statistic) in DIFFERENCES.items():
            p = np.array([a.against(b, columns, statistic).p for a, b in dealt])
            found = {"deals": DEALS, "pairs": len(p), "starred": int((p < SIGNIFICANT).sum())}
            lines.append({"model": "/".join(of.model), "difference": name} | found)
    return pd.DataFrame(lines)
