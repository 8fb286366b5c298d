"""Two runs in one folder: one works, the other is told so in a sentence."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from project import Project, fresh, wait_for

pytestmark = pytest.mark.workflow
SLOW = (
    "masker: ground_truth\n    backgrounds: smoke_scenes",
    "masker: ground_truth\n    backgrounds: toy_scenes",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = fresh(tmp_path / "project")
    made.edit(*SLOW)
    return made


def test_of_two_snakemakes_one_works_and_the_other_names_it(project: Project, tmp_path: Path) -> None:
    first = project.start("--cores", "1", "--config", "grid=smoke", "--", "data", said=tmp_path / "first.log")
    try:
        wait_for(lambda: "rule " in said(tmp_path), "the first job")
        # Held where it is: however long the others take, it has not ended.
        os.killpg(first.pid, signal.SIGSTOP)
        second = project.run("snakemake", "--config", "grid=smoke", "--", "data", check=False)
        assert second.returncode == 1
        assert f"Snakemake is at work in this folder (process {first.pid})" in second.stdout
        assert f"stop it: kill {first.pid}" in second.stdout
        assert "Traceback" not in second.stdout
        resumed = project.bgbias("resume", "--grid", "smoke", check=False)
        assert resumed.returncode == 2
        assert f"at work in this folder (process {first.pid})" in resumed.stdout
        # Who only looks is let in.
        assert "rule " in project.snakemake("--dry-run", "--config", "grid=smoke", "--", "data")
        assert first.poll() is None
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        third = project.run("snakemake", "--config", "grid=smoke", "--", "data", check=False)
        assert third.returncode == 1
        assert "A Snakemake was killed here. `make resume`" in third.stdout
        assert "Traceback" not in third.stdout
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)


def said(folder: Path) -> str:
    return (folder / "first.log").read_text(encoding="utf-8")
