"""Which node reads what from which: followed through what the nodes' files declare.

Whoever plans a whole grid asks the same again and again: within ``remembered`` it is found out once.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.engine.node import Made, Node, step
from bgbias.study.params import Study


@dataclass
class Memory:
    """What is known of one study's nodes: what they read, their digests, and their order."""

    reads: dict[Node, dict[str, Made]] = field(default_factory=dict)
    digests: dict[Node, str] = field(default_factory=dict)
    order: list[Node] = field(default_factory=list)


_memory: Memory | None = None


@contextmanager
def remembered(memory: Memory | None = None) -> Iterator[Memory]:
    """Within it everything about a node of one study is looked up once (or taken from ``memory``, or from
    that of the block around this one): while nothing changes of what nodes and digests are made of.
    """
    global _memory
    before = _memory
    _memory = memory or before or Memory()
    try:
        yield _memory
    finally:
        _memory = before


def memory() -> Memory | None:
    """What is known within ``remembered``; nothing outside of it."""
    return _memory


def made_for(study: Study, reader: Node) -> dict[str, Made]:
    """Role to file: what ``reader`` reads."""
    known = _memory.reads if _memory else {}
    if reader not in known:
        known[reader] = reader.reads(study)
    return known[reader]


def inputs(study: Study, name: str, /, **subject: Any) -> dict[str, Path]:
    """The files that a node reads, by role."""
    return {role: made.path(study) for role, made in made_for(study, step(name, **subject)).items()}


def reads_from(study: Study, reader: Node) -> list[Node]:
    """The nodes whose outputs ``reader`` reads, each once, in the order in which it names them."""
    return list(dict.fromkeys(made.node for made in made_for(study, reader).values()))


def goals(study: Study) -> list[Node]:
    """The nodes that the study's grid ends in: its tables, then its figures."""
    return [
        step(name, **subject)
        for name in reversed(plugins.names("nodes"))
        for subject in getattr(plugins.load("nodes", name), "goals", lambda study: ())(study)
    ]


def in_order(study: Study, ends: Iterable[Node] | None = None) -> list[Node]:
    """Every node of the study's grid once, or of what ``ends`` are made of, each after those it reads from."""
    if ends is None and _memory and _memory.order:
        return list(_memory.order)
    ordered: dict[Node, None] = {}

    def visit(reader: Node) -> None:
        if reader not in ordered:
            for upstream in reads_from(study, reader):
                visit(upstream)
            ordered[reader] = None

    for goal in goals(study) if ends is None else ends:
        visit(goal)
    if ends is None and _memory:
        _memory.order = list(ordered)
    return list(ordered)
