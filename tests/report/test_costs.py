"""What training took, as people are shown it: with two digits, and a dash where no record tells."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from bgbias.report import costs, formats

METHODS = ("plain", "bgaugment", "idle")


@pytest.fixture
def spent() -> pd.DataFrame:
    rows = [
        {
            **{"dataset": "toy", "backbone": "tiny", "loss": "contrastive", "method": method},
            "cost_seconds_a_step": 0.01 * place,
            "cost_training_minutes": 0.6 * place,
            "cost_memory_gb": 1.25,
            "cost_gpu_memory_gb": math.nan,
            "cost_device": "cpu (1 thread)",
            "cost_times_plain": place,
        }
        for place, method in enumerate(METHODS, 1)
    ]
    return pd.DataFrame(rows)


def line(spent: pd.DataFrame, label: str) -> list[str]:
    text = formats.plain(spent, costs.COLUMNS, ())
    (found,) = (x for x in text.splitlines() if x.startswith(label))
    return found.removeprefix(label).split()


def test_costs_are_shown_beside_plains(spent: pd.DataFrame) -> None:
    assert line(spent, "+ BGAugment") == ["0.020", "2.00", "1.2", "1.2"]
    assert "GPU" not in formats.plain(spent, costs.COLUMNS, ())


def test_unknown_costs_are_dashes_and_a_gpu_has_a_column(spent: pd.DataFrame) -> None:
    spent.loc[1, ["cost_seconds_a_step", "cost_training_minutes", "cost_memory_gb"]] = math.nan
    spent.loc[1, "cost_times_plain"] = math.nan
    spent.loc[2, "cost_gpu_memory_gb"] = 7.5
    assert line(spent, "+ BGAugment") == ["–"] * 5
    assert line(spent, "+ Idle")[-1] == "7.5"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0.000"), (0.0143, "0.014"), (0.99, "0.99"), (12.3, "12")]
)
def test_steps_are_shown_with_two_digits(spent: pd.DataFrame, seconds: float, shown: str) -> None:
    assert line(spent.assign(cost_seconds_a_step=seconds), "+ Idle")[0] == shown
