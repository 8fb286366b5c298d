"""Comparisons of speed measure what they say; how fast anything is, no test asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pytest
import torch
from project import ROOT, copy_settings

from benchmarks import Contender, Figure, Measured, _album, _measure, _report, exponents, peer
from benchmarks import __main__ as command
from benchmarks._cases import CASES
from bgbias.backgrounds import generated as procedural
from bgbias.errors import UserError
from bgbias.images import pixels

MACHINE = {"cpu": "A processor", "cores": 2, "threads": 2, "memory_gb": 8, "bf16": "avx512_bf16", "python": "3.11",
           "torch": "2"}  # fmt: skip


# The others load large libraries or networks, start many processes, or run the workflow.
QUICK = ("known_files", "retrieval_million")


class Clock:
    """A clock that goes only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked: list[str] = []

    def __call__(self) -> float:
        return self.now

    def worker(self, name: str, *seconds: float) -> Callable[[], int]:
        """Work that takes these seconds, one after the other, and returns how often it was done."""

        def run() -> int:
            self.worked.append(name)
            times = self.worked.count(name)
            self.now += seconds[(times - 1) % len(seconds)]
            return times

        return run


def test_contenders_take_turns_and_neither_first_runs_count_nor_those_after_a_change_of_the_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gc.collect", lambda: 0)
    clock = Clock()
    contenders = [
        Contender("a", "ours", clock.worker("a", 100.0, 100.0, 1.0, 100.0, 2.0, 3.0)),
        Contender("b", "peer", clock.worker("b", 100.0, 100.0, 100.0, 4.0, 100.0, 5.0, 100.0, 6.0)),
        Contender("absent", "peer", None, "not installed"),
        Contender("c", "limit", clock.worker("c", 0.5)),
    ]
    seconds, results = _measure.take_turns(contenders, 3, clock=clock)
    assert "".join(clock.worked) == "cbbaaabbcccbbaaabbcc"
    assert seconds == {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "c": [0.5, 0.5, 0.5]}
    assert results == {"a": 6, "b": 8, "c": 6}


def test_a_device_is_waited_for_before_and_after_the_work() -> None:
    clock = Clock()
    clock_work = clock.worker("a", 1.0)
    seconds, _ = _measure.take_turns(
        [Contender("a", "ours", clock_work)], 1, clock.worker("device", 10.0), clock
    )
    assert clock.worked[-3:] == ["device", "a", "device"]
    assert seconds == {"a": [11.0]}


def test_ratios_are_those_of_each_round() -> None:
    measured = Measured("cpu", True, {"ours": [1.0, 2.0, 5.0], "theirs": [3.0, 2.0, 20.0]}, {})
    figure = measured.ratio("times as fast", "theirs", "ours", at_least=2.5)
    assert figure.values == [3.0, 1.0, 4.0]
    assert measured.rate("photos", "ours", 10, "a second").values == [10.0, 5.0, 2.0]


def test_a_peer_that_is_absent_is_a_row_that_says_how_to_install_it() -> None:
    absent = peer("theirs", "a_package_that_nobody_wrote", lambda: pytest.fail("prepared"))
    assert absent.run is None
    measured = Measured("cpu", True, {"ours": [1.0]}, {}, {"theirs": absent.missing})
    record = a_record([measured.ratio("times as fast", "theirs", "ours", at_least=2)])
    assert (
        "| times as fast | not measured: a_package_that_nobody_wrote is not installed; `make bench` installs it"
        " | at least 2 |  |" in _report.table([record])
    )


def a_record(figures: list[Figure]) -> dict[str, Any]:
    return {
        "comparison": "sums",
        "title": "Sums of many numbers",
        "device": "cpu",
        "rounds": 3,
        "begun": "2026-11-21T08:00:00+00:00",
        "load": [0.5, 1.25],
        "machine": MACHINE,
        "contenders": [
            {"name": "a", "role": "ours", "seconds": [1.0, 2.0, 4.0], "megabytes": 12.3, "missing": ""}
        ],
        "figures": [vars(figure) for figure in figures],
    }


