"""Captions from templates: ``<table>.j2`` beside a table's file, and what they share, ``_captions.j2``."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from bgbias.report import names, prose
from bgbias.report.columns import Column, select_printed
from bgbias.results import published, uncertainty
from bgbias.results.uncertainty import FEWEST_CLASSES, FEWEST_SEEDS, STARRED_CLASSES, STARRED_SEEDS
from bgbias.study.params import Study

SHARED = "_captions.j2"


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
        trained = table.loc[names.is_trained(table["method"]), "seeds"]
        few_classes = table["classes"].between(FEWEST_CLASSES, STARRED_CLASSES, inclusive="left")
        few_seeds = table["seeds"].between(FEWEST_SEEDS, STARRED_SEEDS, inclusive="left")
        values = {
            **_papers(table),
            "study": study,
            "table": table,
            "uncertainty": uncertainty,
            "how_many": partial(names.how_many, table),
            "heads": {column.head for column in select_printed(table, columns)},
            "excluded": [f"{names.dataset(name)} {n:,}" for name, n in excluded.items() if n],
            "least_seeds": int(trained.min()) if len(trained) else FEWEST_SEEDS,
            "most_seeds": int(trained.max()) if len(trained) else FEWEST_SEEDS,
            "any_rare_stars": (few_classes & few_seeds).any(),
        }
        values |= facts(study, table) if facts else {}
        return "\n\n".join(prose.paragraphs(template, values, SHARED))

    return caption


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
