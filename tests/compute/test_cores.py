"""Threads give way to other processes, and are no more than a container's cores; what a user set stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bgbias.compute import cores

# A command, and then the library whose threads it is about, which says what it was told.
COMMAND = """
import sys
sys.argv[1:] = ["--version"]
from bgbias import cli
try:
    cli.main()
finally:
    import torch
    print("threads", torch.get_num_threads())
"""
OWN = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, cores.SPINS), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0")],
)
def test_openmp_is_told_how_its_threads_wait(given: dict[str, str], spins: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env=environment | {"OMP_DISPLAY_ENV": "VERBOSE"} | given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "threads" in done.stdout, done.stderr
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n"}, None),
        ({}, None),
    ],
)
def test_quota_of_a_container_is_read_in_both_forms(
    tmp_path: Path, files: dict[str, str], granted: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores.quota(tmp_path) == granted


@pytest.mark.parametrize(
    ("granted", "given", "threads"), [(2, None, "2"), (2, "3", "3"), (None, None, None), (8, None, None)]
)
def test_threads_are_no_more_than_the_containers_cores(
    monkeypatch: pytest.MonkeyPatch, granted: int | None, given: str | None, threads: str | None
) -> None:
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": given} if given else {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "quota", lambda: granted)
    cores.share()
    assert os.environ.get("OMP_NUM_THREADS") == threads
