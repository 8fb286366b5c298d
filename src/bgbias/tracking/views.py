"""What a person sees in MLflow's pages: a model's run is called, scaled, coloured and described as in the tables; an experiment
has tables with the columns that a comparison needs, and charts that are drawn already.

MLflow's own table of runs shows neither parameters nor metrics until they are chosen, and its charts are one bar chart a metric.
A shared view, kept in a tag of the experiment, is such a choice: which runs, which columns, which charts.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bgbias.files.code import hashed
from bgbias.report import html, names
from bgbias.report.columns import NOTHING

CELL_PARAMS = ("dataset", "backbone", "loss", "method", "seed")
NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"
# The mark of a description of ours: one that somebody has edited is left alone.
WRITTEN = "bgbias.note"
CURRENT = "bgbias.superseded"

_PAGES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SYSTEM: dict[str, str] = _PAGES["system"]
# As MLflow's table calls them.
RUN_NAME, CREATED = "attributes.`Run Name`", "runDateAndNestInfo"


def name(cell: Mapping[str, Any]) -> str:
    """``Contrastive + BGAugment, demo_90, seed 0 (tiny)``: the backbone last, since tables cut long names at the end, and most
    grids have one backbone a dataset.
    """
    row = names.row(cell["loss"], cell["method"], below_plain=False)
    return f"{row}, {names.dataset(cell['dataset'])}, seed {cell['seed']} ({cell['backbone']})"


def named(values: Mapping[str, float]) -> dict[str, float]:
    """Values by the names and in the units of a model's run; others stay as they are."""
    calls = _PAGES["named"]
    ours = {calls[key][0]: round(calls[key][1] * v, 4) for key, v in values.items() if key in calls}
    return ours | {key: value for key, value in values.items() if key not in calls}


def described(title: str, metrics: Mapping[str, float], grid: str) -> dict[str, str]:
    """The tags of a model's description: the results so far, in the units of the tables."""
    measured = [row for row in _PAGES["described"] if row[1] in metrics]
    heads = [head for head, *_ in measured] or [NOTHING]
    values = [html.number(factor * metrics[key], digits) for _, key, factor, digits in measured] or [NOTHING]
    table = [f"| {' | '.join(line)} |" for line in (heads, ["---:"] * len(heads), values)]
    note = "\n".join([f"**{title}**", "", *table, "", _PAGES["about_run"].format(grid=grid)])
    return {NOTE: note, WRITTEN: hashed(note)}


def editable(tags: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The tags to set on a run that has these already: people edit descriptions and colours in MLflow's pages."""
    theirs = {COLOUR} & before.keys()
    if NOTE in before and before.get(WRITTEN) != hashed(before[NOTE]):
        theirs |= {NOTE, WRITTEN}
    return {key: value for key, value in tags.items() if key not in theirs}


def page(experiment: str, view: str = "cell") -> str:
    """The address of a view, to be put behind the ``http://host:port/`` of an MLflow server."""
    mode = "" if view == "cell" else "&compareRunsMode=CHART"
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&workflowType=machine_learning{mode}"


def note(experiment: str) -> str:
    """The experiment's description; its first line, which stands above the runs, links to the views."""
    links = " · ".join(f"[{title}]({page(experiment, view)})" for view, title in _PAGES["titles"].items())
    return f"Compare models: {links}.\n\n{_PAGES['about']}"


def tags() -> dict[str, str]:
    """The views, and what kind of experiment this is, as tags of the experiment."""
    states = {view: json.dumps(_table(view) | charts) for view, charts in _PAGES["charts"].items()}
    views = {f"mlflow.sharedViewState.{view}": state for view, state in states.items()}
    return views | {"mlflow.experimentKind": "custom_model_development"}


def _table(view: str) -> dict[str, Any]:
    """MLflow's state of a table of runs."""
    columns = [f"params.`{key}`" for key in CELL_PARAMS]
    columns += [f"metrics.`{key}`" for key in _PAGES["metrics"][view]]
    order = [RUN_NAME, CREATED, *columns]
    widths = dict.fromkeys(order, _PAGES["width"]) | dict(zip(order, _PAGES["widths"], strict=False))
    return _PAGES["table"] | {"selectedColumns": columns, "columnOrder": order, "columnWidths": widths}
