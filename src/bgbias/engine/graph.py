"""Which node reads what from which: followed through what the nodes' files declare.

Whoever plans a whole grid asks the same again and again: within ``remembered`` it is found out once.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bgbias import plugins
from bgbias.engine.node import Made, Node, step
from bgbias.study.params import Study

T = TypeVar("T")
_memory: dict[Hashable, Any] | None = None


@contextmanager
def remembered(memory: dict[Hashable, Any] | None = None) -> Iterator[dict[Hashable, Any]]:
    """Within it everything about a node of one study is looked up once (or taken from ``memory``, or from
    that of the block around this one): while nothing changes of what nodes and digests are made of.
    """
    global _memory
    before = _memory
    known = before if memory is None else memory
    _memory = {} if known is None else known
    try:
        yield _memory
    finally:
        _memory = before


def once(what: Hashable, find: Callable[[], T]) -> T:
    """What ``find`` gives; within ``remembered``, what it gave before for the same ``what``."""
    if _memory is None:
        return find()
    if what not in _memory:
        _memory[what] = find()
    found: T = _memory[what]
    return found


def made_for(study: Study, reader: Node) -> dict[str, Made]:
    """Role to file: what ``reader`` reads."""
    return once(("reads", reader), lambda: reader.reads(study))


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
    if ends is None:
        return list(once("order", lambda: in_order(study, goals(study))))
    ordered: dict[Node, None] = {}

    def visit(reader: Node) -> None:
        if reader not in ordered:
            for upstream in reads_from(study, reader):
                visit(upstream)
            ordered[reader] = None

    for end in ends:
        visit(end)
    return list(ordered)
