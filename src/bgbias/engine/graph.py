"""Which node reads what from which: followed through what the nodes' files declare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.engine.node import Node, step
from bgbias.study.params import Study


def inputs(study: Study, name: str, /, **subject: Any) -> dict[str, Path]:
    """The files that a node reads, by role."""
    return {role: made.path(study) for role, made in step(name, **subject).reads(study).items()}


def reads_from(study: Study, reader: Node) -> list[Node]:
    """The nodes whose outputs ``reader`` reads, each once, in the order in which it names them."""
    return list(dict.fromkeys(made.node for made in reader.reads(study).values()))


def goals(study: Study) -> list[Node]:
    """The nodes that the study's grid ends in: its tables, then its figures."""
    return [
        step(name, **subject)
        for name in reversed(plugins.names("nodes"))
        for subject in getattr(plugins.load("nodes", name), "goals", lambda study: ())(study)
    ]


def in_order(study: Study, ends: Iterable[Node] | None = None) -> list[Node]:
    """Every node of the study's grid once, or of what ``ends`` are made of, each after those it reads from."""
    ordered: dict[Node, None] = {}

    def visit(reader: Node) -> None:
        if reader not in ordered:
            for upstream in reads_from(study, reader):
                visit(upstream)
            ordered[reader] = None

    for goal in goals(study) if ends is None else ends:
        visit(goal)
    return list(ordered)
