"""Linear and nearest-neighbour evaluation: how often a classifier on a model's embeddings is right,
of photos, original and on other backgrounds.

docs/methods.md, section 6. Percentages are 0..100.
"""

from typing import Any

import pandas as pd

from bgbias.evaluation.probes import NEIGHBOURS, PROBES, TEMPERATURE
from bgbias.report import sources
from bgbias.report.columns import Column, interval
from bgbias.results import rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 12
CAPTION = "probes.j2"
HEADS = {"linear": "Linear", "nearest": "Neighbours"}
VIEWS = {"clean": rows.CLEAN, "corrupted": rows.CORRUPTED}
COLUMNS = tuple(
    column
    for name, head in HEADS.items()
    for column in (
        Column(head, interval(f"{name}_clean", 1), f"{head} [95 %]"),
        Column(f"{head}, corrupted", interval(f"{name}_corrupted", 1)),
        Column(f"{head}: drop, %", interval(f"{name}_drop", 1), "Drop, %"),
    )
)
HEADLINE = {"linear_clean": "linear accuracy", "nearest_clean": "accuracy by neighbours"}
wanted = plan.probes
reads = sources.make_reads("mask_report", cells=(plan.cells, "probe", "probed"))


def settings(study: Study) -> dict[str, Any]:
    """Whose training photos probes were fitted on, where they were."""
    fitted = _on_training(study)
    return {"fit_probes_on": fitted} if fitted else {}


def make(study: Study) -> pd.DataFrame:
    return table(*sources.read_cells(study, reads, "probed"))


def _on_training(study: Study) -> dict[str, str]:
    """From the grid's datasets to those on whose training photos, and on how many, their probes are fitted, where they are."""
    fitted = {name: study.datasets[name].fit_probes_on for name in plan.datasets(study)}
    most = {other: study.datasets[other].probe_photos for other in fitted.values() if other}
    return {d: f"{o} ({most[o]:,} at most)" if most[o] else o for d, o in fitted.items() if o}


def table(probed: pd.DataFrame) -> pd.DataFrame:
    """Table 12 from all cells' probed.parquet with the cells' names: for each probe the share of the ``photos`` that it is
    right about in percent, ``_clean`` and ``_corrupted``, and its relative ``_drop``, all means over draws.
    """
    lines: list[dict[str, Any]] = []
    for model, part in sources.models(probed):
        of_probes = {name: probe_values(part, model, name) for name in PROBES}
        first = of_probes["linear"]
        row = rows.heading(part, first, "photos")
        for name, values in of_probes.items():
            for view in VIEWS:
                row |= rows.share(f"{name}_{view}", values.estimate([view]))
            row |= rows.interval(f"{name}_drop", values.estimate([*VIEWS], uncertainty.relative_drop), 100)
        lines.append(row)
    return rows.tabulate_models(lines)


def probe_values(part: pd.DataFrame, model: rows.Model, probe: str) -> rows.Values:
    """Whether a probe is right about each photo: columns ``clean`` and ``corrupted`` from a model's rows of probed.parquet."""
    columns = ["image_id", "label", "seed", "draw", probe]
    parts = {view: part.loc[part["condition"] == condition, columns] for view, condition in VIEWS.items()}
    return rows.Values.from_parts(model, parts, probe)


def facts(study: Study, table: pd.DataFrame) -> dict[str, Any]:
    """What the caption says of how probes were fitted."""
    on_training = _on_training(study)
    return {
        "neighbours": NEIGHBOURS,
        "temperature": f"{TEMPERATURE:g}",
        "in_parts": bool(set(table["dataset"]) - set(on_training)),
        "on_training": on_training,
    }
