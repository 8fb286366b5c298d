"""From photos to the paper's two tables: `snakemake --cores all`.

    fetch -> index -> masks ----------+-> embed -> score ----+
                  \-> train ----------+-> attribute ---------+-> collect -> table, figure
    backgrounds -----/                                       (MLflow is told while it runs)

params.yaml holds the study, src/bgbias/plan.py what each node reads, src/bgbias/paths.py where everything lies.
"""

import os
import subprocess
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir) / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))

from bgbias import paths, plan
from bgbias.errors import UserError
from bgbias.params import load
from bgbias.plan import Cell


def planned(make, *args, **kwargs):
    """A mistake of the user's, told by Snakemake in the words of ours."""
    try:
        return make(*args, **kwargs)
    except UserError as error:
        raise WorkflowError(str(error))


unknown = set(config) - {"grid", "params"}
if unknown:
    raise WorkflowError(f"unknown --config {sorted(unknown)[0]}: this workflow knows grid=... and params=...; all else is in params.yaml")

PARAMS = str(config.get("params", "params.yaml"))
STUDY = planned(load, Path(PARAMS), config.get("grid"))
CELLS = planned(plan.checked_cells, STUDY)
PATHS = STUDY.files
GRID = f"--grid {STUDY.grid} --params {PARAMS}"

# With --use-conda a rule's own environment brings its python; otherwise it is the one that runs Snakemake.
USES_CONDA = any("CONDA" in str(m).upper() for m in workflow.deployment_settings.deployment_method)
PYTHON = "python" if USES_CONDA else sys.executable

# One GPU job at a time unless --resources gpu=N says otherwise; none of it matters on a machine without a GPU.
HAS_GPU = int(any(Path("/dev").glob("nvidia[0-9]*")))
if "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)


wildcard_constraints:
    dataset="[^/]+",
    backbone="[^/]+",
    loss="[^/]+",
    method="[^/]+",
    seed="[0-9]+",
    masker="[^/]+",
    pool="[^/]+",


def cell(wildcards):
    """The cell that a path's wildcards name."""
    return Cell(wildcards.dataset, wildcards.backbone, wildcards.loss, wildcards.method, int(wildcards.seed))


include: "workflow/rules/data.smk"
include: "workflow/rules/masks.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.report.input,


onstart:
    # One process mirrors records into MLflow for as long as this one lives; BGBIAS_TRACK=0 leaves MLflow alone.
    if os.environ.get("BGBIAS_TRACK", "1") != "0":
        log = PATHS.at("logs", name="track")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as out:
            subprocess.Popen(
                [sys.executable, "-m", "bgbias", "track", *GRID.split(), "--follow", str(os.getpid())],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
