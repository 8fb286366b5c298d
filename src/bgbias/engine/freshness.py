"""Records decide what is up to date, and Snakemake is told in its own terms: by the age of records.

Snakemake remembers what it ran, not what lies on the disk now: after ``git checkout``, ``dvc checkout`` or
``dvc pull`` the two differ, and it would keep wrong files or make right ones again. The records travel with
the files. So, before each run:

* a record that belongs to another plan (other settings, other inputs) is made to look older than an input that
  every rule has, the folder ``changed_plan``: its node runs again. Nothing is deleted, and if the plan comes
  back before that, it becomes young again;
* records that are right, but look older than those of the nodes they read from, are put in order.

Products are never touched: with ``cache.type`` hardlink or symlink they are files of DVC's cache, which other
products and other people share. (The rules take products for ancient and go by the records, see ``common.smk``.)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bgbias.engine import digests, graph, records
from bgbias.engine.node import Node
from bgbias.errors import for_this_study
from bgbias.files import checksums, code, sealed
from bgbias.files.atomic import replacing
from bgbias.files.fingerprint import forget
from bgbias.study.params import Study

# Nanoseconds since 1970: nothing else is as old. (Snakemake takes 0 for no time at all.)
STALE = 1_000_000_000
BEHIND = 1_500_000_000  # and was made from something that was out of date itself
MARKER = 2_000_000_000
STEP = 1_000_000  # between one record and the next, where they had to be put in order
DIGEST = re.compile("[0-9a-f]{16}")
MOST_SETTINGS, MOST_NODES = 3, 20  # changed settings told of one node, nodes told as stale
STATES = ("current", "stale", "behind", "missing")
MOST_GONE = 5  # nodes told as missing
ARCHIVES = ("fetch", "weights")
# Targets of the workflow by what they make; of other nodes, their record.
MAKES = {
    **dict.fromkeys(("index", "backgrounds"), "data"),
    "masks": "all_masks",
    **dict.fromkeys(("textures", "pretrain", "train"), "models"),
    **dict.fromkeys(
        ("score", "attribute", "segment", "cross", "cure", "attack", "sanity", "probe"), "scores"
    ),
}


@dataclass(frozen=True)
class Finding:
    """A node and how its products stand to the plan.

    ``state``: ``current``; ``missing`` (never made, or not brought along); ``stale`` (of another plan, or changed since: ``why``
    says which setting or file); ``behind`` (reads from one that is stale). ``compared``: whether files had to be read to tell.
    """

    node: Node
    state: str
    why: str = ""
    compared: bool = False

    def __str__(self) -> str:
        says = {"missing": "is missing", "behind": "was made from what is out of date"}
        return f"{self.node.label} {says.get(self.state) or f'is {self.state} ({self.why})'}"


@dataclass
class Report:
    """Nodes out of date, with reasons; how many read from them; how many were put in order; those that are current."""

    stale: dict[str, str] = field(default_factory=dict)
    followers: int = 0
    ordered: int = 0
    current: frozenset[Node] = frozenset()

    def __str__(self) -> str:
        lines = [f"out of date: {label} ({why})" for label, why in self.stale.items()]
        return "\n".join(lines + ([f"and {self.followers} that read from them"] if self.followers else []))


def examine(study: Study, deep: bool = False) -> list[Finding]:
    """Every node of the study's grid, each after those it reads from; nothing is changed.

    A product is read again where its inode changed after its record was written: it was edited, or a checkout, a cache or a copy
    put it there, whatever modification time it bears. With ``deep``, all are, and all files outside that digests know by content.
    """
    if deep:
        forget(study.files.at("known_files"))
    with graph.remembered():
        return list(_examined(study, deep))


def _examined(study: Study, deep: bool) -> Iterator[Finding]:
    old: set[Node] = set()
    missing: set[Node] = set()
    certified: dict[Node, dict[str, Any]] = {}
    for node in graph.in_order(study):
        path, upstream = node.record(study), graph.reads_from(study, node)
        if not path.exists():
            missing.add(node)
            yield Finding(node, "missing")
            continue
        certified[node] = record = records.of_any_time(path)
        # What was out of date, and is made from something that a killed run has deleted to make it anew, is so still.
        if not old.isdisjoint(upstream) or (_time(path) == BEHIND and not missing.isdisjoint(upstream)):
            old.add(node)
            yield Finding(node, "behind")
            continue
        doubtful = _doubtful(path, deep)
        read = [certified[n] for n in upstream if n in certified]
        why = _mismatch(study, node, record, doubtful) or _replaced(record, read)
        if why:
            old.add(node)
        yield Finding(node, "stale" if why else "current", why, bool(doubtful))


def settle(study: Study, deep: bool = False) -> Report:
    """Make the ages of records say what is up to date in the study's grid."""
    _marker(study)
    findings = examine(study, deep)
    current = [f for f in findings if f.state == "current"]
    report = Report(current=frozenset(f.node for f in current))
    for finding in findings:
        if finding.state in ("stale", "behind"):
            report.followers += finding.state == "behind"
            report.stale |= {finding.node.label: finding.why} if finding.why else {}
            _make_old(study, finding.node, BEHIND if finding.state == "behind" else STALE)
    if any(_looks_old(study, f.node) for f in current):
        report.ordered = len(current)
        for place, finding in enumerate(current, 1):
            path, time = finding.node.record(study), MARKER + place * STEP
            # Some archives give files no time at all.
            for early in [p for p in _products(path) if _time(p) < time]:
                _date(early, time)
            _date(path, time)
    else:
        # What was read is not read again: the record is now the younger one.
        for finding in current:
            if finding.compared:
                path = finding.node.record(study)
                _date(path, path.stat().st_mtime_ns)
    return report


