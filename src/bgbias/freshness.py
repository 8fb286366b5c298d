"""Records decide what is up to date, and Snakemake is told in its own terms: by the age of files.

Snakemake remembers what it ran, not what lies on the disk now: after ``git checkout``, ``dvc checkout`` or
``dvc pull`` the two differ, and it would keep wrong files or make right ones again. The records travel with
the files. So, before each run:

* outputs whose record belongs to another plan (other settings, other inputs) are made to look older than
  an input that every rule has, the folder ``changed_plan``: their node runs again. Nothing is deleted, and
  if the plan comes back before that, they become young again;
* outputs that are right but look older than what they were made from are touched.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bgbias import digests, lineage, reading, records
from bgbias.errors import UserError
from bgbias.lineage import Node
from bgbias.params import Study

# Nanoseconds since 1970: nothing else is as old. (Snakemake takes 0 for no time at all.)
STALE = 1_000_000_000
MARKER = 2_000_000_000
DIGEST = re.compile("[0-9a-f]{16}")
MOST_TOLD = 3  # changed settings named for one node


@dataclass(frozen=True)
class Finding:
    """A node and how its products stand to the plan.

    ``state``: ``current``; ``missing`` (never made, or not brought along); ``stale`` (of another plan, or changed since: ``why``
    says which setting or file); ``behind`` (reads from one of the former two that has to be made anew).
    """

    node: Node
    state: str
    why: str = ""


@dataclass
class Report:
    """Nodes out of date, with reasons; how many read from them; how many were touched; those that are current."""

    stale: dict[str, str] = field(default_factory=dict)
    followers: int = 0
    touched: int = 0
    current: frozenset[Node] = frozenset()

    def __str__(self) -> str:
        lines = [f"out of date: {label} ({why})" for label, why in self.stale.items()]
        return "\n".join(lines + ([f"and {self.followers} that read from them"] if self.followers else []))


def examine(study: Study, thorough: bool = False) -> list[Finding]:
    """Every node of the study's grid, each after those it reads from; nothing is changed.

    A product is read again only where it is younger than its record; with ``thorough``, all are: what a remote or a cache brought
    is taken for right only if it is what the record certifies.
    """
    found: list[Finding] = []
    old: set[Node] = set()
    for node in lineage.in_order(study):
        path = node.record(study)
        if not path.exists():
            found.append(Finding(node, "missing"))
            continue
        if not old.isdisjoint(lineage.reads_from(study, node)):
            old.add(node)
            found.append(Finding(node, "behind"))
            continue
        why = _mismatch(study, node, _read(path), thorough)
        if why:
            old.add(node)
        found.append(Finding(node, "stale" if why else "current", why))
    return found


def settle(study: Study, thorough: bool = False) -> Report:
    """Make modification times say what is up to date in the study's grid."""
    marker = _marker(study)
    findings = examine(study, thorough)
    report = Report(current=frozenset(f.node for f in findings if f.state == "current"))
    for finding in findings:
        node, path = finding.node, finding.node.record(study)
        if finding.state == "missing":
            continue
        outputs = [path, *map(Path, _read(path).get("outputs", {}))]
        if finding.state != "current":
            report.followers += finding.state == "behind"
            report.stale |= {node.label: finding.why} if finding.why else {}
            if node.name == "masks":
                _keep_masks(study, node, _read(path))
            _set_time(outputs, STALE)
            continue
        made_from = [*_inputs(study, node), *(n.record(study) for n in lineage.reads_from(study, node))]
        if _oldest(outputs) < _newest([marker, *made_from]):
            report.touched += 1
            _set_time(outputs, time.time_ns())
    return report


def _keep_masks(study: Study, node: Node, record: dict[str, Any]) -> None:
    """Photos that stay in the dataset are not masked again: Snakemake deletes their masks before the node runs."""
    from bgbias import mask_cache

    mask_cache.adopt(study, **node.keywords, record=record)


def _marker(study: Study) -> Path:
    """A folder, since Snakemake compares what is in small files, and would find them unchanged."""
    folder = study.files.at("changed_plan")
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder, ns=(MARKER, MARKER))
    return folder


def _mismatch(study: Study, node: Node, record: dict[str, Any], thorough: bool) -> str:
    """Why a record does not belong to the plan or to the files; empty if it does."""
    inputs = _inputs(study, node)
    if not record:
        return "its record is damaged"
    if record["digest"] != digests.digest(study, node.name, **node.keywords):
        planned = json.loads(json.dumps(digests.spec(study, node.name, **node.keywords), default=str))
        return ", ".join(list(_differences(record["spec"], planned))[:MOST_TOLD])
    path = node.record(study)
    outputs = list(map(Path, record["outputs"]))
    # A record is written last, and after its inputs: only a younger file can have changed and needs reading.
    # One that was found stale before looks old altogether, and tells nothing by its age.
    doubtful = thorough or _newest([path]) == STALE
    suspects = [(p, record["outputs"]) for p in outputs if doubtful or _newest([p]) > _newest([path])]
    suspects += [
        (p, record["inputs"]) for p in inputs if doubtful or _newest([p]) > _oldest([path, *outputs])
    ]
    lost = [p for p in outputs if not p.exists()]
    if lost:
        return f"{lost[0]} is missing"
    changed = [p for p, certified in suspects if p.exists() and records.sha256(p) != certified.get(str(p))]
    return f"{changed[0]} has changed" if changed else ""


def _inputs(study: Study, node: Node) -> list[Path]:
    return list(reading.inputs(study, node.name, **node.keywords).values())


def _differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield f"{key} has changed" if DIGEST.fullmatch(str(now)) else f"{key}: {before} -> {now}"


def _read(path: Path) -> dict[str, Any]:
    """A record; a damaged one is empty, and fits no plan."""
    try:
        return records.read(path)
    except UserError:
        return {}


def _set_time(paths: Iterable[Path], nanoseconds: int) -> None:
    for path in paths:
        if path.exists():
            os.utime(path, ns=(nanoseconds, nanoseconds))


def _oldest(paths: Iterable[Path]) -> int:
    return min(p.stat().st_mtime_ns for p in paths if p.exists())


def _newest(paths: Iterable[Path]) -> int:
    return max((p.stat().st_mtime_ns for p in paths if p.exists()), default=0)
