"""What a person sees in MLflow's pages: a model's run is called, scaled, coloured and described as in the tables; an experiment
has tables with the columns that a comparison needs, and charts that are drawn already.

MLflow's own table of runs shows neither parameters nor metrics until they are chosen, and its charts are one bar chart a metric.
A shared view, kept in a tag of the experiment, is such a choice: which runs, which columns, which charts.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from bgbias.report import html, names
from bgbias.report.columns import NOTHING

CELL_PARAMS = ("dataset", "backbone", "loss", "method", "seed")
NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"
# The mark of a description of ours: one that somebody has edited is left alone.
WRITTEN = "bgbias.note"
CURRENT = "bgbias.superseded"

CLEAN, CORRUPTED, DROP, SCORE = "MAP at R clean", "MAP at R corrupted", "Drop percent", "Score"
AT_1, BEST = "P at 1 corrupted", "Best validation MAP at R"
VALIDATION = "epoch/validation MAP at R"
# A record's metric or column of a history; how the model's run calls it (MLflow takes no @ and no %);
# by what it is multiplied.
NAMED = {
    "map_at_r_corrupted": (CORRUPTED, 100),
    "map_at_r_clean": (CLEAN, 100),
    "map_at_r_query_corrupted": ("MAP at R query only", 100),
    "relative_drop": (DROP, 100),
    "precision_at_1_corrupted": (AT_1, 100),
    "precision_at_1_clean": ("P at 1 clean", 100),
    "attribution_ref": (SCORE, 1),
    "attribution_robust": ("Score robust", 1),
    "best_val_map_at_r": (BEST, 100),
    "best_val_corrupted_map_at_r": (f"{BEST} corrupted", 100),
    "epoch/val_map_at_r": (VALIDATION, 100),
    "epoch/val_corrupted_map_at_r": (f"{VALIDATION} corrupted", 100),
    "epoch/val_precision_at_1": ("epoch/validation P at 1", 100),
    "epoch/val_corrupted_precision_at_1": ("epoch/validation P at 1 corrupted", 100),
}
# The columns of a description: head, the run's metric, factor, digits.
DESCRIBED = (
    ("MAP@R, other backgrounds, %", CORRUPTED, 1, 1),
    ("MAP@R, clean, %", CLEAN, 1, 1),
    ("drop, %", DROP, 1, 1),
    ("attribution score", SCORE, 1, 3),
    ("minutes", "seconds", 1 / 60, 1),
)

TITLES = {
    "cell": "all models",
    "compare": "clean against corrupted, in charts",
    "train": "training curves",
}
RESULTS = (CLEAN, CORRUPTED, DROP, SCORE, AT_1, "seconds")
TRAINING = (BEST, f"{BEST} corrupted", "best_epoch", "epoch/loss", "seconds", "peak_memory_mb")
# As MLflow's table calls them.
RUN_NAME, CREATED = "attributes.`Run Name`", "runDateAndNestInfo"
# Pixels: name, time, the cell's five, and what was measured.
WIDTHS = (300, 110, 90, 110, 100, 95, 60, *[155] * 10)


def name(cell: Mapping[str, Any]) -> str:
    """``Contrastive + BGAugment, demo_90, seed 0 (tiny)``: the backbone last, since tables cut long names at the end, and most
    grids have one backbone a dataset.
    """
    row = names.row(cell["loss"], cell["method"], below_plain=False)
    return f"{row}, {names.dataset(cell['dataset'])}, seed {cell['seed']} ({cell['backbone']})"


def named(values: Mapping[str, float]) -> dict[str, float]:
    """Values by the names and in the units of a model's run; others stay as they are."""
    ours = {NAMED[key][0]: round(NAMED[key][1] * value, 4) for key, value in values.items() if key in NAMED}
    return ours | {key: value for key, value in values.items() if key not in NAMED}


def described(title: str, metrics: Mapping[str, float], grid: str) -> dict[str, str]:
    """The tags of a model's description: the results so far, in the units of the tables."""
    measured = [row for row in DESCRIBED if row[1] in metrics]
    heads = [head for head, *_ in measured] or [NOTHING]
    values = [html.number(factor * metrics[key], digits) for _, key, factor, digits in measured] or [NOTHING]
    table = [f"| {' | '.join(line)} |" for line in (heads, ["---:"] * len(heads), values)]
    about = (
        f"One training; the tables have means over seeds: `bgbias show --grid {grid}`. Its training curve and"
        " scores are below *Artifacts*; a run of its own for each step has the command that repeats it, and"
        f" those called *figure* and *table* hold the grid's; all on one page: `bgbias report {grid}`."
    )
    note = "\n".join([f"**{title}**", "", *table, "", about])
    return {NOTE: note, WRITTEN: _mark(note)}


