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

from bgbias import lineage, plan, reading, records
from bgbias.errors import UserError
from bgbias.lineage import Node
from bgbias.params import Study

# Nanoseconds since 1970: nothing else is as old. (Snakemake takes 0 for no time at all.)
STALE = 1_000_000_000
MARKER = 2_000_000_000
DIGEST = re.compile("[0-9a-f]{16}")
MOST_TOLD = 3  # changed settings named for one node


@dataclass
class Report:
    """Nodes out of date, with reasons; how many read from them; how many were touched."""

    stale: dict[str, str] = field(default_factory=dict)
    followers: int = 0
    touched: int = 0

    def __str__(self) -> str:
        lines = [f"out of date: {label} ({why})" for label, why in self.stale.items()]
        return "\n".join(lines + ([f"and {self.followers} that read from them"] if self.followers else []))


def settle(study: Study) -> Report:
    """Make modification times say what is up to date in the study's grid."""
    report = Report()
    marker = _marker(study)
    stale: set[Node] = set()
    for node in lineage.in_order(study):
        path = node.record(study)
        if not path.exists():
            continue
        record = _read(path)
        upstream = lineage.reads_from(study, node)
        outputs = [path, *map(Path, record.get("outputs", {}))]
        inputs = list(reading.inputs(study, node.name, **node.keywords).values())
        follows = not stale.isdisjoint(upstream)
        why = "" if follows else _mismatch(study, node, record, inputs)
        if follows or why:
            stale.add(node)
            report.followers += follows
            report.stale |= {} if follows else {node.label: why}
            if node.name == "masks":
                _keep_masks(study, node, record)
            _set_time(outputs, STALE)
        elif _oldest(outputs) < _newest([marker, *inputs, *(n.record(study) for n in upstream)]):
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


def _mismatch(study: Study, node: Node, record: dict[str, Any], inputs: list[Path]) -> str:
    """Why a record does not belong to the plan or to the files; empty if it does."""
    if not record:
        return "its record is damaged"
    if record["digest"] != plan.digest(study, node.name, **node.keywords):
        planned = json.loads(json.dumps(plan.spec(study, node.name, **node.keywords), default=str))
        return ", ".join(list(_differences(record["spec"], planned))[:MOST_TOLD])
    path = node.record(study)
    outputs = list(map(Path, record["outputs"]))
    # A record is written last, and after its inputs: only a younger file can have changed and needs reading.
    suspects = [(p, record["outputs"]) for p in outputs if _newest([p]) > _newest([path])]
    suspects += [(p, record["inputs"]) for p in inputs if _newest([p]) > _oldest([path, *outputs])]
    changed = [p for p, certified in suspects if records.sha256(p) != certified.get(str(p))]
    return f"{changed[0]} has changed" if changed else ""


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
