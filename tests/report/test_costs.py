"""What a training took is what its record says, printed with two digits; what it does not say is a dash."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import described, load

from bgbias.files import json_checksum
from bgbias.report import costs, formats
from bgbias.study.cell import Cell


def record(*seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "epoch_seconds": {"train_seconds": list(seconds), "validate_seconds": [7.0 for _ in seconds]},
        **more,
    }


def test_a_step_takes_its_share_of_all_that_epochs_took() -> None:
    # The second epoch sought environments: 150 steps took 15 s with that.
    more = {"device": "cpu (1 thread)", "peak_memory_mb": 1000.0, "metrics": {"peak_gpu_memory_mb": 2000.0}}
    found = costs.training_costs(record(2.0, 10.0, 3.0, **more), iterations=50)
    expected = {
        "cost_seconds_a_step": 0.1,
        "epochs": 3,
        "cost_device": "cpu (1 thread)",
    }
    expected |= {"cost_memory_gb": 1.048576, "cost_gpu_memory_gb": 2.097152}
    assert found == pytest.approx(expected, nan_ok=True)
    older = costs.training_costs({}, iterations=50)
    assert older.pop("cost_device") == "unknown"
    assert len(older) == 4
    assert all(math.isnan(value) for value in older.values())


def test_minutes_are_those_of_the_least_disturbed_steps_for_as_many_epochs_as_there_were(
    tmp_path: Path,
) -> None:
    """Of two trainings one stopped early on a busy machine: 2 epochs of 90 s, and 4 of 60 s."""
    kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}}
    paths = {Cell("toy", "tiny", "contrastive", "plain", seed): tmp_path / f"{seed}.json" for seed in (0, 1)}
    for path, seconds in zip(paths.values(), ([90.0] * 2, [60.0] * 4), strict=True):
        json_checksum.write(path, record(*seconds, **kept))
    (row,) = costs.costs_by_model(paths, iterations=10).to_dict("records")
    assert row["cost_seconds_a_step"] == 6
    assert row["cost_training_minutes"] == 3


def test_costs_are_passes_by_those_of_plain_training(tmp_path: Path, small_plugins: None) -> None:
    """A step of plain training: a way there and one back, which counts as two. MDProp goes there for its targets, and there and
    back to the photos (two thirds) for one step of its attack, and there and back for what comes of it.
    """
    raw = described(tmp_path)
    named = ["plain", "mdprop", "st_2xbatch"]
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": named, "pretrained": True}
    raw["train"]["batch_size"] = 12
    found = {model.rpartition("/")[2]: cost for model, cost in costs.passes(load(tmp_path, raw)).items()}
    assert found == pytest.approx(
        {"plain": 1, "mdprop": (1 + 1 + 1 + 1 + 2 * (1 + 2 / 3 + 1)) / 3, "st_2xbatch": 2}
    )


@pytest.mark.parametrize(
    ("numbers", "printed"),
    [
        ((0.0143, 1.2, 1.25, math.nan), ["0.014", "1.2", "1.2"]),
        ((0.0, 1.2, 1.25, 7.5), ["0.000", "1.2", "1.2", "7.5"]),
        ((0.99, 1.2, 1.25, math.nan), ["0.99", "1.2", "1.2"]),
        ((12.3, 1.2, math.nan, 7.5), ["12", "1.2", "–", "7.5"]),
    ],
)
def test_costs_are_printed_with_what_is_known(numbers: tuple[float, ...], printed: list[str]) -> None:
    """Steps with two digits; a GPU has a column where there is one."""
    names = [f"cost_{name}" for name in ("seconds_a_step", "training_minutes", "memory_gb", "gpu_memory_gb")]
    model = {"dataset": "toy", "backbone": "tiny", "loss": "contrastive", "method": "idle"}
    other = model | {"method": "plain"} | dict.fromkeys(names[:3], 1.0)
    spent = pd.DataFrame([model | dict(zip(names, numbers, strict=True)), other])
    (line,) = (x for x in formats.plain(spent, costs.COLUMNS, ()).splitlines() if x.startswith("+ Idle"))
    assert line.removeprefix("+ Idle").split() == printed
