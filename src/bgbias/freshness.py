"""Records decide what is up to date; Snakemake is told in its own terms, by files that are there and files that are not.

Snakemake remembers what it ran, not what lies on the disk now: after ``git checkout``, ``dvc checkout`` or ``dvc pull`` the two
differ, and it would keep wrong files or make right ones again. The records travel with the files. So, before each run:

* a record of another plan (other settings, other inputs) is set aside, and the node it belongs to runs again. If the plan
  comes back before that, so does the record, and nothing runs;
* files that are right but look older than what they were made from are touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bgbias import lineage, plan, records
from bgbias.atomic import write_text
from bgbias.errors import UserError
from bgbias.lineage import Node
from bgbias.params import Study

MOST_TOLD = 3  # changed settings named for one node


@dataclass
class Report:
    """Nodes out of date, with the reasons; how many more read from them; how many records came back or were touched."""

    stale: dict[str, str] = field(default_factory=dict)
    followers: int = 0
    restored: int = 0
    touched: int = 0

    def __str__(self) -> str:
        lines = [f"out of date: {label} ({why})" for label, why in self.stale.items()]
        return "\n".join(lines + ([f"and {self.followers} that read from them"] if self.followers else []))


def settle(study: Study) -> Report:
    """Make records and modification times say what is up to date in the study's grid."""
    report = Report()
    stale: set[Node] = set()
    for node in lineage.in_order(study):
        path = node.record(study)
        digest = plan.digest(study, node.name, **node.keywords)
        report.restored += _restore(study, path, digest)
        if not path.exists():
            continue
        record = _read(path)
        upstream = lineage.reads_from(study, node)
        if not stale.isdisjoint(upstream):
            report.followers += 1
        elif record.get("digest") != digest:
            planned = plan.spec(study, node.name, **node.keywords)
            report.stale[node.label] = _reason(record.get("spec"), planned)
        else:
            newer = _newer_inputs(study, node, path, record)
            changed = [p for p in newer if records.sha256(p) != record["inputs"].get(str(p))]
            if not changed:
                before = [n.record(study) for n in upstream]
                report.touched += _touch(path, record, bool(newer) or _oldest(path, record) < _newest(before))
                continue
            report.stale[node.label] = f"{changed[0]} has changed"
        stale.add(node)
        write_text(_aside(study, path), path.read_text(encoding="utf-8"))
        path.unlink()
    return report


def _restore(study: Study, path: Path, digest: str) -> bool:
    """Bring a record back that fits the plan again, if its outputs are still those it certifies."""
    aside = _aside(study, path)
    if path.exists() or not aside.exists():
        return False
    record = _read(aside)
    outputs = {Path(p): sha256 for p, sha256 in record.get("outputs", {}).items()}
    if record.get("digest") != digest or not all(p.exists() and records.sha256(p) == s for p, s in outputs.items()):
        return False
    write_text(path, aside.read_text(encoding="utf-8"))
    aside.unlink()
    return True


def _touch(path: Path, record: dict[str, Any], older_than_inputs: bool) -> bool:
    if older_than_inputs:
        for output in (*map(Path, record["outputs"]), path):
            if output.exists():
                os.utime(output)
    return older_than_inputs


def _newer_inputs(study: Study, node: Node, path: Path, record: dict[str, Any]) -> list[Path]:
    """The inputs newer than the oldest output: only these can have changed since, so only these need to be hashed."""
    oldest = _oldest(path, record)
    inputs = plan.inputs(study, node.name, **node.keywords).values()
    return [p for p in inputs if _newest([p]) > oldest]


def _oldest(path: Path, record: dict[str, Any]) -> int:
    return min(p.stat().st_mtime_ns for p in (path, *map(Path, record["outputs"])) if p.exists())


def _newest(paths: list[Path]) -> int:
    return max((p.stat().st_mtime_ns for p in paths if p.exists()), default=0)


def _aside(study: Study, path: Path) -> Path:
    # Not beside the outputs: DVC would take it for one of them.
    return study.files.at("set_aside", name=str(path).strip("/").replace("/", "__"))


def _read(path: Path) -> dict[str, Any]:
    """A record; a damaged one reads as one that fits no plan."""
    try:
        return records.read(path)
    except UserError:
        return {}


def _reason(made: Any, planned: Any) -> str:
    as_recorded = json.loads(json.dumps(planned, default=str))
    return ", ".join(list(_differences(made, as_recorded))[:MOST_TOLD]) if made else "its record is damaged"


def _differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield f"{key}: {before} -> {now}"
