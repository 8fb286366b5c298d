"""Code that was edited and computes what it did: what was made by it before is taken for what it would make now.

Nobody can see from a source whether an edit moves numbers; who knows that it does not says so. Records get the digest of now and
keep what was accepted, so that nothing runs again, and tables say it of the models in them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bgbias import plugins
from bgbias.engine import digests, graph, records
from bgbias.engine.node import Node
from bgbias.errors import UserError
from bgbias.files import code, sealed
from bgbias.files.checksums import sha256
from bgbias.study.params import Study

BY = ("code", "libraries")  # of a node's spec: what may be accepted
MOST_NAMED = 3  # edited files in a table's sentence
EARLIER = "Made in part by earlier code"  # how that sentence begins


def accept(study: Study, named: Collection[str]) -> list[str]:
    """Take the products of these nodes (``train``, or one: ``train toys/tiny/...``) for those of the code of now, if nothing but
    code has changed, and with them all that follows, but for tables, which are to say so. Gives a line for each that was
    accepted. An unknown name is an error.
    """
    nodes = graph.in_order(study)
    _check(named, nodes)
    # What was accepted before, for another grid or by an earlier command, is what it was as well.
    old: dict[Node, set[str]] = {}
    lines: list[str] = []
    with graph.remembered():
        for node in nodes:
            record = records.of_any_time(node.record(study))
            now = digests.digest(study, node.name, **node.keywords)
            before = {entry["instead_of"] for entry in record.get("accepted", [])} if record else set()
            if not record or record["digest"] == now:
                old[node] = before
                continue
            planned = json.loads(json.dumps(digests.spec(study, node.name, **node.keywords), default=str))
            makers = {m.name for m in graph.reads_from(study, node)}
            changed = {k for k in record["spec"].keys() | planned if record["spec"].get(k) != planned.get(k)}
            own = changed - makers
            chosen = node.name in named or node.label in named
            followed = all(
                _digest_of(maker, record["spec"]) in {*old.get(maker, ()), _digest_of(maker, planned)}
                for maker in graph.reads_from(study, node)
            )
            # A table is made again: it says what was accepted of what it is made of.
            remade = node.name == "table" and not chosen
            if own - set(BY) or (own and not chosen) or not followed or remade or _doubtful(record):
                continue
            modules = code.modules(*node.code(study))
            edited = code.differences(record.get("code", {}), modules) if "code" in own else []
            edited += ["libraries changed"] if "libraries" in own else []
            told = {"instead_of": record["digest"], "changed": edited or sorted(changed), "on": _now()}
            old[node] = {*before, record["digest"]}
            accepted = [*record.get("accepted", []), told]
            new = {"spec": planned, "digest": now, "code": modules, "accepted": accepted}
            sealed.write(node.record(study), record | new)
            lines += [f"accepted: {node.label} ({', '.join(edited)})"] if own else []
    return lines


def told(study: Study, reader: Node) -> str:
    """A sentence on code that was accepted for what ``reader`` is made of; empty if none was."""
    accepted: dict[str, set[str]] = {}
    for node in graph.in_order(study, [reader]):
        for entry in records.of_any_time(node.record(study)).get("accepted", []):
            edited = [c for c in entry["changed"] if c.endswith((" changed", " is new", " is gone"))]
            accepted.setdefault(node.name, set()).update(edited)
    stated = [f"{name}: {_named(edited)}" for name, edited in accepted.items() if edited]
    if not stated:
        return ""
    return f"{EARLIER}, which was accepted as computing the same ({'; '.join(stated)})."


def _named(edited: set[str]) -> str:
    """Edited files by their names; where they are many, how many: their records name them."""
    return ", ".join(sorted(edited)) if len(edited) <= MOST_NAMED else f"{len(edited)} files"


def _doubtful(record: dict[str, Any]) -> bool:
    """Whether a record or what it certifies is another one than was written: nothing vouches for it, and nobody accepts it."""
    there = {p: checksum for p, checksum in record["outputs"].items() if Path(p).exists()}
    return not sealed.is_sealed(record) or any(sha256(Path(p)) != checksum for p, checksum in there.items())


def _check(named: Collection[str], nodes: list[Node]) -> None:
    there = {*plugins.names("nodes"), *(node.label for node in nodes)}
    for name in named:
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise UserError(
                f"The grid has no node '{name}' to accept.{hint} Names are those of `bgbias status`."
            )


def _digest_of(maker: Node, spec: dict[str, Any]) -> str:
    digest = spec.get(maker.name, "")
    return str(digest.get(maker.of, "") if isinstance(digest, dict) else digest)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
