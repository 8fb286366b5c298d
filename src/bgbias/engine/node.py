"""What a node is: a step of the workflow and what it works on; and what a file under ``nodes/`` declares of itself.

A node's file is the only place that says of it

``SUBJECT``                    the wildcards that name what it works on, e.g. ``("dataset", "masker")``; ``("cell",)`` for a model;
``VERSION``                    raised by a change of code that changes its numbers;
``OUTPUTS``                    its files: name to pattern (``study/paths.py`` says what the roots mean); the last one, its record,
                               is called ``<node>_record``;
``reads(study, ...)``          role to ``Made``: what it reads, and which node makes that;
``settings(study, ...)``       what else its numbers depend on: all that it takes from params.yaml;
``cost(study, ...)``           what it will take, for the forecast (``engine/forecast.py``);

and a function of its own name that does the work. Edges, input files, digests, forecasts and what MLflow says of parents are
derived from there. Planning imports every node's file: heavy imports stay inside the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bgbias import plugins
from bgbias.study.cell import Cell
from bgbias.study.params import Study


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
    def wildcards(self) -> dict[str, Any]:
        """The subject as the wildcards of the node's patterns."""
        cell = self.keywords.get("cell")
        return cell.wildcards if cell else self.keywords

    @property
    def label(self) -> str:
        """The node as people call it: ``train toy_090/tiny/contrastive/plain/seed0``."""
        return " ".join([self.name, *(v.name if isinstance(v, Cell) else str(v) for _, v in self.subject)])

    @property
    def declared(self) -> ModuleType:
        """The node's file under ``nodes/``."""
        return plugins.load("nodes", self.name)

    def file(self, study: Study, output: str, **more: object) -> Path:
        """One of the node's files; ``more``: wildcards beside the subject's."""
        return study.files.at(output, **self.wildcards, **more)

    def record(self, study: Study) -> Path:
        """Where the node's record lies."""
        return self.file(study, f"{self.name}_record")


@dataclass(frozen=True)
class Made:
    """A file that a node makes: which output of which node; ``more`` are wildcards beside the subject's."""

    node: Node
    output: str
    more: tuple[tuple[str, Any], ...] = ()

    def path(self, study: Study) -> Path:
        """Where the file lies."""
        return self.node.file(study, self.output, **dict(self.more))


def node(name: str, /, **subject: Any) -> Node:
    """The node ``name`` for a subject."""
    return Node(name, tuple(sorted(subject.items())))


def made(by: Node, output: str, /, **more: Any) -> Made:
    """The file ``output`` of the node ``by``."""
    return Made(by, output, tuple(sorted(more.items())))
