"""What a training took is what its curve and its record say; what they do not say stays unknown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bgbias.results import costs


def curve(folder: Path, *seconds: float) -> Path:
    path = folder / "history.csv"
    rows = [f"{epoch},0.5,{s},7.0" for epoch, s in enumerate(seconds, 1)]
    path.write_text("\n".join(["epoch,loss,train_seconds,validate_seconds", *rows]) + "\n")
    return path


def test_a_step_takes_its_share_of_all_that_epochs_took(tmp_path: Path) -> None:
    record = {
        "device": "cpu (1 thread)",
        "peak_memory_mb": 1000.0,
        "metrics": {"epochs": 3, "peak_gpu_memory_mb": 2000.0},
    }
    # The second epoch sought environments: 150 steps took 15 s with that.
    found = costs.of_training(record, curve(tmp_path, 2.0, 10.0, 3.0), iterations=50)
    assert found == pytest.approx(
        {
            "cost_seconds_a_step": 0.1,
            "cost_training_minutes": 0.25,
            "cost_memory_gb": 1.048576,
            "cost_gpu_memory_gb": 2.097152,
            "cost_device": "cpu (1 thread)",
        }
    )


def test_what_an_older_record_does_not_tell_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("epoch,loss\n1,0.5\n")
    found = costs.of_training({}, path, iterations=50)
    assert found.pop("cost_device") == "unknown"
    assert all(math.isnan(value) for value in found.values())
    assert len(found) == 4
