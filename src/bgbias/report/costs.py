"""What training a grid's models took: passes through the network as its methods need them, and, read from records whenever it is
asked for, seconds and memory.

Seconds and memory are another machine's business each time: no product holds them, so that a training that is repeated
faithfully leaves tables and their checksums as they are. The records have them, and MLflow shows them by run.
"""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.engine import records
from bgbias.engine.node import step
from bgbias.report import formats, names, prose
from bgbias.report.columns import Column, number, significant
from bgbias.results.rows import MODEL
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

WIDTH = 64  # of the text
COLUMNS = (
    Column("Step, s", significant("cost_seconds_a_step"), "Step, s"),
    Column("Training, min", number("cost_training_minutes", 1), "Training, min"),
    Column("Memory, GB", number("cost_memory_gb", 1), "Memory, GB"),
    Column("GPU, GB", number("cost_gpu_memory_gb", 1), "GPU, GB", known=("cost_gpu_memory_gb",)),
)


def passes(study: Study) -> dict[str, float]:
    """Passes of a step for each trained model, a way back counting as two, by plain training's."""
    ratios = {}
    for cell in plan.trained_models(study):
        chosen, size = plan.method(study, cell), plan.study_for_cell(study, cell).train.batch_size
        there, back = chosen.module.Method.photos_a_step(chosen.params(), size)
        ratios[cell.name.rpartition("/")[0]] = (there + 2 * back) / (3 * size)
    return ratios


def tabulate_costs(study: Study) -> tuple[pd.DataFrame, str]:
    """A row a model, and how to read it; no rows where no training's record is here."""
    trained = {c: step("train", cell=c).record(study) for c in plan.trained_models(study)}
    here = {cell: record for cell, record in trained.items() if record.exists()}
    if not here:
        return pd.DataFrame(), ""
    table = names.in_order(costs_by_model(here, study.train.iterations_per_epoch))
    values = {"devices": dict.fromkeys(table["cost_device"]), "photos": study.train.batch_size}
    return table, " ".join(prose.paragraphs("costs.j2", values))


def format_costs(study: Study) -> str:
    """The same as text; empty where nothing is known."""
    table, legend = tabulate_costs(study)
    return formats.plain(table, COLUMNS, textwrap.wrap(legend, WIDTH)) if legend else ""


def costs_by_model(trainings: Mapping[Cell, Path], iterations: int) -> pd.DataFrame:
    """One row a model, over its seeds and folds: the columns of ``training_costs``, and on which device.

    ``trainings``: the record of each. Of seconds a step the least of the trainings is taken, which other work on the machine
    disturbed least, of memory the largest; minutes are so many seconds for the steps of as many epochs as they took in the mean.
    No ratio to plain training is made of them: whoever trained first had the quieter machine (``passes``).
    """
    rows = [
        cell.wildcards | training_costs(records.read(record), iterations)
        for cell, record in trainings.items()
    ]
    over_seeds: dict[str, Any] = {
        "cost_seconds_a_step": "min",
        "epochs": "mean",
        "cost_memory_gb": "max",
        "cost_gpu_memory_gb": "max",
        "cost_device": lambda names: "; ".join(dict.fromkeys(names)),
    }
    table = pd.DataFrame(rows).groupby(MODEL, sort=False, as_index=False).agg(over_seeds)
    table["cost_training_minutes"] = table["cost_seconds_a_step"] * iterations * table.pop("epochs") / 60
    return table


def training_costs(record: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """Of one training: the seconds of all epochs by their steps, ``iterations`` each, so that what a method does between steps,
    in every epoch or in some, is shared out among all, without validation; how many ``epochs`` there were; the largest memory of
    the process and on the GPU, in GB (10^9 bytes). What the record does not tell is NaN.

    A training that was interrupted has all its epochs' times, and the memory of its last process.
    """
    epochs = record.get("epoch_seconds", {})
    seconds = pd.Series(epochs.get("train_seconds", []), dtype=float)
    mebibyte = 2**20 / 1e9
    return {
        "cost_seconds_a_step": seconds.mean() / iterations,
        "epochs": len(seconds) or math.nan,
        "cost_memory_gb": record.get("peak_memory_mb", math.nan) * mebibyte,
        "cost_gpu_memory_gb": record.get("metrics", {}).get("peak_gpu_memory_mb", math.nan) * mebibyte,
        "cost_device": record.get("device") or "unknown",
    }
