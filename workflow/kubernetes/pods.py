"""Nodes as jobs of Kubernetes: what profiles/kubernetes has Snakemake call, with the help of kubectl.

    pods.py submit --image IMAGE --claim NAME=FOLDER ... SCRIPT    prints the job's name
    pods.py status JOB                                             prints running, success or failed
    pods.py cancel JOB ...

Every pod mounts the volume that holds the project where the pod of Snakemake has it. Snakemake's own plugin for Kubernetes
knows no shared folder: it would move a node's files to and from a store, but nodes name their files themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS_KEPT = 24 * 3600  # of a finished job, for those who look for its log


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    submit = actions.add_parser("submit")
    submit.add_argument("--image", required=True)
    submit.add_argument(
        "--claim", required=True, help="persistent volume claim and where it is mounted: NAME=FOLDER"
    )
    submit.add_argument("--rule", required=True)
    submit.add_argument("--cores", type=int, required=True)
    submit.add_argument("--memory", type=int, required=True, help="MB")
    submit.add_argument("--minutes", type=int, required=True)
    submit.add_argument("--gpus", type=int, required=True)
    submit.add_argument("script", type=Path)
    actions.add_parser("status").add_argument("job")
    actions.add_parser("cancel").add_argument("jobs", nargs="+")
    chosen = parser.parse_args()
    if chosen.action == "submit":
        print(kubectl("create", "-f", "-", "-o", "name", fed=json.dumps(manifest(chosen))).strip())
    elif chosen.action == "status":
        print(state(chosen.job))
    else:
        kubectl("delete", "--ignore-not-found", "--wait=false", *chosen.jobs)


def manifest(chosen: argparse.Namespace) -> dict[str, Any]:
    """The job that runs a script of Snakemake's in a pod."""
    claim, folder = chosen.claim.split("=", 1)
    size = {"memory": f"{chosen.memory}M"}
    gpus = {"nvidia.com/gpu": str(chosen.gpus)} if chosen.gpus else {}
    container = {
        "name": "node",
        "image": chosen.image,
        "command": ["sh", str(chosen.script.resolve())],
        "workingDir": str(Path.cwd()),
        "env": [
            {"name": k, "value": v}
            for k, v in sorted(os.environ.items())
            if k.startswith(("BGBIAS_", "MLFLOW_"))
        ],
        # Kubernetes gives GPUs by limits alone, and ends what takes more memory than its limit.
        "resources": {"requests": {"cpu": str(chosen.cores), **size}, "limits": {**size, **gpus}},
        "volumeMounts": [{"name": "project", "mountPath": folder}],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "project", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"bgbias-{chosen.rule.replace('_', '-')}-", "labels": {"app": "bgbias"}},
        "spec": {
            # Snakemake tries again, with more memory.
            "backoffLimit": 0,
            "activeDeadlineSeconds": chosen.minutes * 60,
            "ttlSecondsAfterFinished": SECONDS_KEPT,
            "template": {"metadata": {"labels": {"app": "bgbias"}}, "spec": pod},
        },
    }


def state(job: str) -> str:
    """How a job stands, in Snakemake's words; one that is gone has failed, one that cannot be asked after goes on."""
    try:
        found = kubectl("get", job, "--ignore-not-found", "-o", "json")
    except SystemExit as error:
        # The cluster's server may be away for a while.
        print(error, file=sys.stderr)
        return "running"
    if not found.strip():
        return "failed"
    counts = json.loads(found).get("status", {})
    if counts.get("succeeded"):
        return "success"
    return "failed" if counts.get("failed") else "running"


def kubectl(*words: str, fed: str | None = None) -> str:
    """What kubectl prints; its failure ends this program with its words."""
    run = subprocess.run(["kubectl", *words], input=fed, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"kubectl {' '.join(words)}: {run.stderr.strip()}")
    return run.stdout


if __name__ == "__main__":
    main()
