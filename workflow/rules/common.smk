# What all rules share: the study, and what they ask of the declarations of steps: inputs, outputs, digest, limits, command.

import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

try:
    from bgbias.engine import progress_screen, resume
    from bgbias.engine.rules import Rules
    from bgbias.errors import UserError, explain_os_error
    from bgbias.progress import say
    from bgbias.report import costs, figures, tables
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{sys.executable}, which runs Snakemake, lacks {error.name}: `make setup` in a checkout,"
        f" else {sys.executable} -m pip install {PROJECT}"
    )


def planned(make, *args, **kwargs):
    """A mistake of the user's, told by Snakemake in the words of ours."""
    try:
        return make(*args, **kwargs)
    except (UserError, OSError) as error:
        text = explain_os_error(error) if isinstance(error, OSError) else str(error)
        raise WorkflowError(text) if text else error


# What a checkout's config/config.yaml says is for Snakemake alone; whoever takes this workflow as a module hands over a config.
if MAIN and Path("config/config.yaml").exists():

    configfile: "config/config.yaml"


if workflow.modifier.path_modifier.prefix or workflow.modifier.path_modifier.modifies_prefixes:
    raise WorkflowError("this workflow knows no prefix: its folders are those of `paths` in its params.yaml")
# A host that hands over all of its own config has other keys in it.
OWN = MAIN or config is not workflow.modifier.parent_modifier.globals["config"]
RULES = planned(Rules, config, PROJECT, OWN)
STUDY, PATHS = RULES.study, RULES.study.files

# Records tell what is out of date. A job on another machine changes nothing. Jobs that outlive a killed Snakemake are known by its
# number (src/bgbias/engine/resume.py).
if workflow.is_main_process and "--lint" not in sys.argv:
    os.environ.update(BGBIAS_SNAKEMAKE=str(os.getpid()))
    if changes := planned(RULES.settle, touched=bool({"--touch", "-t"} & set(sys.argv))):
        say(changes)
    # Of whoever looks at it: --logger bgbias.
    progress_screen.expect(lambda: planned(RULES.seconds))

# One GPU job at a time unless --resources gpu=N says otherwise; gpu=0 leaves GPUs alone.
GPUS = workflow.global_resources.setdefault("gpu", 1)


def on_cluster():
    return workflow.remote_exec or not workflow.local_exec


def gpu(name):
    """Whether a job gets a GPU: here if there is one, on a cluster if it can use one."""
    return int(getattr(GPUS, "value", GPUS) > 0 and RULES.uses_gpu(name, on_cluster()))


def reads(name):
    """What a job reads. No file's time matters (src/bgbias/engine/freshness.py), but what is forced to run draws others along."""
    inputs = lambda wildcards: planned(
        RULES.inputs, name, wildcards, workflow.dag_settings.forcerun, workflow.is_main_process
    )
    return lambda wildcards: [path if draws else ancient(path) for path, draws in inputs(wildcards)]


def command(name):
    """What a person would type after `bgbias`."""
    again = lambda: workflow.dag_settings.forceall or name in workflow.dag_settings.forcerun
    return lambda wildcards: planned(RULES.command, name, wildcards, gpu(name) and on_cluster(), again())


def threads(name):
    return lambda wildcards: planned(RULES.threads, name, wildcards, gpu(name))


def limits(name):
    """Memory (MB) and time (minutes) that a job may take, more of both each time it is tried, and its GPU."""
    memory_mb, minutes = RULES.limits(name)
    return {
        "gpu": lambda wildcards: gpu(name),
        "mem_mb": lambda wildcards, attempt: attempt * memory_mb,
        "runtime": lambda wildcards, attempt: attempt * minutes,
    }


BGBIAS = "OMP_NUM_THREADS={threads} python -m bgbias {params} > {log:q} 2>&1"


# Names are checked where they are read (study/paths.py). A path that somebody names as a target may hold anything: commands
# quote what they take from it (`:q`).
wildcard_constraints:
    **dict.fromkeys(("dataset", "backbone", "loss", "method", "masker", "pool", "figure"), "[^/]+"),
    **dict.fromkeys(("seed", "run"), "[0-9]+(-fold[0-9])?"),
    part="[a-z_]+",
    owner="(backbones|maskers)/[^/]+",
