"""A node's process samples what it takes of its machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from handmade_records import TRAIN, Project
from project import wait_for

from bgbias.compute import vitals


def table(text: str) -> list[dict[str, str]]:
    header, *rows = (line.split(",") for line in text.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_busy_process_is_seen_busy_and_an_idle_one_idle() -> None:
    with vitals.watching() as watched:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        watched.look()
        time.sleep(0.3)
        watched.look()
    busy, idle = table(watched.csv())
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
    (row,) = table(watched.csv())
    assert (row["gpu_percent"], row["gpu_memory_mb"]) == ("87.0", "3072.0")


def test_mlflow_shows_them_when_the_node_has_ended(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.training(vitals=",".join(vitals.COLUMNS) + "\n5.0,101.5,700.0,,\n10.0,99.0,720.5,,\n")
    project.sync()
    cpu = project.curve(project.runs()[TRAIN], "system/cpu_utilization_percentage")
    assert cpu == [(1, 101.5), (2, 99.0)]
