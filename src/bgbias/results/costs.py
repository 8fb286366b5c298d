"""What training each model took, as its record tells: on that machine, beside whatever else ran there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.engine import records
from bgbias.results.rows import MODEL
from bgbias.study.cell import PLAIN, Cell


def by_model(trainings: Mapping[Cell, Path], iterations: int) -> pd.DataFrame:
    """One row a model, over its seeds and folds: the columns of ``of_training``, on which device, and steps by those of the
    same loss's plain training.

    ``trainings``: the record of each. Of seconds a step the least of the trainings is taken, which other work on the machine
    disturbed least, of memory the largest; minutes are so many seconds for the steps of as many epochs as they took in the mean.
    """
    rows = [
        cell.wildcards | of_training(records.read(record), iterations) for cell, record in trainings.items()
    ]
    over_seeds: dict[str, Any] = {
        "cost_seconds_a_step": "min",
        "epochs": "mean",
        "cost_memory_gb": "max",
        "cost_gpu_memory_gb": "max",
        "cost_device": lambda names: "; ".join(dict.fromkeys(names)),
    }
    found = pd.DataFrame(rows).groupby(MODEL, sort=False, as_index=False).agg(over_seeds)
    found["cost_training_minutes"] = found["cost_seconds_a_step"] * iterations * found.pop("epochs") / 60
    plain = found[found["method"] == PLAIN].set_index(MODEL[:-1])["cost_seconds_a_step"]
    of_plain = plain.reindex(pd.MultiIndex.from_frame(found[MODEL[:-1]])).to_numpy()
    return found.assign(cost_times_plain=found["cost_seconds_a_step"] / of_plain)


def of_training(record: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """Of one training: the seconds of all epochs by their steps, ``iterations`` each, so that what a method does between steps,
    in every epoch or in some, is shared out among all, without validation; how many ``epochs`` there were; the largest memory of
    the process and on the GPU, in GB (10^9 bytes). What the record does not tell is NaN.

    A training that was interrupted has all its epochs' times, and the memory of its last process.
    """
    seconds = pd.Series(record.get("epoch_seconds", {}).get("train_seconds", []), dtype=float)
    mebibyte = 2**20 / 1e9
    return {
        "cost_seconds_a_step": seconds.mean() / iterations,
        "epochs": len(seconds) or math.nan,
        "cost_memory_gb": record.get("peak_memory_mb", math.nan) * mebibyte,
        "cost_gpu_memory_gb": record.get("metrics", {}).get("peak_gpu_memory_mb", math.nan) * mebibyte,
        "cost_device": record.get("device") or "unknown",
    }
