# What all rules share: the study, how a node's command ends, and what it reads.

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# The package is found without being installed, and `python` is the one that runs Snakemake, activated or not. With
# --use-conda a rule's own environment comes before it, and Snakemake takes PYTHONPATH away from the job: its shell
# sets it again.
SOURCE = str(Path(workflow.basedir) / "src")
sys.path.insert(0, SOURCE)
SEARCHED = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
os.environ.update(
    PYTHONPATH=SEARCHED,
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
)
quoted = shlex.quote(SEARCHED).replace("{", "{{").replace("}", "}}")
shell.prefix(f"set -euo pipefail; export PYTHONPATH={quoted}; ")
# Jobs that outlive a killed Snakemake are known by this (see resuming.py).
if workflow.is_main_process:
    os.environ.update(BGBIAS_SNAKEMAKE=str(os.getpid()))

from bgbias.engine import digests, forecast, freshness, graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.photos.folds import seed_and_fold
from bgbias.progress import say
from bgbias.report import figures, tables
from bgbias.study import plan
from bgbias.study.cell import CELL, Cell
from bgbias.study.params import load


def planned(make, *args, **kwargs):
    """A mistake of the user's, told by Snakemake in the words of ours."""
    try:
        return make(*args, **kwargs)
    except UserError as error:
        raise WorkflowError(str(error))


unknown = sorted(set(config) - {"grid", "params"})
if unknown:
    raise WorkflowError(
        f"unknown --config {unknown[0]}: this workflow knows grid=... and params=...; all else is in params.yaml"
    )

PARAMS = str(config.get("params", "params.yaml"))
STUDY = planned(load, Path(PARAMS), config.get("grid"))
# For the captions of the report.
config["grid"] = STUDY.grid
config["about"] = {
    name: family.load(name).ABOUT for family in (tables, figures) for name in planned(family.wanted, STUDY)
}
CELLS = planned(plan.checked_cells, STUDY)
PATHS = STUDY.files
LOGS = f"{STUDY.paths.work}/logs"

CURRENT = frozenset()
if "--lint" not in sys.argv:
    if workflow.is_main_process:
        settled = planned(freshness.settle, STUDY)
        CURRENT = settled.current
        if str(settled):
            say(str(settled))
    else:
        # A job on another machine sees the same, and changes nothing.
        CURRENT = frozenset(f.node for f in planned(freshness.examine, STUDY) if f.state == "current")

# One GPU job at a time unless --resources gpu=N says otherwise; none of it matters on a machine without a GPU.
HAS_GPU = int(shutil.which("nvidia-smi") is not None)
if "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)


def growing(base):
    """Memory (MB) or time (minutes) that a job may take, more of it each time it is retried."""
    return lambda wildcards, attempt: attempt * base


wildcard_constraints:
    dataset="[^/]+",
    part="[a-z_]+",
    backbone="[^/]+",
    loss="[^/]+",
    method="[^/]+",
    seed="[0-9]+(-fold[0-9])?",
    masker="[^/]+",
    owner="(backbones|maskers)/[^/]+",
    pool="[^/]+",
    figure="[^/]+",


def node(name, wildcards):
    """The node that a path's wildcards name."""
    chosen = dict(wildcards.items())
    if "seed" in chosen:
        seed, fold = planned(seed_and_fold, chosen.pop("seed"))
        return step(name, cell=Cell(**chosen, seed=seed, fold=fold))
    return step(name, **chosen)


def reads(name):
    """Input function of a node's rule: what it reads, the records of the nodes that made it, and freshness's marker.

    What a node that is current was made from may be elsewhere (archives are not kept, tables can be pulled alone): it is not
    made again for its own sake. And only the records' ages count, whatever times a checkout or a cache gave the files.
    """

    def files(wildcards):
        reader = node(name, wildcards)
        upstream = [n.record(STUDY) for n in planned(graph.reads_from, STUDY, reader)]
        needed = [p for p in planned(graph.inputs, STUDY, name, **reader.keywords).values() if p not in upstream]
        if reader in CURRENT:
            needed = [ancient(path) for path in needed if path.exists()]
            upstream = [path for path in upstream if path.exists()]
        return [*needed, *upstream, PATHS.changed_plan]

    return files


def options(name):
    """Parameter function of a node's rule: how its command ends. An edit of params.yaml after this is an error."""

    def text(wildcards):
        digest = planned(digests.digest, STUDY, name, **node(name, wildcards).keywords)
        return f"--grid {STUDY.grid} --params {PARAMS} --expect {digest}"

    return text


def records_of(*names):
    """The records of all the grid's nodes of some kinds: a target that asks for them asks for everything they certify."""
    return [str(n.record(STUDY)) for n in planned(graph.in_order, STUDY) if n.name in names]


def mirror_to_mlflow():
    """One process mirrors records into MLflow for as long as this one lives; BGBIAS_TRACK=0 leaves MLflow alone."""
    if os.environ.get("BGBIAS_TRACK", "1") == "0":
        return
    log = PATHS.at("logs", name="track")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = ["-m", "bgbias", "track", "--grid", STUDY.grid, "--params", PARAMS, "--follow", str(os.getpid())]
    with log.open("a") as out:
        subprocess.Popen([sys.executable, *command], stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
