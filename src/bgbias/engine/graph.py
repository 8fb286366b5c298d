"""Which node reads what from which, followed through what the nodes' files declare; and the fingerprint of all that a node reads:
a node whose digest is another one has to run again.

``spec(study, node, ...)`` holds the node's settings, its code with the versions of the libraries that this imports, and the
digests of the nodes that it reads from, by their names: nothing else. The digest stands in the Snakemake rule's ``params``, so
that an edited margin or formula reruns that loss's cells and nothing else, and a new masker does not retrain a method that reads
no masks.

Whoever plans a whole grid asks the same again and again: within ``share_lookups`` it is found out once.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bgbias import plugins
from bgbias.engine.node import Dependencies, Node, step
from bgbias.files import code
from bgbias.files.checksums import read_recorded, resolve
from bgbias.study.params import Study

T = TypeVar("T")
_memory: dict[Hashable, Any] | None = None


@contextmanager
def share_lookups(memory: dict[Hashable, Any] | None = None) -> Iterator[dict[Hashable, Any]]:
    """Within it everything about a node of one study is looked up once (or taken from ``memory``, or from
    that of the block around this one): while nothing changes of what nodes and digests are made of.
    """
    global _memory
    before = _memory
    lookups = before if memory is None else memory
    _memory = {} if lookups is None else lookups
    try:
        yield _memory
    finally:
        _memory = before


def once(what: Hashable, find: Callable[[], T]) -> T:
    """What ``find`` gives; within ``share_lookups``, what it gave before for the same ``what``."""
    if _memory is None:
        return find()
    if what not in _memory:
        _memory[what] = find()
    result: T = _memory[what]
    return result


def depends(study: Study, node: Node) -> Dependencies:
    """All that a node's numbers depend on."""
    return once(("depends", node), lambda: node.depends(study))


def modules(study: Study, node: Node) -> tuple[str, ...]:
    """The modules that a node works by, by name: its own file first."""
    return tuple(module.__name__ for module in depends(study, node).code)


def inputs(study: Study, name: str, /, **subject: Any) -> dict[str, Path]:
    """The files that a node reads, by role."""
    files = depends(study, step(name, **subject)).files
    return {role: output.path(study) for role, output in files.items()}


def reads_from(study: Study, reader: Node) -> list[Node]:
    """The nodes whose outputs ``reader`` reads, each once, in the order in which it names them."""
    return list(dict.fromkeys(output.node for output in depends(study, reader).files.values()))


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


def digest(study: Study, name: str, /, **subject: Any) -> str:
    """A short fingerprint of everything the node reads."""
    return once(
        ("digest", step(name, **subject)),
        lambda: code.hash_text(json.dumps(spec(study, name, **subject), sort_keys=True, default=str)),
    )


def spec(study: Study, name: str, /, **subject: Any) -> dict[str, Any]:
    """What the node reads, resolved: its settings, code, and the digests of the nodes that it reads
    from: of one node of a kind the digest itself, of several by what these work on.
    """
    reader = step(name, **subject)
    upstream: dict[str, dict[str, str]] = {}
    for maker in reads_from(study, reader):
        upstream.setdefault(maker.name, {})[maker.subject_name] = _maker_digest(study, maker, reader)
    read = {n: sums if len(sums) > 1 else next(iter(sums.values())) for n, sums in upstream.items()}
    declared = depends(study, reader)
    known, worked_by = study.files.at("known_files"), modules(study, reader)
    settings = resolve(dict(declared.settings), lambda: read_recorded(reader.record(study)), known)
    by = {"code": code.fingerprint(*worked_by), "libraries": code.libraries(*worked_by)}
    content = {"node": name, "subject": reader.subject_name, **by}
    if hidden := (content.keys() & settings.keys()) | ((content | settings).keys() & read.keys()):
        raise ValueError(
            f"the node {name} has a setting '{min(hidden)}', which means something else in a digest"
        )
    return content | settings | read


def _maker_digest(study: Study, maker: Node, reader: Node) -> str:
    """A maker's digest. Where its sources are elsewhere (a clone whose data came from a remote) it
    cannot have changed: it is what the reader's record says that it was.
    """
    elsewhere = getattr(maker.module, "sources_are_elsewhere", None)
    if elsewhere and elsewhere(study, **maker.keywords):
        before = read_recorded(reader.record(study)).get(maker.name, "")
        if before_digest := before.get(maker.subject_name, "") if isinstance(before, dict) else before:
            return str(before_digest)
    return digest(study, maker.name, **maker.keywords)
