"""A process and its machine: threads that are no more than a container's cores and give way to others, and samples of what it
takes.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from handmade_records import TRAIN, Project
from project import wait_for

from bgbias.compute import processor, vitals

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
    ("granted", "given", "spins", "threads"),
    [
        (None, {}, processor.SPINS, None),
        (8, {"GOMP_SPINCOUNT": "77"}, "77", None),
        (2, {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "3"}, None, "3"),
    ],
)
def test_what_a_person_set_stays_and_a_wide_quota_sets_no_threads(
    monkeypatch: pytest.MonkeyPatch,
    granted: int | None,
    given: dict[str, str],
    spins: str | None,
    threads: str | None,
) -> None:
    monkeypatch.setattr(os, "environ", given)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(processor, "quota", lambda: granted)
    processor.share()
    assert (given.get("GOMP_SPINCOUNT"), given.get("OMP_NUM_THREADS")) == (spins, threads)


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


# What it takes.


def rows(watched: vitals.Vitals) -> list[dict[str, str]]:
    return list(csv.DictReader(watched.csv().splitlines()))


def test_a_busy_process_is_seen_busy_and_an_idle_one_idle() -> None:
    with vitals.watching() as watched:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        watched.look()
        time.sleep(0.3)
        watched.look()
    busy, idle = rows(watched)
    assert float(busy["cpu_percent"]) > 2 * float(idle["cpu_percent"])
    assert 5 < float(busy["memory_mb"]) < 100_000
    assert busy["gpu_percent"] == busy["gpu_memory_mb"] == ""
    with vitals.watching(0.02) as watched:
        wait_for(lambda: len(watched.rows) >= 3, "three samples")


def test_the_peak_is_the_own_one_and_not_that_of_who_started_the_process() -> None:
    held = bytearray(400 << 20)
    held[::4096] = bytes(len(held[::4096])).replace(b"\0", b"\1")
    script = "from bgbias.compute import vitals; print(vitals.peak_memory_mb())"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 5 < float(child.stdout) < 200 < len(held) / 2**20 < vitals.peak_memory_mb()


def test_a_gpu_is_told_where_the_process_uses_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True, memory_reserved=lambda: 3 * 2**30)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    told = tmp_path / "nvidia-smi"
    told.write_text('#!/bin/sh\n[ "$1" = "--id=GPU-b" ] && echo 87\n')
    told.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    with vitals.watching() as watched:
        watched.look()
    (row,) = rows(watched)
    assert (row["gpu_percent"], row["gpu_memory_mb"]) == ("87.0", "3072.0")


def test_mlflow_shows_them_when_the_node_has_ended(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.training(vitals=",".join(vitals.COLUMNS) + "\n5.0,101.5,700.0,,\n10.0,99.0,720.5,,\n")
    project.sync()
    cpu = project.curve(project.runs()[TRAIN], "system/cpu_utilization_percentage")
    assert cpu == [(1, 101.5), (2, 99.0)]
