"""What a training took is what its record says, printed with two digits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from small_study import described, load

from bgbias.files import json_checksum
from bgbias.report import costs, formats
from bgbias.study.cell import Cell


def test_steps_take_what_all_epochs_took_in_the_least_disturbed_training(tmp_path: Path) -> None:
    """Of two trainings one stopped early on a busy machine: 2 epochs of 90 s, and 4 of 60 s in the mean."""
    record: dict[str, Any] = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}}
    record |= {
        "device": "cpu (1 thread)",
        "peak_memory_mb": 1000.0,
        "metrics": {"peak_gpu_memory_mb": 2000.0},
    }
    trainings = {}
    for seed, seconds in enumerate(([90.0, 90.0], [30.0, 90.0, 30.0, 90.0])):
        epochs = {"train_seconds": seconds, "validate_seconds": [7.0 for _ in seconds]}
        trainings[Cell("toy", "tiny", "contrastive", "plain", seed)] = tmp_path / f"{seed}.json"
        json_checksum.write(tmp_path / f"{seed}.json", record | {"epoch_seconds": epochs})
    table = costs.costs_by_model(trainings, iterations=10)
    (row,) = table.to_dict("records")
    expected = {"seconds_a_step": 6, "training_minutes": 3, "memory_gb": 1.048576, "gpu_memory_gb": 2.097152}
    assert {name: row[f"cost_{name}"] for name in expected} == pytest.approx(expected)
    assert row["cost_device"] == "cpu (1 thread)"
    line = formats.plain(table, costs.COLUMNS, ()).splitlines()[-1]
    assert line.split() == ["Contrastive", "6.0", "3.0", "1.0", "2.1"]
    older = costs.training_costs({}, iterations=50)
    assert older.pop("cost_device") == "unknown"
    assert len(older) == 4
    assert all(math.isnan(value) for value in older.values())


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
