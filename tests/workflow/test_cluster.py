"""What a cluster's scheduler kills is done again, and tables are those of an undisturbed run: a real SLURM of one node, and
Snakemake's side of Kubernetes with a stand-in for kubectl that runs a pod's command here.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
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


# Kubernetes.

POD_PROFILE = (
    *("--workflow-profile", "profiles/kubernetes", "--latency-wait", "5"),
    *("--seconds-between-status-checks", "2", "--config", "grid=smoke"),
)
KUBECTL = """\
#!{python}
import json, os, subprocess, sys
from pathlib import Path

words, folder = sys.argv[1:], Path({folder!r})
if words == ["create", "-f", "-", "-o", "name"]:
    job = json.load(sys.stdin)
    name = f"{{job['metadata']['generateName']}}{{len(list(folder.glob('*.json')))}}"
    place = folder / name
    place.with_suffix(".json").write_text(json.dumps(job))
    (pod,) = job["spec"]["template"]["spec"]["containers"]
    # The first pod of an index is evicted before it has done anything.
    command = ["false"] if name == "bgbias-index-0" else pod["command"]
    script = 'cd "$1"; shift; out="$1"; shift; "$@"; echo $? > "$out.new"; mv "$out.new" "$out"'
    environment = {{"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")}} | {{e["name"]: e["value"] for e in pod["env"]}}
    log = place.with_suffix(".log").open("w")
    subprocess.Popen(["sh", "-c", script, "sh", pod["workingDir"], str(place.with_suffix(".rc")), *command],
                     env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    print(f"job.batch/{{name}}")
elif words[0] == "get" and words[2:] == ["--ignore-not-found", "-o", "json"]:
    ended = folder / (words[1].removeprefix("job.batch/") + ".rc")
    status = {{}} if not ended.exists() else {{"succeeded" if ended.read_text() == "0\\n" else "failed": 1}}
    print(json.dumps({{"status": status}}))
else:
    sys.exit(f"the stand-in does not know: {{words}}")
"""


def test_nodes_run_in_pods_that_see_the_project_and_a_lost_pod_is_followed_by_a_larger_one(
    tmp_path: Path,
) -> None:
    if importlib.util.find_spec("snakemake_executor_plugin_cluster_generic") is None:
        pytest.skip("Snakemake's plugin for clusters is not installed: make cluster")
    made, pods, tools = project.fresh(tmp_path / "project"), tmp_path / "pods", tmp_path / "tools"
    for folder in (pods, tools):
        folder.mkdir()
    (tools / "kubectl").write_text(KUBECTL.format(python=sys.executable, folder=str(pods)), encoding="utf-8")
    (tools / "kubectl").chmod(0o755)
    record = made.folder / "data/work/masks/toy_smoke/ground_truth/masks.json"
    words = ("snakemake", *POD_PROFILE, "--", str(record.relative_to(made.folder)))
    made.run(*words, PATH=os.pathsep.join([str(tools), made.environment()["PATH"]]))
    assert json.loads(record.read_text(encoding="utf-8"))["status"] == "done"
    names = ("bgbias-index-0", "bgbias-index-1", "bgbias-masks-2")
    jobs = [json.loads((pods / f"{name}.json").read_text())["spec"] for name in names]
    lost, index, masks = (job["template"]["spec"]["containers"][0] for job in jobs)
    assert lost["resources"]["limits"] == {"memory": "4000M"}
    assert index["resources"]["limits"] == {"memory": "8000M"}
    assert masks["resources"]["limits"] == {"memory": "8000M", "nvidia.com/gpu": "1"}
    assert masks["resources"]["requests"] == {"cpu": "4", "memory": "8000M"}
    assert jobs[-1]["activeDeadlineSeconds"] == 12 * 3600
    assert {"name": "BGBIAS_TRACK", "value": "0"} in masks["env"]
    assert masks["volumeMounts"] == [{"name": "project", "mountPath": "/bgbias"}]
