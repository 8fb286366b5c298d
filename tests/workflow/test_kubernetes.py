"""Nodes as jobs of Kubernetes: Snakemake's side for real, with a stand-in for kubectl that runs a pod's command here."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import project
import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.workflow]
PROFILE = (
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
    words = ("snakemake", *PROFILE, "--", str(record.relative_to(made.folder)))
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
