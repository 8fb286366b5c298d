"""What tests say where there is nothing to find: one method beside itself, trained again with other seeds.

The grid ``repeats`` trains each model with many seeds. They are dealt into groups of three, and every two groups are a pair of
methods that do not differ: each of three differences is starred if its p is below .05, as Table 3 would. No group is in two
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from bgbias.results.rows import Values, retrieved
from bgbias.results.uncertainty import SIGNIFICANT, change_of_relative_drop, difference
from bgbias.study import plan
from bgbias.study.params import load

GRID, SEEDS = "repeats", 3


def rows(params: Path) -> Iterator[dict[str, object]]:
    """A row a pair: the model, its two groups of seeds, and each difference with its p. Needs the grid's scores."""
    study = load(params, GRID)
    cells = pd.DataFrame(
        [{"cell": c, "model": (c.dataset, c.backbone, c.loss, c.method)} for c in plan.cells(study)]
    )
    for model, own in cells.groupby("model", sort=False):
        queries = pd.concat(
            [pd.read_parquet(params.parent / study.files.at("queries", **c.wildcards)) for c in own["cell"]]
        )
        seeds = sorted(queries["seed"].unique())
        groups = [seeds[start : start + SEEDS] for start in range(0, len(seeds) - SEEDS + 1, SEEDS)]
        values = [retrieved(queries[queries["seed"].isin(g)], model, study.evaluation.draws) for g in groups]
        for first, second in zip(values[::2], values[1::2], strict=False):
            # Seeds are numbered anew: the first of one method beside the first of the other.
            a, b = (replace(v, seeds=tuple(range(SEEDS))) for v in (first, second))
            yield {"model": "/".join(model), "seeds": f"{first.seeds} and {second.seeds}"} | _found(a, b)


def _found(a: Values, b: Values) -> dict[str, float]:
    found = {
        "corrupted": a.against(b, ["corrupted"], difference),
        "clean": a.against(b, ["clean"], difference),
        "relative drop": a.against(b, ["clean", "corrupted"], change_of_relative_drop),
    }
    return {f"{name}, p": estimate.p for name, estimate in found.items()}


def table(params: Path) -> pd.DataFrame:
    """All pairs."""
    made = pd.DataFrame(rows(params))
    return made.assign(starred=(made.filter(like=", p") < SIGNIFICANT).sum(axis=1))
