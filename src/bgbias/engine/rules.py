"""What a rule of the workflow asks of the steps that its job does: inputs, outputs, digest, limits and command, as their files
declare them. A job does one step, or several of one model, one after the other in one process.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.compute.gpu_slots import has_gpu
from bgbias.engine import forecast, freshness, graph, resume
from bgbias.engine.checks import check_step, emulation_warning
from bgbias.engine.node import GPU_THREADS, TOGETHER, Limits, Node, step
from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.study import CELL, Cell, plan
from bgbias.study.params import Study, load

STEPS = {
    "evaluate": TOGETHER,
    "evaluate_untrained": TOGETHER[:-1],
}  # a backbone as it comes may not be asked where it looks


class Rules:
    """The rules of one run. What is asked of each step repeatedly is remembered."""

    def __init__(self, config: Mapping[str, Any], project: Path, is_own: bool) -> None:
        """``config``: Snakemake's, which chooses file and grid; other keys are errors if it ``is_own``. ``project``: where the
        workflow lies.
        """
        unknown = sorted(set(config) - {"grid", "params"})
        if unknown and is_own:
            raise UserError(
                f"unknown --config {unknown[0]}: this workflow knows grid=... and params=...; all else is in params.yaml"
            )
        self.params = str(config.get("params", "params.yaml"))
        if not Path(self.params).exists():
            raise UserError(
                f"{self.params} is missing in {Path.cwd()}: start Snakemake where it lies, name it (--config params=...),"
                f" or begin with a copy of {project}/params.yaml, with the grids/ and data/ beside it"
            )
        self.study: Study = load(Path(self.params), config.get("grid"))
        self._current: set[Node] = set()
        self._memory: dict[Hashable, Any] = {}
        plan.checked_cells(self.study)

    def settle(self, touched: bool) -> str:
        """Compare records with the plan before a run (``engine/freshness.py``); what the person should know of it. What earlier
        code made is accepted where files are ``touched``. While another Snakemake works in this folder nothing is changed.
        """
        occupied = resume.state_of_folder()
        if occupied:
            return occupied
        accepted = freshness.accept(self.study) if touched else []
        with graph.share_lookups(self._memory):
            findings = freshness.settle(self.study)
            self._current = freshness.current(findings)
            lines = [
                *accepted,
                freshness.out_of_date(findings),
                emulation_warning(self.study, self._current),
            ]
        return "\n".join(filter(None, lines))

    def finish(self) -> None:
        """When all went well: records that were set aside have no more to say where there are new ones."""
        with graph.share_lookups(self._memory):
            freshness.remove_replaced(self.study)

    def start_mirror(self) -> None:
        """One process mirrors records into MLflow for as long as this one lives; BGBIAS_TRACK=0 leaves MLflow alone."""
        if os.environ.get("BGBIAS_TRACK", "1") == "0":
            return
        log = self.study.files.at("logs", name="track")
        log.parent.mkdir(parents=True, exist_ok=True)
        chosen = ["--grid", self.study.grid, "--params", self.params, "--follow", str(os.getpid())]
        mirror = [sys.executable, "-m", "bgbias", "track", *chosen]
        with log.open("a") as out:
            subprocess.Popen(mirror, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)

    def forecast(self) -> str:
        """What the steps that are not current will cost."""
        with graph.share_lookups(self._memory):
            return forecast.format_forecast(self.study, self._current)

    def seconds(self) -> dict[str, float]:
        """What a job of each rule may take."""
        with graph.share_lookups(self._memory):
            each = forecast.seconds_each(self.study, self._current)
        return each | {job: sum(each.get(name, 0.0) for name in steps) for job, steps in STEPS.items()}

    def step(self, name: str, wildcards: Mapping[str, Any]) -> Node:
        """The step that a path's wildcards name."""
        chosen = dict(wildcards.items())
        return step(name, **({"cell": Cell.from_wildcards(**chosen)} if "seed" in chosen else chosen))

    def inputs(
        self, rule: str, wildcards: Mapping[str, Any], forced: Collection[str], check: bool
    ) -> list[tuple[Path, bool]]:
        """What a job reads, with the records of the steps that made it, and whether it makes the job run when it changes: what is
        made by a step that is ``forced`` to run, and the job's own records, if they were set aside. ``check`` refuses what would
        fail after hours.
        """
        nodes = [self.step(name, wildcards) for name in _steps(rule)]
        needed: dict[Path, Node] = {}
        with graph.share_lookups(self._memory):
            for node in nodes:
                if check and node not in self._current:
                    check_step(self.study, node)
                for file in graph.depends(self.study, node).files.values():
                    needed |= {file.path(self.study): file.node, file.node.record(self.study): file.node}
            read = [
                (path, self._is_forced(maker, forced)) for path, maker in needed.items() if maker not in nodes
            ]
        set_aside = [json_checksum.aside(node.record(self.study)) for node in nodes]
        return read + [(path, True) for path in set_aside if path.exists()]

    def outputs(self, rule: str) -> dict[str, str]:
        """What a job makes: patterns by name."""
        declared = [plugins.load("nodes", name).OUTPUTS for name in _steps(rule)]
        return {name: getattr(self.study.files, name) for outputs in declared for name in outputs}

    def log(self, rule: str) -> str:
        (*_, last) = _steps(rule)
        declared = plugins.load("nodes", last)
        record = declared.OUTPUTS[f"{last}_record"]
        grid = [self.study.grid] if record.startswith(("RUNS", "REPORT")) else []
        subject = [CELL if key == "cell" else f"{{{key}}}" for key in declared.SUBJECT] or [rule]
        return "/".join([self.study.paths.work, "logs", *grid, rule, *subject]) + ".log"

    def command(self, rule: str, wildcards: Mapping[str, Any], must_use_gpu: bool, again: bool) -> str:
        """What a person would type after ``bgbias``. An edit of params.yaml or of code after this is an error, by the digests; so
        is a job that a cluster gave a GPU and that finds none. ``again``: also what is up to date.
        """
        nodes = [self.step(name, wildcards) for name in _steps(rule)]
        with graph.share_lookups(self._memory):
            expected = ",".join(graph.digest(self.study, n.name, **n.keywords) for n in nodes)
        words = [rule.removesuffix("_untrained")]
        if nodes[0].cell:
            *parts, seed = nodes[0].wildcards.values()
            words += [*parts, "--seed", str(seed)]
        else:
            words += [str(nodes[0].keywords[key]) for key in nodes[0].module.SUBJECT]
        words += ["--grid", self.study.grid, "--params", self.params, "--expect", expected]
        words += ["--device", "cuda"] if must_use_gpu else []
        return shlex.join(words + (["--again"] if again and rule in STEPS else []))

    def uses_gpu(self, rule: str, on_cluster: bool) -> bool:
        """Whether a job can use a GPU, and there is one, or there may be one on the cluster's machines."""
        return (on_cluster or has_gpu()) and any(step(name).takes_device for name in _steps(rule))

    def threads(self, rule: str, wildcards: Mapping[str, Any], gpu: bool) -> int:
        """How many threads a job may use: beside a GPU, several make what it computes with."""
        on_processor = max(self.step(name, wildcards).threads(self.study) for name in _steps(rule))
        return max(on_processor, GPU_THREADS) if gpu else on_processor

    def limits(self, rule: str) -> tuple[int, int]:
        """Memory (MB) and minutes that a job may take when it is first tried."""
        limits = [getattr(step(name).module, "LIMITS", Limits()) for name in _steps(rule)]
        return max(one.memory_mb for one in limits), sum(one.minutes for one in limits)

    def records(self, *names: str) -> list[str]:
        """The records of all the grid's steps of some kinds: a target that asks for them asks for everything they certify."""
        with graph.share_lookups(self._memory):
            return [str(n.record(self.study)) for n in graph.in_order(self.study) if n.name in names]

    def methods(self, is_asked: bool) -> str:
        """The methods of the grid's models that are asked where they look, or all others, as Snakemake constrains a wildcard."""
        names = "|".join(sorted({re.escape(cell.method) for cell in plan.attributed_models(self.study)}))
        return f"(?:{names or '(?!)'})" if is_asked else f"(?!(?:{names or '(?!)'})/)[^/]+"

    def _is_forced(self, node: Node, forced: Collection[str]) -> bool:
        """Whether Snakemake was told to run a step's rule or to make a file of it or its makers."""
        if not forced:
            return False
        rules = [node.name, *(rule for rule, steps in STEPS.items() if node.name in steps)]
        files = [node.record(self.study), *node.outputs(self.study).values()]
        if not set(forced).isdisjoint([*rules, *map(str, files)]):
            return True
        return any(self._is_forced(maker, forced) for maker in graph.reads_from(self.study, node))


def _steps(rule: str) -> tuple[str, ...]:
    return STEPS.get(rule, (rule,))
