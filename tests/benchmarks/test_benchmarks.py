"""Comparisons of speed measure what they say; how fast anything is, no test asks."""

import importlib
import inspect
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from project import ROOT, copy_settings

from benchmarks import CASES, Figure, Measured, _measure, _report, exponents, paper_grid, rate, ratio
from benchmarks import __main__ as command
from bgbias.engine import forecast
from bgbias.errors import UserError
from bgbias.study import params, plan

MACHINE = {"cpu": "A processor", "cores": 2, "threads": 2, "memory_gb": 8, "bf16": "avx512_bf16", "python": "3.11",
           "torch": "2"}  # fmt: skip


# The others load large libraries or networks, start many processes, or run the workflow.
QUICK = ("known_files", "retrieval_million")
SHARED = ("precision", "mask_precision")


def test_contenders_take_turns_and_neither_first_runs_count_nor_those_after_a_change_of_the_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gc.collect", lambda: 0)
    worked: list[str] = []
    taken = {"a": [100, 100, 1, 100, 2, 3], "b": [100, 100, 100, 4, 100, 5, 100, 6], "c": [7] * 6}
    left = {name: iter(seconds) for name, seconds in taken.items()}
    now = 0.0

    def work(name: str) -> int:
        nonlocal now
        now += next(left[name])
        worked.append(name)
        return worked.count(name)

    def finish() -> None:
        nonlocal now
        now += 0.25

    roles = {"a": "ours", "b": "peer", "c": "limit"}
    runs = [(name, role, partial(work, name)) for name, role in roles.items()]
    seconds, results = _measure.take_turns(runs, 3, finish, lambda: now)
    assert "".join(worked) == "cbbaaabbcccbbaaabbcc"
    # A device is waited for before and after the work.
    assert seconds == {"a": [1.25, 2.25, 3.25], "b": [4.25, 5.25, 6.25], "c": [7.25] * 3}
    assert results == {"a": 6, "b": 8, "c": 6}


def test_ratios_are_those_of_each_round_and_an_absent_peer_says_how_to_install_it() -> None:
    measured = Measured({"ours": [1.0, 2.0, 5.0], "theirs": [3.0, 2.0, 20.0]}, {})
    assert ratio("theirs", "ours")(measured) == [3.0, 1.0, 4.0]
    assert rate("ours", 10)(measured) == [10.0, 5.0, 2.0]
    measured = Measured({"ours": [1.0]}, {})
    faster = Figure("times as fast", ratio("theirs", "ours"), at_least=2)
    figure = _measure.evaluate(faster, measured, {"theirs": "it is not installed; `make bench` installs it"})
    assert (
        "| times as fast | not measured: it is not installed; `make bench` installs it | at least 2 |  |"
        in _report.table([a_record([]) | {"figures": [figure]}])
    )
    with pytest.raises(KeyError):
        _measure.evaluate(faster, measured, {})


def a_record(figures: list[Figure], **more: Any) -> dict[str, Any]:
    """What a page shows of a comparison."""
    rows = [vars(figure) | {"missing": ""} for figure in figures]
    made = {"begun": "2026-11-21T08:00:00+00:00", "load": [0.5, 1.25], "machine": MACHINE}
    return {"comparison": "sums", "title": "Sums of many numbers", "figures": rows, **made, **more}


@pytest.mark.parametrize(
    ("figure", "row"),
    [
        (Figure("faster", [3.0, 1.0, 4.0], at_least=2.5, unit="x"), "| faster | 3 [1 - 4] | at least 2.5 | yes |"),
        (Figure("faster", [3.0, 1.0, 1.5], at_least=2.5), "| faster | 1.5 [1 - 3] | at least 2.5 | no |"),
        (Figure("slope", [2.04], 1.9, 2.1), "| slope | 2.04 | at least 1.9, at most 2.1 | yes |"),
        (Figure("seconds", [0.25], at_most=0.2, unit="s"), "| seconds | 0.25 s | at most 0.2 | no |"),
        (Figure("wrong", [float("nan")], at_most=1), "| wrong | nan | at most 1 | no |"),
        (Figure("much", [7113.2, 0.00012, 7113.2]), "| much | 7,110 [0.00012 - 7,110] |  |  |"),
    ],
)  # fmt: skip
def test_report_compares_the_median_with_the_bar(figure: Figure, row: str) -> None:
    assert row in _report.table([a_record([figure])]).splitlines()


