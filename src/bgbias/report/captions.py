"""Captions of tables: what their files say, or their templates and the sentences that these share, ``captions.j2``."""

import re
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

import pandas as pd

from bgbias.report import names, prose
from bgbias.report.columns import select_printed
from bgbias.results import uncertainty
from bgbias.results.uncertainty import FEWEST_CLASSES, FEWEST_SEEDS, STARRED_CLASSES, STARRED_SEEDS
from bgbias.study.params import Study


def write(file: ModuleType, study: Study, table: pd.DataFrame, excluded: Mapping[str, int]) -> str:
    """A table's caption, in Markdown: what its file's function says, or its template."""
    if not hasattr(file, "CAPTION"):
        return str(file.caption(study, table, excluded))
    trained = table.loc[names.is_trained(table["method"]), "seeds"]
    few_classes = table["classes"].between(FEWEST_CLASSES, STARRED_CLASSES, inclusive="left")
    few_seeds = table["seeds"].between(FEWEST_SEEDS, STARRED_SEEDS, inclusive="left")
    values = {
        **_papers(table),
        "study": study,
        "table": table,
        "uncertainty": uncertainty,
        "how_many": partial(names.how_many, table),
        "heads": {column.head for column in select_printed(table, file.COLUMNS)},
        "excluded": [f"{names.dataset(name)} {n:,}" for name, n in excluded.items() if n],
        "least_seeds": int(trained.min()) if len(trained) else FEWEST_SEEDS,
        "most_seeds": int(trained.max()) if len(trained) else FEWEST_SEEDS,
        "any_trained": len(trained) > 0,
        "any_rare_stars": (few_classes & few_seeds).any(),
    }
    values |= file.facts(study, table) if hasattr(file, "facts") else {}
    return "\n\n".join(prose.paragraphs(file.CAPTION, values, "captions.j2"))


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
