"""What the rows of the paper's two tables share: which models there are, in which order, and a paper's number beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from bgbias.errors import UserError
from bgbias.report import names
from bgbias.report.tables._captions import selection
from bgbias.results import published
from bgbias.results.rows import MODEL, NEXT, Model
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study


def protocol(study: Study) -> dict[str, Any]:
    """Settings: the papers' numbers beside ours, and the rule of selection."""
    return {"published": published.checksums()} | selection(study)


def costs(study: Study) -> dict[str, float]:
    """Of each trained model (``dataset/backbone/loss/method``) a step's passes through the network, a way back counted as two, by
    those of plain training.
    """
    found = {}
    for cell in plan.trained(study):
        chosen, size = plan.method(study, cell), plan.trained_as(study, cell).train.batch_size
        there, back = chosen.module.Method.photos_a_step(chosen.params(), size)
        found["/".join((cell.dataset, cell.backbone, cell.loss, cell.method))] = (there + 2 * back) / (
            3 * size
        )
    return found


def refuse_missing(rows: pd.DataFrame, cells: Sequence[Cell]) -> None:
    """Raises UserError when one of ``cells`` has no row, or there is none at all."""
    present = set(rows[[*MODEL, "seed"]].drop_duplicates().astype(str).itertuples(index=False, name=None))
    missing = [c for c in cells if (c.dataset, c.backbone, c.loss, c.method, str(c.run)) not in present]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise UserError(f"There is no result for {missing[0].name}{more}. {NEXT}")
    if rows.empty:
        raise UserError(f"There is no result at all. {NEXT}")


def models(rows: pd.DataFrame) -> Iterator[tuple[Model, pd.DataFrame]]:
    """Each model with its rows, in the paper's order: plain comes before what is compared with it."""
    by_model = rows.groupby(MODEL, sort=False, observed=True)
    for model in names.in_order(rows[MODEL].drop_duplicates()).itertuples(index=False, name=None):
        yield model, by_model.get_group(model)


def comparison(
    name: str, row: dict[str, Any], known: pd.DataFrame | None, model: Model, metric: str, condition: str
) -> dict[str, Any]:
    """The paper's number beside the column ``name`` of ``row``, where it came from, and, if it compares, ours minus theirs."""
    theirs = published.NOTHING
    if known is not None:
        theirs = published.number(known, *model, metric, condition, folds=row["folds"])
    return {
        f"published_{name}": theirs.value,
        f"published_{name}_sd": theirs.sd,
        f"published_{name}_source": theirs.source or math.nan,
        f"published_{name}_differs": theirs.differs or math.nan,
        f"difference_{name}": math.nan if theirs.differs else row[name] - theirs.value,
    }