def told(study: Study, deep: bool = False) -> str:
    """A line for each kind of node, then the reason of everything that is stale, then the next command."""
    findings = examine(study, deep)
    counts = Counter((f.node.name, f.state) for f in findings)
    names = list(dict.fromkeys(f.node.name for f in findings))
    lines = [f"grid {study.grid}", f"  {'':<12}" + "".join(f"{state:>9}" for state in STATES)]
    lines += [
        f"  {name:<12}" + "".join(f"{counts[name, state] or '-':>9}" for state in STATES) for name in names
    ]
    stale = [f for f in findings if f.state == "stale"]
    lines += [f"stale: {f.node.label} ({f.why})" for f in stale[:MOST_NODES]]
    if len(stale) > MOST_NODES:
        lines.append(f"and {len(stale) - MOST_NODES} more")
    return for_this_study("\n".join([*lines, _next(study, findings)]))


def complete(study: Study, deep: bool = False) -> bool:
    """Whether all that the grid's tables and figures need is there and current; fetched archives may be elsewhere."""
    return lacking(study, deep) is None


def lacking(study: Study, deep: bool = False) -> Finding | None:
    """The first of what keeps a grid from being ``complete``."""
    findings = (f for f in examine(study, deep) if f.node.name not in ARCHIVES)
    return next((f for f in findings if f.state != "current"), None)


def to_run(study: Study) -> Iterator[Node]:
    """The nodes that have to run for the grid's goals, each before those that it reads from."""
    current = {found.node for found in examine(study) if found.state == "current"}
    needed = set(graph.goals(study))
    for node in reversed(graph.in_order(study)):
        if node in needed and node not in current:
            needed.update(graph.reads_from(study, node))
            yield node


def _next(study: Study, findings: list[Finding]) -> str:
    states = {f.state for f in findings}
    wanted = [f for f in findings if f.node.name in ("table", "figure")]
    if all(f.state == "current" for f in wanted) and not states & {"stale", "behind"}:
        gone = [f.node for f in findings if f.state == "missing" and f.node.name not in ARCHIVES]
        return "\n".join(["Tables and figures are current.", *(_gone(study, gone) if gone else [])])
    return f"Next: snakemake --cores all --config grid={study.grid} (with -n: what it would run)"


def _gone(study: Study, nodes: list[Node]) -> Iterator[str]:
    """What is told of products that are not there though all that was made of them is."""
    kinds = Counter(n.name for n in nodes)
    yield f"They were made from what is not here now: {', '.join(f'{k} ({number})' for k, number in kinds.items())}."
    for node in nodes[:MOST_GONE]:
        yield f"missing: {node.label} ({node.record(study).parent})"
    if len(nodes) > MOST_GONE:
        yield f"and {len(nodes) - MOST_GONE} more"
    targets = dict.fromkeys(MAKES.get(n.name) or shlex.quote(str(n.record(study))) for n in nodes)
    yield (
        "No table needs it again, so nothing makes it of itself. `dvc pull` brings what a remote keeps; to make it anew:"
        f" snakemake --cores all --config grid={study.grid} -- {' '.join(list(targets)[:MOST_GONE])}"
    )


