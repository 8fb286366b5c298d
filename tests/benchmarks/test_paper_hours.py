"""How long the paper's grid would take, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import ROOT, copy_settings

from benchmarks import Measured, paper_grid
from bgbias.engine import forecast
from bgbias.study import params, plan


def test_hours_are_counted_by_hand() -> None:
    study = params.load(ROOT / "params.yaml", "paper")
    speeds = paper_grid.Speeds(
        trained=3200.0, embedded=1000.0, attributed=500.0, masked=100.0, compared=1e8, start=2.0
    )
    found = paper_grid.hours(study, speeds, epochs=10)
    counts = {cell: forecast.photos(study, cell.dataset) or {} for cell in plan.cells(study)}
    assert len(counts) == 150
    # 100 batches of 32 an epoch are one second.
    train = sum(10 * (1 + n["val"] / 1000 + n["val"] ** 2 / 1e8) + 2 for n in counts.values())
    embed = sum(6 * n["test"] / 1000 + 2 for n in counts.values())
    score = sum(11 * n["test"] ** 2 / 1e8 + 2 for n in counts.values())
    attribute = sum(25 * n["test"] / 500 + 2 for n in counts.values())
    masks = (11_788 + 16_185 + 120_053) / 100 + 3 * 2
    expected = {"masks": masks, "train": train, "embed": embed, "score": score, "attribute": attribute}
    assert found == pytest.approx({step: seconds / 3600 for step, seconds in expected.items()})
    assert paper_grid.epochs(study) == (16, 1000)


def test_the_forecast_of_hours_needs_the_projects_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (paper_grid.TRAIN, paper_grid.EMBED, paper_grid.ATTRIBUTE, paper_grid.MASKS, paper_grid.RETRIEVAL)
    measured = Measured("cuda", False, {name: [1.0] for name in (*names, paper_grid.START)}, {})
    monkeypatch.chdir(tmp_path)
    assert "no params.yaml here" in paper_grid.judge(measured)[-1].missing
    copy_settings(tmp_path)
    found = {figure.what: figure.values for figure in paper_grid.judge(measured)}
    steps = [values[0] for what, values in found.items() if what.startswith("hours of")]
    assert len(steps) == 5
    assert found["hours for `paper`, 80 epochs a training"] == [pytest.approx(sum(steps))]
    least, most = (
        found[f"hours for `paper`, {n} epochs a training, the {w}"][0]
        for n, w in (("16", "fewest"), ("1,000", "most"))
    )
    assert least < sum(steps) < most
