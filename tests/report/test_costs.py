"""What a training took is what its record says, printed with two digits; what it does not say is a dash."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.report import costs, formats
from bgbias.study.cell import Cell

METHODS = ("plain", "bgaugment", "idle")


def record(*seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "epoch_seconds": {"train_seconds": list(seconds), "validate_seconds": [7.0 for _ in seconds]},
        **more,
    }


def costs_of(folder: Path, epochs: dict[tuple[str, int], tuple[float, ...]], **more: Any) -> pd.DataFrame:
    """The costs of trainings by method and seed, whose epochs took so many seconds, as their records tell; ten steps each."""
    kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}}
    paths = {}
    for (method, seed), seconds in epochs.items():
        cell = Cell("toy", "tiny", "contrastive", method, seed)
        paths[cell] = folder / method / f"{seed}.json"
        json_checksum.write(paths[cell], record(*seconds, **kept, **more))
    return costs.costs_by_model(paths, iterations=10).set_index("method")


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


def test_a_models_steps_are_those_of_its_least_disturbed_training(tmp_path: Path) -> None:
    epochs = {(m, seed): (10.0 * place + seed,) for place, m in enumerate(METHODS[:2], 1) for seed in (0, 1)}
    found = costs_of(tmp_path, epochs)
    assert found["cost_seconds_a_step"].to_dict() == pytest.approx({"plain": 1.0, "bgaugment": 2.0})


def test_minutes_are_those_of_the_least_disturbed_steps_for_as_many_epochs_as_there_were(
    tmp_path: Path,
) -> None:
    """Of two trainings one stopped early on a busy machine: 2 epochs of 90 s, and 4 of 60 s."""
    row = costs_of(tmp_path, {("plain", 0): (90.0,) * 2, ("plain", 1): (60.0,) * 4}).loc["plain"]
    assert row["cost_seconds_a_step"] == 6
    assert row["cost_training_minutes"] == 3
    path = tmp_path / "plain/1.json"
    path.write_text(path.read_text().replace("60.0", "61.0"))
    with pytest.raises(UserError, match=r"plain/1\.json cannot be read \(damaged"):
        costs.costs_by_model({Cell("toy", "tiny", "contrastive", "plain", 1): path}, iterations=10)


@pytest.fixture
def spent() -> pd.DataFrame:
    rows = [
        {
            **{"dataset": "toy", "backbone": "tiny", "loss": "contrastive", "method": method},
            **{"cost_seconds_a_step": 0.01 * place, "cost_training_minutes": 0.6 * place},
            **{"cost_memory_gb": 1.25, "cost_gpu_memory_gb": math.nan, "cost_device": "cpu (1 thread)"},
        }
        for place, method in enumerate(METHODS, 1)
    ]
    return pd.DataFrame(rows)


def line(spent: pd.DataFrame, label: str) -> list[str]:
    text = formats.plain(spent, costs.COLUMNS, ())
    (found,) = (x for x in text.splitlines() if x.startswith(label))
    return found.removeprefix(label).split()


def test_unknown_costs_are_dashes_and_a_gpu_has_a_column(spent: pd.DataFrame) -> None:
    assert line(spent, "+ BGAugment") == ["0.020", "1.2", "1.2"]
    assert "GPU" not in formats.plain(spent, costs.COLUMNS, ())
    unknown = ["cost_seconds_a_step", "cost_training_minutes", "cost_memory_gb"]
    spent.loc[1, unknown] = math.nan
    spent.loc[2, "cost_gpu_memory_gb"] = 7.5
    assert line(spent, "+ BGAugment") == ["–"] * 4
    assert line(spent, "+ Idle")[-1] == "7.5"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0.000"), (0.0143, "0.014"), (0.99, "0.99"), (12.3, "12")]
)
def test_steps_are_shown_with_two_digits(spent: pd.DataFrame, seconds: float, shown: str) -> None:
    assert line(spent.assign(cost_seconds_a_step=seconds), "+ Idle")[0] == shown