def _looks_old(study: Study, node: Node) -> bool:
    """Whether a node's products look older to Snakemake than the marker or the records of those it reads from."""
    read = [n.record(study) for n in graph.reads_from(study, node)]
    made = [node.record(study), *_products(node.record(study))]
    return min(map(_time, made)) < max([MARKER, *(_time(p) for p in read if p.exists())])


def _make_old(study: Study, node: Node, time: int) -> None:
    path = node.record(study)
    keep = getattr(node.declared, "keep", None)
    if keep:  # what Snakemake deletes before the node runs
        keep(study, records.of_any_time(path), **node.keywords)
    for product in filter(Path.exists, node.outputs(study).values()):  # a damaged record names none
        # Snakemake refuses to replace what DVC's cache protects.
        if not product.stat().st_mode & stat.S_IWUSR:
            _own(product)
    _date(path, time)


def _marker(study: Study) -> None:
    """A folder, since Snakemake compares what is in small files, and would find them unchanged."""
    folder = study.files.at("changed_plan")
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder, ns=(MARKER, MARKER))


def _products(path: Path) -> list[Path]:
    """The files that the record at ``path`` certifies, as far as they are there."""
    return [p for p in map(Path, records.of_any_time(path).get("outputs", {})) if p.exists()]


def _doubtful(path: Path, deep: bool) -> list[Path]:
    """The products that may not be those that the record at ``path`` certifies."""
    # A record is written last; one that was made to look old, later still. Modification times of products tell nothing: caches
    # keep them, a checkout sets them.
    written = path.lstat().st_ctime_ns
    every = deep or _time(path) in (STALE, BEHIND)
    return [
        p for p in _products(path) if every or max(p.lstat().st_ctime_ns, p.stat().st_ctime_ns) >= written
    ]


def _mismatch(study: Study, node: Node, record: dict[str, Any], doubtful: list[Path]) -> str:
    """Why a record does not belong to the plan or to its products; empty if it does."""
    if not record:
        return "its record is damaged"
    if not sealed.is_sealed(record):
        return "its record has no checksum of itself"
    if record["digest"] != digests.digest(study, node.name, **node.keywords):
        planned = json.loads(json.dumps(digests.spec(study, node.name, **node.keywords), default=str))
        why: list[str] = []
        for difference in differences(record["spec"], planned):
            is_code = difference.startswith("code")
            why += (
                code.differences(record.get("code", {}), code.modules(*node.code(study)))
                if is_code
                else [difference]
            )
        more = [f"and {len(why) - MOST_SETTINGS} more"] if len(why) > MOST_SETTINGS else []
        return ", ".join(why[:MOST_SETTINGS] + more)
    lost = [p for p in record["outputs"] if not Path(p).exists()]
    if lost:
        return f"{lost[0]} is missing"
    changed = [p for p in doubtful if checksums.sha256(p) != record["outputs"][str(p)]]
    return f"{changed[0]} has changed" if changed else ""


def _replaced(record: dict[str, Any], upstream: list[dict[str, Any]]) -> str:
    """Why a product was not made from what lies there now, though settings and files are right; empty if it was."""
    now = {path: sha256 for other in upstream for path, sha256 in other["outputs"].items()}
    others = [p for p, sha256 in record["inputs"].items() if now.get(p, sha256) != sha256]
    return f"{others[0]} is another one than it was made from" if others else ""


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Where two nested mappings differ, in words: ``train.max_epochs: 10 -> 12``."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield f"{key} has changed" if DIGEST.fullmatch(str(now)) else f"{key}: {before} -> {now}"


def _date(path: Path, nanoseconds: int) -> None:
    """Give a record a modification time; one that a cache holds too becomes a copy of its own first."""
    if path.is_symlink() or path.stat().st_nlink > 1:
        _own(path)
    os.utime(path, ns=(nanoseconds, nanoseconds))


def _own(path: Path) -> None:
    with replacing(path) as temporary:
        shutil.copyfile(path, temporary)


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns
