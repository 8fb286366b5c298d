"""What a person sees first in MLflow's pages: tables with the columns that a comparison needs, and charts that are drawn already.

MLflow's own table of runs shows neither parameters nor metrics until they are chosen, and its charts are one bar chart a metric.
A shared view, kept in a tag of the experiment, is such a choice: which runs, which columns, which charts.
"""

from __future__ import annotations

import json
from typing import Any

from bgbias.tracking import looks
from bgbias.tracking.entries import CELL_PARAMS

RETRIEVAL = ("map_at_r_clean", "map_at_r_corrupted", "relative_drop")
CLEAN, CORRUPTED, DROP, SCORE, AT_1, BEST, BEST_CORRUPTED = (
    looks.NAMED[name][0]
    for name in (
        *RETRIEVAL,
        "attribution_ref",
        "precision_at_1_corrupted",
        "best_val_map_at_r",
        "best_val_corrupted_map_at_r",
    )
)
VALIDATION, VALIDATION_CORRUPTED = (
    looks.CURVES[f"epoch/val_{name}"][0] for name in ("map_at_r", "corrupted_map_at_r")
)
ATTRIBUTION = ("attribution_ref", "attribution_robust")
RESULTS = {
    "cell": (CLEAN, CORRUPTED, DROP, SCORE, AT_1, "seconds"),
    "score": RETRIEVAL,
    "attribute": ATTRIBUTION,
    "train": (
        BEST,
        BEST_CORRUPTED,
        "best_epoch",
        "epoch/loss",
        "seconds",
        "peak_memory_mb",
    ),
}
TITLES = {"cell": "all models", "compare": "clean against corrupted, in charts", "train": "training curves"}
CURRENT = "bgbias.superseded"
# As MLflow's table calls them.
RUN_NAME, CREATED = "attributes.`Run Name`", "runDateAndNestInfo"
# Pixels: name, time, the cell's five, and what was measured.
WIDTHS = (300, 110, 90, 110, 100, 95, 60, *[155] * 10)


def page(experiment: str, view: str = "cell") -> str:
    """The address of a view, to be put behind the ``http://host:port/`` of an MLflow server."""
    mode = "&compareRunsMode=CHART" if view in _charts() else ""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&workflowType=machine_learning{mode}"


def note(experiment: str) -> str:
    """The experiment's description; its first line, which stands above the runs, links to the views."""
    links = " · ".join(f"[{title}]({page(experiment, view)})" for view, title in TITLES.items())
    return (
        f"Compare models: {links}.\n\nOne run a node, and one a model (`cell`) that joins what its nodes found. Runs whose"
        f' settings have changed since are called `(superseded)`; `tags."{CURRENT}" = "no"` leaves them out.'
    )


def tags() -> dict[str, str]:
    """The views, and what kind of experiment this is, as tags of the experiment."""
    views = {view: _view(view) for view in RESULTS} | {"compare": _view("cell", _charts()["compare"])}
    views["train"] |= _charts()["train"]
    named = {f"mlflow.sharedViewState.{view}": json.dumps(state) for view, state in views.items()}
    return named | {"mlflow.experimentKind": "custom_model_development"}


def _view(node: str, charts: dict[str, Any] | None = None) -> dict[str, Any]:
    columns = [f"params.`{name}`" for name in CELL_PARAMS] + [f"metrics.`{name}`" for name in RESULTS[node]]
    # Curves of trainings are those of models, which are called as the tables call them.
    kind = "cell" if node == "train" else node
    return {
        "searchFilter": f'params.node = "{kind}" and tags."{CURRENT}" = "no"',
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "columnOrder": [RUN_NAME, CREATED, *columns],
        "columnWidths": dict(zip([RUN_NAME, CREATED, *columns], WIDTHS, strict=False)),
        "runsHiddenMode": "SHOW_ALL",
    } | (charts or {})


def _charts() -> dict[str, dict[str, Any]]:
    """The charts of the views that have their own, section by section; below them, folded, MLflow's: one a metric."""
    clean, corrupted, attribution = ({"key": name, "type": "METRIC"} for name in (CLEAN, CORRUPTED, SCORE))
    outcomes: list[dict[str, Any]] = [
        {"type": "SCATTER", "xaxis": clean, "yaxis": corrupted},
        {"type": "SCATTER", "xaxis": attribution, "yaxis": corrupted},
        {"type": "BAR", "metricKey": DROP, "displayName": DROP},
        {"type": "BAR", "metricKey": SCORE, "displayName": SCORE},
    ]
    settings: list[dict[str, Any]] = [
        {"type": "PARALLEL", "selectedParams": ["dataset", "loss", "method"]}
        | {"selectedMetrics": [CLEAN, CORRUPTED, DROP], "showAllRuns": True},
        {"type": "DIFFERENCE", "chartName": "What differs", "compareGroups": ["Parameters", "Model metrics"]}
        | {"showChangeFromBaseline": False, "showDifferencesOnly": True},
    ]
    curves: list[dict[str, Any]] = [
        {
            "type": "LINE",
            "metricKey": name,
            "selectedMetricKeys": [name],
            "displayName": name,
            "lineSmoothness": 0,
        }
        for name in ("epoch/loss", VALIDATION, VALIDATION_CORRUPTED)
    ]
    return {
        "compare": _sections({"Clean and corrupted": (2, outcomes), "Settings and results": (1, settings)}),
        "train": _sections({"Training curves": (2, curves)}),
    }


def _sections(own: dict[str, tuple[int, list[dict[str, Any]]]]) -> dict[str, Any]:
    """MLflow's state of a page of charts: title -> how many stand side by side, and which."""
    common = {"runsCountToCompare": 100, "deleted": False, "isGenerated": False}
    charts = [
        {"uuid": f"{title} {number}", "metricSectionId": title, **common, **chart}
        for title, (_, drawn) in own.items()
        for number, chart in enumerate(drawn)
    ]
    given = {"display": True, "isReordered": True, "deleted": False, "isGenerated": False, "cardHeight": 380}
    sections = [{"uuid": title, "name": title, "columns": side, **given} for title, (side, _) in own.items()]
    folded = {"display": False, "isReordered": False, "deleted": False, "isGenerated": True}
    sections += [
        {"uuid": name, "name": name, **folded} for name in ("epoch", "Model metrics", "System metrics")
    ]
    return {
        "compareRunCharts": charts,
        "compareRunSections": sections,
        "isAccordionReordered": True,
        "hideEmptyCharts": True,
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
    }
