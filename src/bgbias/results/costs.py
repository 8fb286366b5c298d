"""What training each model took, as its record and its curve tell: on that machine, beside whatever else ran there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.engine import records
from bgbias.results.rows import MODEL
from bgbias.study.cell import Cell


def by_model(trainings: Mapping[Cell, tuple[Path, Path]], iterations: int) -> pd.DataFrame:
    """One row a model, over its seeds and folds: the columns of ``of_training``, and on which device.

    ``trainings``: the record and the curve of each. Of seconds a step the median of the trainings is taken, of memory the
    largest, of minutes the mean.
    """
    rows = [
        cell.wildcards | of_training(records.read(record), history, iterations)
        for cell, (record, history) in trainings.items()
    ]
    over_seeds: dict[str, Any] = {
        "cost_seconds_a_step": "median",
        "cost_training_minutes": "mean",
        "cost_memory_gb": "max",
        "cost_gpu_memory_gb": "max",
        "cost_device": lambda names: "; ".join(dict.fromkeys(names)),
    }
    return pd.DataFrame(rows).groupby(MODEL, sort=False, as_index=False).agg(over_seeds)


def of_training(record: Mapping[str, Any], history: Path, iterations: int) -> dict[str, Any]:
    """Of one training: the seconds of all epochs by their steps, ``iterations`` each, so that what a method does between steps,
    in every epoch or in some, is shared out among all; minutes of all epochs together; both without validation; the largest
    memory of the process and on the GPU, in GB (10^9 bytes). What neither record nor curve tells is NaN.

    A training that was interrupted has all its epochs' times, and the memory of its last process.
    """
    epochs = pd.read_csv(history)
    seconds = epochs["train_seconds"] if "train_seconds" in epochs else pd.Series(dtype=float)
    mebibyte = 2**20 / 1e9
    return {
        "cost_seconds_a_step": seconds.mean() / iterations,
        "cost_training_minutes": seconds.sum(min_count=1) / 60,
        "cost_memory_gb": record.get("peak_memory_mb", math.nan) * mebibyte,
        "cost_gpu_memory_gb": record.get("metrics", {}).get("peak_gpu_memory_mb", math.nan) * mebibyte,
        "cost_device": record.get("device") or "unknown",
    }