@pytest.mark.parametrize(
    ("figure", "row"),
    [
        (Figure("faster", [3.0, 1.0, 4.0], at_least=2.5, unit="x"), "| faster | 3 [1 - 4] | at least 2.5 | yes |"),
        (Figure("faster", [3.0, 1.0, 1.5], at_least=2.5), "| faster | 1.5 [1 - 3] | at least 2.5 | no |"),
        (Figure("slope", [2.04], 1.9, 2.1), "| slope | 2.04 | at least 1.9, at most 2.1 | yes |"),
        (Figure("seconds", [0.25], at_most=0.2, unit="s"), "| seconds | 0.25 s | at most 0.2 | no |"),
        (Figure("wrong", [float("nan")], at_most=1), "| wrong | nan | at most 1 | no |"),
        (Figure("share", [0.5]), "| share | 0.5 |  |  |"),
    ],
)  # fmt: skip
def test_report_compares_the_median_with_the_bar(figure: Figure, row: str) -> None:
    assert row in _report.table([a_record([figure])]).splitlines()


def test_figures_go_between_their_markers_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("Before.\n<!-- bench cpu -->\nold\n<!-- end of bench cpu -->\nAfter \\1.\n")
    for _ in range(2):
        _report.write(page, "cpu", [a_record([Figure("faster", [3.0], 2.5)])])
        text = page.read_text()
        assert text.startswith(
            "Before.\n<!-- bench cpu -->\n`python -m benchmarks --device cpu` on A processor, 2 cores, 8 GB"
        )
        assert text.endswith("| faster | 3 | at least 2.5 | yes |\n<!-- end of bench cpu -->\nAfter \\1.\n")
        assert "old" not in text
        assert "2026-11-21; load 0.5 to 1.2" in text
    with pytest.raises(UserError, match="no place for the figures: it needs the lines '<!-- bench cuda -->'"):
        _report.write(page, "cuda", [a_record([])])


def test_unknown_comparisons_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"There is no 'retreival' in benchmarks.*Did you mean 'retrieval'"):
        command.comparisons(["retreival"], "cpu")


def test_a_comparison_is_refused_where_it_cannot_be_made() -> None:
    with pytest.raises(UserError, match="'growth' cannot be measured on cuda, only on: cpu"):
        command.comparisons(["retrieval", "growth"], "cuda")
    assert "retrieval" in command.comparisons([], "cuda")
    assert "growth" not in command.comparisons([], "cuda")


def test_tiny_sizes_are_not_written_into_the_page(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--tiny measures nothing that .*speed\.md could show"):
        command.bench(["retrieval"], "cpu", 1, tmp_path / "speed.md", tiny=True)


@pytest.mark.parametrize(
    ("values", "told"),
    [([7113.2], "7,110"), ([999.6], "1,000"), ([1.0, 0.00012, 2.345], "1 [0.00012 - 2.35]")],
)
def test_figures_have_three_digits_and_large_ones_no_exponent(values: list[float], told: str) -> None:
    assert _report.spread(values) == told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_an_absent_gpu_is_told_with_what_waits_for_it() -> None:
    with pytest.raises(UserError, match=r"torch sees no GPU here.*wait for one: .*paper_grid.*training_gpu"):
        command.bench([], "cuda", None, None, tiny=True)


def test_a_comparison_runs_in_a_process_of_its_own_and_leaves_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    command.bench(["retrieval_million"], "cpu", 2, None, tiny=True)
    record = json.loads((tmp_path / "data/work/bench/tiny/retrieval_million.json").read_text())
    (contender,) = record["contenders"]
    assert len(contender["seconds"]) == 2
    assert contender["megabytes"] >= 1
    assert "retrieval_million: 4,096 queries among a million photos" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in CASES],
)
def test_every_line_of_a_comparison_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, at sizes that say nothing; those of a GPU too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    copy_settings(tmp_path)
    record = json.loads(json.dumps(_measure.measure(name, "cpu", 1, tiny=True)))
    assert record["figures"]
    for figure in record["figures"]:
        assert bool(figure["values"]) != bool(figure["missing"]), figure
    for contender in record["contenders"]:
        assert bool(contender["seconds"]) != bool(contender["missing"]), contender
    told = _report.format_record(record)
    assert all(figure["what"] in told for figure in record["figures"])
    if name == "retrieval":
        difference, agreement = (
            f for f in record["figures"] if f["what"].startswith(("largest", "share of 4"))
        )
        assert difference["values"][0] <= 1e-6
        assert agreement["values"] == [1.0]


