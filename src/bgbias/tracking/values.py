"""Curves and collections as MLflow's own values: metrics at a time and a step, datasets with a source and a profile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bgbias.compute.vitals import shown
from bgbias.tracking.curves import Point
from bgbias.tracking.entries import Collection, Entry

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, RunData

# What MLflow takes.
DATASET_NAME, DATASET_DIGEST = 500, 36
# Tags that tell how much of a curve a run has: rows and a mark of them; samples and the process's start.
HISTORY, SAMPLES = "bgbias.history", "bgbias.samples"


def metrics(
    entry: Entry, shown_before: RunData, rows: Sequence[Point], samples: Sequence[Point]
) -> list[Metric]:
    """Results that are new or have changed, and the points of the curves that a run does not have yet."""
    from mlflow.entities import Metric

    at, before = entry.finished or entry.started, shown_before.metrics
    results = [Metric(k, v, at, 0) for k, v in entry.metrics.items() if repr(before.get(k)) != repr(v)]
    number, _, _ = shown_before.tags.get(HISTORY, "0:").partition(":")
    chosen = [row for row in rows[int(number) :] if shown(row.number)]
    if entry.status == "FINISHED" and rows and not shown(rows[-1].number):
        chosen.append(rows[-1])
    number, _, started = shown_before.tags.get(SAMPLES, "0:").partition(":")
    chosen += samples[int(number) if started == str(entry.started) else 0 :]
    return results + [
        Metric(k, v, point.time, point.number) for point in chosen for k, v in point.values.items()
    ]


def dataset(read: Collection, use: str) -> DatasetInput:
    """Photos, masks or backgrounds as MLflow has datasets; ``mlflow.data.get_source`` finds the file."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps({"uri": read.source}), json.dumps(read.profile, sort_keys=True)
    name, digest = read.name[-DATASET_NAME:], read.digest[:DATASET_DIGEST]
    made = Dataset(name, digest, "local", source, profile=profile)
    return DatasetInput(made, [InputTag("mlflow.data.context", use)])