def _mark(note: str) -> str:
    return hashlib.sha256(note.encode()).hexdigest()[:16]


def editable(tags: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The tags to set on a run that has these already: people edit descriptions and colours in MLflow's pages."""
    theirs = {COLOUR} & before.keys()
    if NOTE in before and before.get(WRITTEN) != _mark(before[NOTE]):
        theirs |= {NOTE, WRITTEN}
    return {key: value for key, value in tags.items() if key not in theirs}


def page(experiment: str, view: str = "cell") -> str:
    """The address of a view, to be put behind the ``http://host:port/`` of an MLflow server."""
    mode = "" if view == "cell" else "&compareRunsMode=CHART"
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
    clean, corrupted, attribution = ({"key": key, "type": "METRIC"} for key in (CLEAN, CORRUPTED, SCORE))
    outcomes: list[dict[str, Any]] = [
        {"type": "SCATTER", "xaxis": clean, "yaxis": corrupted},
        {"type": "SCATTER", "xaxis": attribution, "yaxis": corrupted},
        {"type": "BAR", "metricKey": DROP, "displayName": DROP},
        {"type": "BAR", "metricKey": SCORE, "displayName": SCORE},
    ]
    settings: list[dict[str, Any]] = [
        {
            "type": "PARALLEL",
            "selectedParams": ["dataset", "loss", "method"],
            "selectedMetrics": [CLEAN, CORRUPTED, DROP],
            "showAllRuns": True,
        },
        {
            "type": "DIFFERENCE",
            "chartName": "What differs",
            "compareGroups": ["Parameters", "Model metrics"],
            "showChangeFromBaseline": False,
            "showDifferencesOnly": True,
        },
    ]
    curves: list[dict[str, Any]] = [
        {
            "type": "LINE",
            "metricKey": key,
            "selectedMetricKeys": [key],
            "displayName": key,
            "lineSmoothness": 0,
        }
        for key in ("epoch/loss", VALIDATION, f"{VALIDATION} corrupted")
    ]
    compare = _charts({"Clean and corrupted": (2, outcomes), "Settings and results": (1, settings)})
    states = {
        "cell": _table(RESULTS),
        "compare": _table(RESULTS) | compare,
        "train": _table(TRAINING) | _charts({"Training curves": (2, curves)}),
    }
    views = {f"mlflow.sharedViewState.{view}": json.dumps(state) for view, state in states.items()}
    return views | {"mlflow.experimentKind": "custom_model_development"}


def _table(metrics: tuple[str, ...]) -> dict[str, Any]:
    """MLflow's state of a table of models that are current."""
    columns = [f"params.`{key}`" for key in CELL_PARAMS] + [f"metrics.`{key}`" for key in metrics]
    return {
        "searchFilter": f'params.node = "cell" and tags."{CURRENT}" = "no"',
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
    }


def _charts(sections: dict[str, tuple[int, list[dict[str, Any]]]]) -> dict[str, Any]:
    """MLflow's state of a page of charts: title -> how many stand side by side, and which. Below them, folded, are MLflow's."""
    chart = {"runsCountToCompare": 100, "deleted": False, "isGenerated": False}
    ours = {"display": True, "isReordered": True, "deleted": False, "isGenerated": False}
    folded = {"display": False, "isReordered": False, "deleted": False, "isGenerated": True}
    return {
        "compareRunCharts": [
            {"uuid": f"{title} {number}", "metricSectionId": title} | chart | drawn
            for title, (_, charts) in sections.items()
            for number, drawn in enumerate(charts)
        ],
        "compareRunSections": [
            {"uuid": title, "name": title, "columns": columns, "cardHeight": 380} | ours
            for title, (columns, _) in sections.items()
        ]
        + [{"uuid": title, "name": title} | folded for title in ("epoch", "Model metrics", "System metrics")],
        "isAccordionReordered": True,
        "hideEmptyCharts": True,
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0} | {"selectedXAxisMetricKey": ""},
    }
