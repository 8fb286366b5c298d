"""Captions from templates: ``<table>.j2`` beside a table's file, and what they share, ``_captions.j2``."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from bgbias.report import names, prose
from bgbias.report.columns import MARK, Column, printed
from bgbias.results import published, uncertainty
from bgbias.results.uncertainty import FEWEST_CLASSES, FEWEST_SEEDS, STARRED_CLASSES, STARRED_SEEDS
from bgbias.study.params import Study

SHARED = "_captions.j2"
LIMITS = {
    "mark": MARK,
    "confidence": f"{100 * uncertainty.CONFIDENCE:.0f}",
    "significant": f"{uncertainty.SIGNIFICANT:g}",
    "fewest_classes": FEWEST_CLASSES,
    "fewest_hard": uncertainty.FEWEST_HARD,
    "fewest_seeds": FEWEST_SEEDS,
    "starred_classes": STARRED_CLASSES,
    "starred_seeds": STARRED_SEEDS,
}


def selection(study: Study) -> dict[str, Any]:
    """Settings: the rule of selection, which every caption tells."""
    return {"selection": study.train.selection}


def protocol(study: Study) -> dict[str, Any]:
    """Settings: the papers' numbers beside ours, and the rule of selection."""
    return {"published": published.checksums()} | selection(study)


def from_template(
    template: str,
    columns: Sequence[Column] = (),
    facts: Callable[[Study, pd.DataFrame], Mapping[str, Any]] | None = None,
) -> Callable[[Study, pd.DataFrame, Mapping[str, int]], str]:
    """A table's function ``caption``: its template filled with ``study``, ``table``, what all captions share, and ``facts``;
    ``columns``: those that it explains.
    """

    def caption(study: Study, table: pd.DataFrame, excluded: Mapping[str, int]) -> str:
        values = fields(study, table, excluded, columns) | dict(facts(study, table) if facts else {})
        return "\n\n".join(prose.paragraphs(template, values, SHARED))

    return caption


def fields(
    study: Study, table: pd.DataFrame, excluded: Mapping[str, int], columns: Sequence[Column] = ()
) -> dict[str, Any]:
    """What every template of a caption may name."""
    trained = table.loc[names.trained(table["method"]), "seeds"]
    few_classes = table["classes"].between(FEWEST_CLASSES, STARRED_CLASSES, inclusive="left")
    few_seeds = table["seeds"].between(FEWEST_SEEDS, STARRED_SEEDS, inclusive="left")
    return {
        **LIMITS,
        **selection(study),
        **_papers(table),
        **_correlations(table),
        "study": study,
        "table": table,
        "how_many": partial(names.how_many, table),
        "heads": {column.head for column in printed(table, columns)},
        "excluded": [f"{names.dataset(name)} {n:,}" for name, n in excluded.items() if n],
        "has_folds": "folds" in table,
        "least_seeds": int(trained.min()) if len(trained) else FEWEST_SEEDS,
        "most_seeds": int(trained.max()) if len(trained) else FEWEST_SEEDS,
        "any_many_seeds": (table["seeds"] >= FEWEST_SEEDS).any(),
        "any_few_seeds": (table["seeds"] < FEWEST_SEEDS).any(),
        "any_few_classes": (table["classes"] < FEWEST_CLASSES).any(),
        "any_rare_stars": (few_classes & few_seeds).any(),
    }


def _correlations(table: pd.DataFrame) -> dict[str, Any]:
    """What ``correlation.beside`` gave of each dataset and backbone."""
    if "rho" not in table:
        return {}
    given = []
    for (dataset, backbone), part in table.groupby(["dataset", "backbone"], sort=False):
        rho, models = part.iloc[0][["rho", "rho_models"]]
        given.append(
            {
                "of": f"{names.dataset(str(dataset))} · {backbone}",
                "rho": None if math.isnan(rho) else rho,
                "models": 0 if math.isnan(models) else int(models),
                "rows": len(part),
            }
        )
    return {"correlations": given, "any_rho": table["rho"].notna().any()}


def _papers(table: pd.DataFrame) -> dict[str, Any]:
    """Whose numbers stand beside ours: papers that did alike, and tables of others with what differs."""
    alike: dict[str, None] = {}
    others: dict[tuple[str, str], dict[str, None]] = {}
    for name in (str(c).removesuffix("_source") for c in table.columns if str(c).endswith("_source")):
        for source, differs in table[[f"{name}_source", f"{name}_differs"]].dropna(how="all").to_numpy():
            if isinstance(differs, str):
                paper, _, number = source.rpartition(" ")
                others.setdefault((paper, differs), {})[number] = None
            else:
                alike[re.sub(r" (\d{4}) .*", r" (\1)", source)] = None
    differing = [
        {"paper": paper, "differs": differs, "tables": list(numbers)}
        for (paper, differs), numbers in others.items()
    ]
    return {"papers_alike": list(alike), "papers_differing": differing}