def test_the_page_keeps_what_other_machines_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BGBIAS_TRACK", "0")
    measured, kept = tmp_path / "data/work/bench/cpu", tmp_path / "speed/cpu"

    def write(folder: Path, name: str, **changed: Any) -> None:
        record = a_record([Figure("faster", [3.0])]) | {"comparison": name, "title": f"All of {name}"}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(record | changed))

    def measure(name: str, *_: object) -> dict[str, Any]:
        write(measured, name, begun="2026-11-22T08:00:00+00:00")
        return dict(json.loads((measured / f"{name}.json").read_text()))

    monkeypatch.setattr(command, "measure", measure)
    write(kept, "masks", machine=MACHINE | {"threads": 1})
    write(kept, "attribution", machine=MACHINE | {"cpu": "Another processor"})
    write(kept, "heldout")
    write(kept, "foreign")
    write(measured, "growth")  # in the scratch folder alone
    page = tmp_path / "speed.md"
    page.write_text("<!-- bench cpu -->\n<!-- end of bench cpu -->\n")
    command.bench(["retrieval"], "cpu", None, page, tiny=False)
    here, _, other = page.read_text().partition("on Another processor")
    assert "on A processor, 2 cores" in here
    assert "2026-11-21 to 2026-11-22" in here
    assert [line for line in here.splitlines() if "All of" in line] == [
        "| **All of heldout** | | | |",
        "| **All of masks** | | | |",
        "| **All of retrieval** | | | |",
    ]
    assert [line for line in other.splitlines() if "All of" in line] == ["| **All of attribution** | | | |"]
    assert sorted(path.stem for path in kept.iterdir()) == ["attribution", "heldout", "masks", "retrieval"]


@pytest.mark.parametrize("here", [True, False])
def test_an_album_has_as_many_pictures_as_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path))
    # Walls take long to draw.
    monkeypatch.setitem(procedural._KINDS, "textures", procedural._KINDS["colours"])
    if here:
        drawn = {f"{n}.png": pixels.encode_png(np.full((8, 8, 3), n, np.uint8)) for n in range(3)}
        miniatures.as_zip(tmp_path / "backgrounds_val.zip", drawn)
        with pytest.raises(UserError, match=r"backgrounds_val\.zip has 3 pictures, and 4 are measured"):
            list(_album._pictures(_album.SHARED_BACKGROUNDS, "background", 4))
    count = 3 if here else 203
    assert len(list(_album._pictures(_album.SHARED_BACKGROUNDS, "background", count))) == count


def test_every_comparison_declares_what_the_command_needs() -> None:
    assert list(CASES) == sorted(CASES)
    for case in CASES.values():
        assert case.title
        assert set(case.devices) <= {"cpu", "cuda"}
        assert case.devices
        assert case.threads is None or case.threads >= 1


def test_the_package_does_not_import_comparisons() -> None:
    for path in (ROOT / "src/bgbias").rglob("*.py"):
        assert not re.search(
            r"^\s*(import|from) benchmarks", path.read_text(encoding="utf-8"), re.MULTILINE
        ), path


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_exponents_are_those_of_the_times(power: float) -> None:
    sizes = np.array([10, 20, 40, 80])
    rounds = [3.0 * sizes**power, 5.0 * sizes**power]
    assert exponents(sizes, rounds) == pytest.approx([power, power])
    # A constant cost is part of every time, and is no growth.
    assert exponents(sizes, [7.0 + rounds[0]]) == pytest.approx([power], abs=0.02)


def test_extra_memory_counts_what_was_freed_before() -> None:
    """In a process of its own: 200 MB that were freed are taken again."""
    script = """
from types import SimpleNamespace
import numpy as np
from bgbias.compute.device import keep_freed_memory
from benchmarks import Contender, _measure

def contenders(device, tiny):
    keep_freed_memory()
    np.ones(25_000_000)
    yield Contender("a", "ours", lambda: np.ones(1_000 if tiny else 12_500_000))

_measure.CASES["any"] = SimpleNamespace(contenders=contenders)
print(_measure.extra_megabytes("any", "a", "cpu", False))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"})  # fmt: skip
    assert float(done.stdout) == pytest.approx(100e6 / 2**20, rel=0.05)


def test_a_file_without_a_place_for_figures_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "measure", None)
    with pytest.raises(UserError, match=r"new\.md has no place for the figures"):
        command.bench(["retrieval"], "cpu", None, tmp_path / "new.md", tiny=False)
