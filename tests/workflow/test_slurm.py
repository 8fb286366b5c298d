"""A real SLURM of one node: what its scheduler kills is done again, and the tables are those of an undisturbed run."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import project
import pytest
from project import PATIENCE, ROOT, SMOKE, Project, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.workflow]
NODE = ROOT / "workflow/slurm/single_node.sh"
TABLES = [f"data/report/smoke/table{n}.{form}" for n in (1, 2) for form in ("csv", "md", "tex", "html")]
MODELS = [f"data/runs/smoke/models/{SMOKE}/{m}/seed0/model.safetensors" for m in ("plain", "bgaugment")]
# The number of threads shows in a model's last bits: here as many as in the local run. Waiting for a distant file
# system and a busy scheduler would only be slow here.
PROFILE = (
    *("--workflow-profile", "profiles/slurm", "--set-threads", "train=1", "evaluate=1"),
    *("--latency-wait", "5", "--slurm-init-seconds-before-status-checks", "3"),
    *("--seconds-between-status-checks", "3", "--config", "grid=smoke"),
)
TRAINING = "*train__*__plain__*.json"


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """A SLURM of one node on this machine, stopped in the end unless it was there before."""
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        pytest.skip("Snakemake's SLURM plugin is not installed: make cluster")
    there = subprocess.run([NODE, "status"], capture_output=True, check=False).returncode == 0
    started = subprocess.run([NODE, "start"], capture_output=True, text=True, check=False)
    if started.returncode:
        pytest.skip(f"SLURM cannot start here: {started.stderr.strip()}")
    yield
    if not there:
        subprocess.run([NODE, "stop"], capture_output=True, check=True)


@pytest.mark.usefixtures("node")
def test_job_that_is_cancelled_runs_again_and_tables_are_those_of_an_undisturbed_run(
    smoke_run: Project, tmp_path: Path
) -> None:
    made = project.fresh(tmp_path / "project")
    snakemake = made.start("--", "table1", "table2", program=("snakemake", *PROFILE))
    try:
        running = made.folder / "data/work/running"

        def at_work() -> bool:
            assert snakemake.poll() is None, "Snakemake ended before there was anything to cancel"
            return bool(list(running.glob(TRAINING)))

        wait_for(at_work, "a training")
        (training,) = _jobs(made, "rule_train_", "_plain_0")
        subprocess.run(["scancel", training["job"]], check=True)
        assert snakemake.wait(PATIENCE) == 0
    finally:
        snakemake.terminate()
        snakemake.wait()
    first, second = _jobs(made, "rule_train_", "_plain_0")
    assert (first["state"], second["state"]) == ("CANCELLED", "COMPLETED")
    # A job that was killed gets more memory and time; a GPU in any case.
    assert (first["memory"], second["memory"]) == ("8000M", "16000M")
    assert (first["time"], second["time"]) == ("1-00:00:00", "2-00:00:00")
    assert _gpus(first) == _gpus(second) == ["gres:gpu:1"]
    assert [_gpus(job) for job in _jobs(made, "rule_score_")] == [[], []]
    for name in TABLES + MODELS:
        assert (made.folder / name).read_bytes() == (smoke_run.folder / name).read_bytes(), name


@pytest.mark.usefixtures("node")
def test_jobs_leave_to_the_main_process_what_is_its_own(smoke_run: Project, tmp_path: Path) -> None:
    made = smoke_run.copy(tmp_path / "project")
    (made.folder / "data/report/smoke/table1.json").unlink()
    with (made.folder / "data/report/smoke/figures/drop.png").open("ab") as picture:
        picture.write(b"scribbled")
    mirror = made.folder / "data/work/logs/track.log"
    mirror.unlink()
    words = (*PROFILE, "--slurm-keep-successful-logs", "--", "table1")
    said = made.run("snakemake", *words, BGBIAS_TRACK="1").stdout
    logs = made.folder.glob(".snakemake/slurm_logs/**/*.log")
    said_by_job = "".join(log.read_text(encoding="utf-8") for log in logs)
    assert "rule table:" in said_by_job
    # Who says what is out of date has also changed the age of files: under the feet of others, if that were a job.
    assert said.count("drop.png has changed") == 1
    assert "has changed" not in said_by_job
    assert mirror.read_text(encoding="utf-8").count("python -m bgbias track") == 1
    assert (made.folder / "data/report/smoke/table1.json").exists()


def _jobs(made: Project, *words: str) -> list[dict[str, str]]:
    """The jobs of a project that SLURM knows whose comment (rule and wildcards) holds these words, oldest first."""
    keys = ("job", "state", "memory", "time", "folder", "comment")
    form = "%i|%T|%m|%l|%Z|%k"
    listed = subprocess.run(
        ["squeue", "--states=all", "--noheader", "--sort=i", "--format", form],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    jobs = [dict(zip(keys, line.split("|"), strict=True)) for line in listed.splitlines()]
    here = os.path.realpath(made.folder)
    return [j for j in jobs if j["folder"] == here and all(word in j["comment"] for word in words)]


def _gpus(job: dict[str, str]) -> list[str]:
    told = subprocess.run(["scontrol", "show", "job", job["job"]], capture_output=True, text=True, check=True)
    return re.findall(r"TresPerJob=(\S+)", told.stdout)