@pytest.mark.parametrize(
    ("name", "device", "tiny", "words"),
    [
        ("retreival", "cpu", False, r"There is no comparison 'retreival' on cpu.*Did you mean 'retrieval'"),
        ("growth", "cuda", False, "There is no comparison 'growth' on cuda; there are: attack_step, "),
        ("retrieval", "cpu", True, r"--tiny measures nothing that new\.md could show"),
    ],
)
def test_what_cannot_be_measured_or_shown_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str, device: str, tiny: bool, words: str
) -> None:
    monkeypatch.setattr(command, "measure", None)
    with pytest.raises(UserError, match=words):
        command.bench([name], device, None, Path("new.md"), tiny)


@pytest.mark.parametrize("name", CASES)
def test_sizes_in_the_table_are_arguments_of_the_comparison(name: str) -> None:
    row = CASES[name]
    function = getattr(importlib.import_module(f"benchmarks.{row.module}"), name)
    inspect.signature(function).bind("cuda", **{**row.cuda, **row.tiny})
    assert set(row.tiny) >= set(row.cuda)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK) + [pytest.mark.shared] * (n in SHARED))
        for n in CASES
    ],
)
def test_every_line_of_a_comparison_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """On a CPU, at sizes that say nothing; those of a GPU too."""
    if name in SHARED:
        monkeypatch.setenv("BGBIAS_SHARED_DATA", str(request.getfixturevalue("shared_data")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    copy_settings(tmp_path)
    record = command.measure(name, "cpu", 1, tmp_path / f"{name}.json", tiny=True)
    assert record["figures"]
    for figure in record["figures"]:
        assert bool(figure["values"]) != bool(figure["missing"]), figure
    for contender in record["contenders"]:
        assert bool(contender["seconds"]) != bool(contender["missing"]), contender
        assert contender["megabytes"] is not None or contender["name"] not in CASES[name].memory
    assert all(f"| {figure['what']} | " in _report.table([record]) for figure in record["figures"])
    if name == "retrieval":
        values = {figure["what"]: figure["values"][0] for figure in record["figures"]}
        assert values["largest difference of the three metrics from pytorch-metric-learning's"] <= 1e-6
        assert values["share of 4000 queries ranked as float64 ranks them, equal ones in image order"] == 1


def test_the_page_keeps_what_other_machines_measured_and_its_prose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, page = tmp_path / "speed/cpu", tmp_path / "speed.md"
    records.mkdir(parents=True)

    def record(name: str, cpu: str = "A processor", **more: Any) -> dict[str, Any]:
        named = {"comparison": name, "title": f"All of {name}", "machine": MACHINE | {"cpu": cpu}}
        return a_record([Figure("faster", [3.0])], **named, **more)

    for name, cpu in {"masks": "A processor", "gone": "A processor", "attribution": "Another"}.items():
        (records / f"{name}.json").write_text(json.dumps(record(name, cpu)))
    monkeypatch.setattr(command, "measure", lambda name, *_: record(name, begun="2026-11-22T08:00:00+00:00"))
    page.write_text("Before.\n<!-- bench cpu -->\nold\n<!-- end of bench cpu -->\nAfter \\1.\n")
    for _ in range(2):
        command.bench(["retrieval"], "cpu", None, page, tiny=False)
        text = page.read_text()
        begin = "Before.\n<!-- bench cpu -->\n`python -m benchmarks --device cpu` on A processor, 2 cores"
        assert text.startswith(begin)
        assert text.endswith("<!-- end of bench cpu -->\nAfter \\1.\n")
        assert "old" not in text
    titles = [re.findall(r"All of (\w+)", part) for part in text.split("on Another, 2 cores")]
    assert titles == [["masks", "retrieval"], ["attribution"]]
    page.write_text("Before.\n")
    with pytest.raises(UserError, match=r"speed\.md has no place .* lines '<!-- bench cpu -->"):
        command.bench(["retrieval"], "cpu", None, page, tiny=False)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_exponents_are_those_of_the_times(power: float) -> None:
    sizes = np.array([10, 20, 40, 80])
    rounds = [3.0 * sizes**power, 5.0 * sizes**power]
    assert exponents(sizes, rounds) == pytest.approx([power, power])
    # A constant cost is part of every time, and is no growth.
    assert exponents(sizes, [7.0 + rounds[0]]) == pytest.approx([power], abs=0.02)


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
