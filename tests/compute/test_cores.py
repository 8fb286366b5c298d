"""Threads give way to other processes, and are no more than a container's cores; what a user set stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bgbias.compute import processor

# `python -m bgbias`, and then what OpenMP says that it was told, and how many threads the libraries have.
COMMAND = """
import runpy, sys
from bgbias.compute import processor
processor.quota = lambda: 1
sys.argv[1:] = ["--version"]
try:
    runpy.run_module("bgbias", run_name="__main__")
finally:
    import torch
    from threadpoolctl import threadpool_info
    print("threads", *{pool["num_threads"] for pool in threadpool_info()}, torch.get_num_threads())
"""
OWN = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"


def test_libraries_have_no_more_threads_than_the_container_has_cores_and_know_how_to_wait() -> None:
    """Also those that read the environment when numpy is imported."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    around = environment | {"OMP_DISPLAY_ENV": "VERBOSE"}
    done = subprocess.run([sys.executable, "-c", COMMAND], env=around, capture_output=True, text=True)
    assert "threads 1 1\n" in done.stdout, done.stderr
    assert f"GOMP_SPINCOUNT = '{processor.SPINS}'" in done.stderr


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, processor.SPINS), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "PASSIVE"}, None)],
)
def test_what_a_person_set_of_waiting_stays(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], spins: str | None
) -> None:
    monkeypatch.setattr(os, "environ", given)
    processor.share()
    assert given.get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_quota_of_a_container_is_read_in_both_forms(
    tmp_path: Path, files: dict[str, str], granted: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processor.quota(tmp_path) == granted


@pytest.mark.parametrize(
    ("granted", "given", "threads"), [(2, "3", "3"), (None, None, None), (8, None, None)]
)
def test_threads_that_a_person_set_stay_and_a_wide_quota_sets_none(
    monkeypatch: pytest.MonkeyPatch, granted: int | None, given: str | None, threads: str | None
) -> None:
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": given} if given else {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(processor, "quota", lambda: granted)
    processor.share()
    assert os.environ.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16 amx_bf16", ("avx512_bf16", "amx_bf16")),
        ("flags\t\t: fpu avx2", ()),
        ("Features\t: fp asimd bf16", ("bf16",)),
        ("bogomips\t: 50.00", None),
    ],
)
def test_instructions_for_bf16(tmp_path: Path, said: str, known: tuple[str, ...] | None) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{said}\n\nprocessor\t: 1\n")
    assert processor.bf16(tmp_path / "cpuinfo") == known
    assert processor.bf16(tmp_path / "missing") is None
