# What all rules share: the study, how a node's command ends, and what it reads.

import gc
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from snakemake.exceptions import LockException, WorkflowError
from snakemake.persistence import PersistenceBase as Persistence

# What Snakemake has imported stays: no collection of garbage need look through it again.
gc.freeze()

# Whether this workflow was started itself. Else it is a module of another one, whose config, report and defaults are not ours.
MAIN = workflow.modifier.is_main_snakefile()


def project(here):
    """The folder that holds workflow/ and src/, wherever Snakemake was started."""
    if here.is_local:
        return Path(here).parents[1]
    # Of a workflow that is named by github(...), Snakemake keeps a bare clone and reads file by file; Python wants a folder.
    commit = here.hosted_repo.repo.commit(here.ref)
    folder = Path(".snakemake/bgbias").absolute() / commit.hexsha
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(dir=folder.parent))
        with tempfile.TemporaryFile() as file:
            commit.repo.archive(file, commit.hexsha)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                archive.extractall(unpacked, filter="data")
        unpacked.rename(folder)
    return folder


# The package is found without being installed, and `python` is the one that runs Snakemake, activated or not. With
# --use-conda a rule's own environment comes before it, and Snakemake takes PYTHONPATH away from the job: its shell
# sets it again.
PROJECT = project(workflow.current_basedir)
SOURCE = str(PROJECT / "src")
sys.path.insert(0, SOURCE)
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")])),
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
)
searched = f'export PYTHONPATH={shlex.quote(SOURCE)}"${{PYTHONPATH:+:$PYTHONPATH}}"; '
if workflow.is_main_process:
    # Jobs that outlive a killed Snakemake are known by this (see src/bgbias/engine/resume.py).
    os.environ.update(BGBIAS_SNAKEMAKE=str(os.getpid()))
    # Jobs begin where imports are done already (see src/bgbias/engine/warm.py), but not those on other machines.
    if os.environ.get("BGBIAS_WARM") != "0":
        searched += f"export BGBIAS_WARM={os.getpid()}; "
before = shell._process_prefix or "set -euo pipefail; "
shell.prefix((before + searched).replace("{", "{{").replace("}", "}}"))

try:
    from bgbias.engine import digests, emulated, forecast, freshness, given_weights, graph, live, resume
    from bgbias.engine.asked_photos import AskedPhotos
    from bgbias.engine.node import step
    from bgbias.errors import UserError
    from bgbias.photos.folds import seed_and_fold
    from bgbias.progress import say
    from bgbias.report import costs, figures, tables
    from bgbias.study import plan
    from bgbias.study.cell import CELL, Cell
    from bgbias.study.params import load
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{sys.executable} runs Snakemake, and plans this workflow with {error.name}, which it does not have: `make setup`"
        f" in a checkout, else {sys.executable} -m pip install {PROJECT}"
    )


MEMORY = (
    graph.Memory()
)  # what is asked of each node again and again: by rules, for their order, for the forecast


def planned(make, *args, **kwargs):
    """A mistake of the user's, told by Snakemake in the words of ours."""
    try:
        with graph.remembered(MEMORY):
            return make(*args, **kwargs)
    except UserError as error:
        raise WorkflowError(str(error))


def one_at_a_time(lock):
    """Snakemake's way to lock its files, for one process in this folder at a time, and in words that say what to do."""

    @contextmanager
    def ours(persistence):
        with ExitStack() as held:
            planned(held.enter_context, resume.alone())
            try:
                held.enter_context(lock(persistence))
            except LockException:
                raise WorkflowError(
                    "Directory cannot be locked: a Snakemake was killed here. `make resume` (or: python -m bgbias resume) ends"
                    " what it left behind, unlocks, and goes on."
                )
            yield

    return ours


if MAIN and Persistence.lock.__name__ != "ours":
    Persistence.lock = one_at_a_time(Persistence.lock)


# What a checkout's config/config.yaml says is for Snakemake alone; whoever takes this workflow as a module hands over a config.
if MAIN and Path("config/config.yaml").exists():

    configfile: "config/config.yaml"


# A host that hands over all of its own config has other keys in it.
GIVEN = MAIN or config is not workflow.modifier.parent_modifier.globals["config"]
unknown = sorted(set(config) - {"grid", "params"})
if unknown and GIVEN:
    raise WorkflowError(
        f"unknown --config {unknown[0]}: this workflow knows grid=... and params=...; all else is in params.yaml"
    )
