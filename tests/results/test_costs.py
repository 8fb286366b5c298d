"""What a training took is what its record says; what it does not say stays unknown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.report import costs
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
    assert found == pytest.approx(
        {
            "cost_seconds_a_step": 0.1,
            "compared": math.nan,
            "epochs": 3,
            "cost_memory_gb": 1.048576,
            "cost_gpu_memory_gb": 2.097152,
            "cost_device": "cpu (1 thread)",
        },
        nan_ok=True,
    )


def test_what_an_older_record_does_not_tell_is_unknown() -> None:
    found = costs.training_costs({}, iterations=50)
    assert found.pop("cost_device") == "unknown"
    assert all(math.isnan(value) for value in found.values())
    assert len(found) == 5


def trainings(tmp_path: Path) -> dict[Cell, Path]:
    paths = {}
    for place, method in enumerate(("plain", "bgaugment")):
        for seed in (0, 1):
            cell = Cell("toy", "tiny", "contrastive", method, seed)
            paths[cell] = tmp_path / method / f"{seed}.json"
            kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}}
            json_checksum.write(paths[cell], record(10.0 * (1 + place) + seed, **kept))
    return paths


def test_a_models_costs_are_set_beside_plains(tmp_path: Path) -> None:
    found = costs.costs_by_model(trainings(tmp_path), iterations=10).set_index("method")
    assert found["cost_seconds_a_step"].to_dict() == pytest.approx({"plain": 1.0, "bgaugment": 2.0})
    assert found["cost_times_plain"].to_dict() == pytest.approx({"plain": 1, "bgaugment": 2})
    cured = {c: p for c, p in trainings(tmp_path).items() if c.method != "plain"}
    assert costs.costs_by_model(cured, iterations=10)["cost_times_plain"].isna().all()


def test_whoever_trained_beside_other_work_is_not_called_cheap(tmp_path: Path) -> None:
    """Plain took three times as long, on a machine that others used; its processor's time says that it took half."""
    kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}, "device": "cpu (1 thread)"}
    paths = {}
    for method, seconds, processor in (("plain", 30.0, 5.0), ("bgaugment", 10.0, 10.0)):
        cell = Cell("toy", "tiny", "contrastive", method, 0)
        paths[cell] = tmp_path / f"{method}.json"
        written = record(seconds, seconds, **kept)
        written["epoch_seconds"]["train_processor_seconds"] = [processor, processor]
        json_checksum.write(paths[cell], written)
    found = costs.costs_by_model(paths, iterations=10).set_index("method")["cost_times_plain"]
    assert found.to_dict() == pytest.approx({"plain": 1, "bgaugment": 2})


def test_where_seconds_alone_are_known_uneven_epochs_have_no_ratio(tmp_path: Path) -> None:
    kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}, "device": "cuda (H200)"}
    paths = {}
    for method, seconds in (("plain", (10.0, 14.0)), ("bgaugment", (10.0, 10.5)), ("mdprop", (30.0, 31.0))):
        cell = Cell("toy", "tiny", "contrastive", method, 0)
        paths[cell] = tmp_path / f"{method}.json"
        json_checksum.write(paths[cell], record(*seconds, **kept))
    assert costs.costs_by_model(paths, iterations=10)["cost_times_plain"].isna().all()


def test_minutes_are_those_of_the_least_disturbed_steps_for_as_many_epochs_as_there_were(
    tmp_path: Path,
) -> None:
    """Of two trainings one stopped early on a busy machine: 2 epochs of 90 s, and 4 of 60 s."""
    paths = {Cell("toy", "tiny", "contrastive", "plain", seed): tmp_path / f"{seed}.json" for seed in (0, 1)}
    kept = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}}
    for path, seconds in zip(paths.values(), ([90.0] * 2, [60.0] * 4), strict=True):
        json_checksum.write(path, record(*seconds, **kept))
    (row,) = costs.costs_by_model(paths, iterations=10).to_dict("records")
    assert row["cost_seconds_a_step"] == 6
    assert row["cost_training_minutes"] == 3


def test_a_damaged_record_is_not_read(tmp_path: Path) -> None:
    paths = trainings(tmp_path)
    path = paths[Cell("toy", "tiny", "contrastive", "plain", 1)]
    path.write_text(path.read_text().replace("11.0", "11.1"))
    with pytest.raises(UserError, match=r"plain/1\.json cannot be read \(damaged"):
        costs.costs_by_model(paths, iterations=10)
