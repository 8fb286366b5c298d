"""What a node is: a step of the workflow and what it works on; and what a file under ``nodes/`` declares of itself.

A node's file is the only place that says of it

``SUBJECT``                  the wildcards that name what it works on: ``("dataset", "masker")``; ``("cell",)`` for a model;
``OUTPUTS``                  its files: name to pattern (``study/paths.py`` says where the roots are); one of them, its record, is
                             called ``<node>_record``. Names are the whole project's: no two nodes use the same;
``depends(study, ...)``      all that its numbers depend on, as ``Dependencies``: files, settings, code;
``cost(study, ...)``         what it will take (``engine/forecast.py``); one small file if it does not say;
``COLLECTION``               photos, masks or backgrounds that models are made of: what they are called in MLflow, and the output
                             that stands for them;
``CURVE``                    an output that grows while the node works, a row per epoch; until the node is done it is the pattern
                             ``partial_<output>`` of ``study/paths.py``;
``goals(study)``             for nodes that a grid ends in: the subjects that are wanted (tables, figures);
``sources_are_elsewhere(study, ...)``  for what is fetched: whether what it is made of cannot be looked at here;
``RUNS_NETWORK``             false where it takes a device, but runs no model's network;
``LIMITS``                   memory and time that it may take, as ``Limits``;
``threads(study, ...)``      how many threads it may use on a processor, if more than one;
``keep(study, record, ...)`` for products that are to be made again: what can serve in that is put aside;
``subjects(study, ...)``     for commands that may be typed with less than the whole subject: what is meant then;

and a function of the node's own name that does the work: ``<node>(study, ...)``, whose docstring is the command's help (its first
sentence stands in the list of commands), and which takes ``device`` if it can run on a GPU. ``SUBJECT``, ``OUTPUTS``,
``depends`` and the function must be there.

Edges, input files, digests, forecasts, commands, and what MLflow says of parents are derived from there. Planning imports every
node's file: heavy imports stay inside its functions.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from bgbias import plugins
from bgbias.study import Cell, Study, plan

# Steps of one model that one job does, one after the other: torch is imported once.
TOGETHER = ("embed", "score", "attribute")
GPU_THREADS = 4  # beside a GPU, to prepare what it computes with


@dataclass(frozen=True)
class Limits:
    """Memory and time that a step may take when it is first tried; Snakemake grants more each time."""

    memory_mb: int = 4000
    minutes: int = 240


@dataclass(frozen=True)
class Node:
    """A step and what it works on: a cell, a dataset, its part or masker, a pool, an owner of weights, a table or a figure."""

    name: str
    subject: tuple[tuple[str, Any], ...] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The subject as keyword arguments of the functions that the node's file declares."""
        return dict(self.subject)

    @property
    def cell(self) -> Cell | None:
        """The model that the node works on, if it is one."""
        return self.keywords.get("cell")

    @property
    def wildcards(self) -> dict[str, Any]:
        """The subject as the wildcards of the node's patterns."""
        return self.cell.wildcards if self.cell else self.keywords

    @property
    def subject_name(self) -> str:
        """The subject as people call it: ``toy_090/tiny/contrastive/plain/seed0``; empty for the whole grid."""
        return "/".join(v.name if isinstance(v, Cell) else str(v) for _, v in self.subject)

    @property
    def label(self) -> str:
        """The node as people call it: ``train toy_090/tiny/contrastive/plain/seed0``."""
        return f"{self.name} {self.subject_name}".strip()

    @property
    def module(self) -> ModuleType:
        """The node's file under ``nodes/``."""
        return plugins.load("nodes", self.name)

    def study(self, study: Study) -> Study:
        """The study as it is for this node, which may work on a model that is trained in its own way."""
        return plan.study_for_cell(study, self.cell) if self.cell else study

    def depends(self, study: Study) -> "Dependencies":
        """All that its numbers depend on; of code its own file first, and the backbone of a model that it runs."""
        declared: Dependencies = self.module.depends(self.study(study), **self.keywords)
        code = [self.module, *declared.code]
        if self.cell and self.runs_network and not plan.folds_of(study, self.cell):
            code.append(plan.backbone(study, self.cell.backbone).module)
        return replace(declared, code=code)

    @property
    def runs_network(self) -> bool:
        return self.takes_device and getattr(self.module, "RUNS_NETWORK", True)

    @property
    def takes_device(self) -> bool:
        return "device" in inspect.signature(getattr(self.module, self.name)).parameters

    def threads(self, study: Study) -> int:
        """How many threads it may use on a processor. Small models train faster side by side than with many threads each."""
        tell = getattr(self.module, "threads", None)
        return int(tell(study, **self.keywords)) if tell else 1

    def outputs(self, study: Study) -> dict[str, Path]:
        """The node's files by name, without its record."""
        names = self.module.OUTPUTS
        return {n: self.file(study, n) for n in names if n != f"{self.name}_record"}

    def file(self, study: Study, output: str) -> Path:
        return study.files.at(output, **self.wildcards)

    def record(self, study: Study) -> Path:
        return self.file(study, f"{self.name}_record")


@dataclass(frozen=True)
class StepOutput:
    """A file that is read: which output of which node."""

    node: Node
    output: str

    def path(self, study: Study) -> Path:
        return self.node.file(study, self.output)


@dataclass(frozen=True)
class Dependencies:
    """All that a step's numbers depend on: its digest is made of it.

    ``files``: every file that it reads, by its role and the node that makes it; ``settings``: all that it takes from params.yaml,
    and files of the user's as ``Content`` (``files/checksums.py``); ``code``: the files of losses, maskers, tables, ... that it
    works by, beside its own, which ``Node.depends`` puts first. Their code, and that of all that these files import, is in the
    digest (``files/code.py``).
    """

    files: Mapping[str, StepOutput] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: Sequence[ModuleType] = ()


def step(name: str, /, **subject: Any) -> Node:
    """The node ``name`` for a subject."""
    return Node(name, tuple(sorted(subject.items())))


def files_of(maker: Node, *outputs: str) -> dict[str, StepOutput]:
    """Some outputs of a node that are read, by the outputs' own names."""
    return {output: StepOutput(maker, output) for output in outputs}