if workflow.modifier.path_modifier.prefix or workflow.modifier.path_modifier.modifies_prefixes:
    raise WorkflowError("this workflow knows no prefix: its folders are those of `paths` in its params.yaml")

PARAMS = str(config.get("params", "params.yaml"))
if not Path(PARAMS).exists():
    raise WorkflowError(
        f"{PARAMS} is missing in {Path.cwd()}: start Snakemake where it lies, name it (--config params=...),"
        f" or begin with a copy of {PROJECT}/params.yaml and the data/ beside it"
    )
STUDY = planned(load, Path(PARAMS), config.get("grid"))
# For the captions of the report; a host keeps its own.
config = config | {
    "grid": STUDY.grid,
    "about": {
        name: family.load(name).ABOUT
        for family in (tables, figures)
        for name in planned(family.wanted, STUDY)
    },
    "costs": planned(costs.told, STUDY) if "--report" in sys.argv else "",
}
CELLS = planned(plan.checked_cells, STUDY)
ASKED = AskedPhotos(STUDY)
PATHS = STUDY.files
LOGS = f"{STUDY.paths.work}/logs"

CURRENT = frozenset()
if "--lint" not in sys.argv:
    if workflow.is_main_process:
        settled = planned(freshness.settle, STUDY)
        CURRENT = settled.current
        for line in filter(None, (str(settled), planned(emulated.told, STUDY, CURRENT))):
            say(line)
        # Of whoever looks at it: --logger bgbias.
        live.expect(lambda: planned(forecast.seconds_each, STUDY, CURRENT))
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


# Names are checked where they are read (study/names.py). A path that somebody names as a target may hold anything: commands
# quote what they take from it (`:q`).
wildcard_constraints:
    dataset="[^/]+",
    part="[a-z_]+",
    backbone="[^/]+",
    loss="[^/]+",
    method="[^/]+",
    seed="[0-9]+(-fold[0-9])?",
    run="[0-9]+(-fold[0-9])?",
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

    def read(wildcards):
        reader = node(name, wildcards)
        if workflow.is_main_process and reader not in CURRENT:
            ASKED.check(reader)
            given_weights.check_node(STUDY, reader)
        upstream = dict.fromkeys(n.record(STUDY) for n in graph.reads_from(STUDY, reader))
        needed = [p for p in graph.inputs(STUDY, name, **reader.keywords).values() if p not in upstream]
        if reader in CURRENT:
            needed = [ancient(path) for path in needed if path.exists()]
            upstream = [path for path in upstream if path.exists()]
        return [*needed, *upstream, PATHS.changed_plan]

    def files(wildcards):
        return planned(read, wildcards)

    return files


def options(name):
    """Parameter function of a node's rule: how its command ends, quoted. An edit of params.yaml or of code after this is an error."""

    def text(wildcards):
        reader = planned(node, name, wildcards)
        digest = planned(digests.digest, STUDY, name, **reader.keywords)
        return shlex.join(["--grid", STUDY.grid, "--params", PARAMS, "--expect", digest])

    return text


def threads_by_photos(wildcards):
    """One for few photos: a job of several begins when so many cores are free at once, and short ones wait longer than they gain."""
    photos, unknown = planned(forecast.photos_of, STUDY, wildcards.dataset)
    return 4 if HAS_GPU or unknown or photos > 2000 else 1


def records_of(*names):
    """The records of all the grid's nodes of some kinds: a target that asks for them asks for everything they certify."""
    return [str(n.record(STUDY)) for n in planned(graph.in_order, STUDY) if n.name in names]


def look_once_a_job():
    """Snakemake looks for what to run next when a job ends, and from then on once more every second for each job that has ended:
    after 400 short jobs that is half of what it does. It does so to begin no more than 100 jobs a second, which this machine's
    cores see to here. A limit of one's own (--max-jobs-per-timespan) holds.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if workflow.local_exec and limit and (limit.max_jobs, limit.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


def mirror_to_mlflow():
    """One process mirrors records into MLflow for as long as this one lives; BGBIAS_TRACK=0 leaves MLflow alone."""
    if os.environ.get("BGBIAS_TRACK", "1") == "0":
        return
    log = PATHS.at("logs", name="track")
    log.parent.mkdir(parents=True, exist_ok=True)
    following = ["--grid", STUDY.grid, "--params", PARAMS, "--follow", str(os.getpid())]
    mirror = [sys.executable, "-m", "bgbias", "track", *following]
    with log.open("a") as out:
        subprocess.Popen(mirror, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
