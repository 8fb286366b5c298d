"""What a person sees first in MLflow's pages: tables of runs with the columns that a comparison needs.

MLflow's own table of runs shows neither parameters nor metrics until they are chosen. A shared view, kept in
a tag of the experiment, is such a choice: which runs, which columns.
"""

from __future__ import annotations

import json

CELL = ("dataset", "backbone", "loss", "method", "seed")
RESULTS = {
    "score": ("map_at_r_clean", "map_at_r_corrupted", "relative_drop"),
    "attribute": ("attribution_ref", "attribution_robust"),
    "train": (
        "best_val_map_at_r",
        "best_val_corrupted_map_at_r",
        "best_epoch",
        "epoch/loss",
        "seconds",
        "peak_memory_mb",
    ),
}
TITLES = {
    "score": "clean and corrupted retrieval",
    "attribute": "attribution scores",
    "train": "training curves",
}
CURRENT = "bgbias.superseded"


def page(experiment: str, node: str = "score") -> str:
    """The address of a view, to be put behind the ``http://host:port/`` of an MLflow server."""
    mode = "&compareRunsMode=CHART" if node == "train" else ""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={node}&workflowType=machine_learning{mode}"


def note(experiment: str) -> str:
    """The experiment's description; its first line, which stands above the runs, links to the views."""
    links = " · ".join(f"[{title}]({page(experiment, node)})" for node, title in TITLES.items())
    return (
        f"Compare models by {links}.\n\nOne run a node. Runs whose settings have changed since are called"
        f' `(superseded)`; `tags."{CURRENT}" = "no"` leaves them out.'
    )


def tags() -> dict[str, str]:
    """The views, and what kind of experiment this is, as tags of the experiment."""
    views = {f"mlflow.sharedViewState.{node}": json.dumps(_view(node)) for node in RESULTS}
    return views | {"mlflow.experimentKind": "custom_model_development"}


def _view(node: str) -> dict[str, object]:
    columns = [f"params.`{name}`" for name in CELL] + [f"metrics.`{name}`" for name in RESULTS[node]]
    return {
        "searchFilter": f'params.node = "{node}" and tags."{CURRENT}" = "no"',
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
    }
