"""What training a grid's models took, read from their records whenever it is asked for.

Seconds and memory are another machine's business each time: no product holds them, so that a training that is repeated
faithfully leaves tables and their checksums as they are. The records have them, and MLflow shows them by run.
"""

from __future__ import annotations

import textwrap

import pandas as pd

from bgbias.engine.node import step
from bgbias.report import formats, names
from bgbias.report.columns import Column, number, significant
from bgbias.results import costs
from bgbias.study import plan
from bgbias.study.params import Study

WIDTH = 64  # of the text
COLUMNS = (
    Column("Step, s", significant("cost_seconds_a_step"), "Step, s"),
    Column("Step, times plain's", number("cost_times_plain", 2), "by plain's", known=("cost_times_plain",)),
    Column("Training, min", number("cost_training_minutes", 1), "Training, min"),
    Column("Memory, GB", number("cost_memory_gb", 1), "Memory, GB"),
    Column("GPU, GB", number("cost_gpu_memory_gb", 1), "GPU, GB", known=("cost_gpu_memory_gb",)),
)


def spent(study: Study) -> tuple[pd.DataFrame, str]:
    """A row a model, and how to read it; no rows where no training's record is here."""
    trained = {c: step("train", cell=c).record(study) for c in plan.trained(study)}
    here = {cell: record for cell, record in trained.items() if record.exists()}
    if not here:
        return pd.DataFrame(), ""
    table = names.in_order(costs.by_model(here, study.train.iterations_per_epoch))
    photos, devices = study.train.batch_size, "; ".join(dict.fromkeys(table["cost_device"]))
    return table, (
        f"As measured on {devices}, beside whatever else ran there. Step: time of all epochs by their steps of {photos}"
        " photos, what a method does between steps included, of the fastest training, which other work disturbed least. Training:"
        " such steps for as many epochs as trainings took in the mean. Memory: the largest of the process."
    )


def told(study: Study) -> str:
    """The same as text; empty where nothing is known."""
    table, legend = spent(study)
    return formats.plain(table, COLUMNS, textwrap.wrap(legend, WIDTH)) if legend else ""
