"""Records decide what has to run; Snakemake is told by which of them are there.

Snakemake remembers what it ran, not what lies on the disk now: after ``git checkout``, ``dvc checkout`` or ``dvc pull`` the
two differ. Records travel with the files. So every input of a rule is ``ancient`` (no time matters), and before a run ``settle``
compares each record with the plan and with the files that it certifies. A record that does not match is renamed aside
(``run.json`` to ``run.json.stale``), and so are those of all steps that read from it: their jobs miss an output, and run. When
the plan comes back before that, the record is renamed back; when all of a run has ended well, what was set aside goes.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bgbias.engine import graph, records
from bgbias.engine.node import TOGETHER, Node, step
from bgbias.files import checksums, code, json_checksum
from bgbias.files.atomic import replacing
from bgbias.files.checksums import forget
from bgbias.study.params import Study

DIGEST = re.compile("[0-9a-f]{16}")
MOST_SETTINGS = 3  # changed settings that a reason names
ARCHIVES = ("fetch", "weights")
CODE = {"code", "libraries"}  # of a step's spec: what `snakemake --touch` accepts


@dataclass(frozen=True)
class Finding:
    """A step and how its products stand to the plan.

    ``state``: ``current``; ``missing`` (never made, or not brought along); ``stale`` (of another plan, or changed since: ``why``
    names the setting or file); ``behind`` (reads from one that is stale).
    """

    node: Node
    state: str
    why: str = ""

    def __str__(self) -> str:
        texts = {"missing": "is missing", "behind": "was made from what is out of date"}
        return f"{self.node.label} {texts.get(self.state) or f'is {self.state} ({self.why})'}"


def examine(study: Study, deep: bool = False) -> list[Finding]:
    """Every step of the study's grid, each after those it reads from; nothing is changed.

    A product is read again where its inode changed after its record was written: it was edited, or a checkout, a cache or a copy
    put it there. With ``deep``, all are, and so are all files that digests know by content.
    """
    if deep:
        forget(study.files.at("known_files"))
    with graph.share_lookups():
        return list(_examine(study, deep))


def _examine(study: Study, deep: bool) -> Iterator[Finding]:
    outdated: set[Node] = set()
    certified: dict[Node, dict[str, Any]] = {}
    for node in graph.in_order(study):
        path, upstream = node.record(study), graph.reads_from(study, node)
        is_aside = not path.exists()
        if is_aside and not json_checksum.aside(path).exists():
            yield Finding(node, "missing")
            continue
        certified[node] = record = json_checksum.read_any(path)
        if not outdated.isdisjoint(upstream):
            outdated.add(node)
            yield Finding(node, "behind")
            continue
        # To rename a file changes its inode: when a record that is aside was written, nobody knows.
        doubtful = _products(record) if deep or is_aside else _changed_after(path, _products(record))
        why = _mismatch(study, node, record, doubtful)
        why = why or _explain_replaced(record, [certified[n] for n in upstream if n in certified])
        if why:
            outdated.add(node)
        yield Finding(node, "stale" if why else "current", why)


def settle(study: Study, deep: bool = False) -> list[Finding]:
    """Set aside the grid's records that do not match the plan, with their followers', and put back those that match again."""
    findings = examine(study, deep)
    for finding in findings:
        path = finding.node.record(study)
        # Somebody else may be doing the same for this plan.
        with suppress(FileNotFoundError):
            if finding.state == "current" and path.exists():
                json_checksum.aside(path).unlink()  # a checkout brought another one
            elif finding.state == "current":
                json_checksum.aside(path).rename(path)
                records.clear(study, finding.node)
            elif finding.state in ("stale", "behind") and path.exists():
                _set_aside(study, finding.node)
    return findings


def remove_replaced(study: Study) -> None:
    """Remove the records that were set aside of steps that have been made since. Until a run is over they stay: what Snakemake
    takes away of a job that fails, or that it does not see end, is then out of date, and not just missing.
    """
    for node in graph.in_order(study):
        if node.record(study).exists():
            json_checksum.aside(node.record(study)).unlink(missing_ok=True)


def out_of_date(findings: Collection[Finding]) -> str:
    """A line for each step that is stale, with the reason, and how many read from them; empty if none is."""
    states = [finding.state for finding in findings]
    lines = [f"out of date: {f.node.label} ({f.why})" for f in findings if f.state == "stale"]
    more = [f"and {states.count('behind')} that read from them"] if "behind" in states else []
    return "\n".join(lines + more)


def current(findings: Iterable[Finding]) -> set[Node]:
    """The steps that need not run."""
    return {finding.node for finding in findings if finding.state == "current"}


def accept(study: Study) -> list[str]:
    """Take what earlier code made for what the code of now would make: `snakemake --touch`. What settings or inputs made, or who
    has changed a product since, is not accepted. A line for each step that was.
    """
    accepted: dict[Node, dict[str, Any]] = {}
    lines = []
    with graph.share_lookups():
        for node in graph.in_order(study):
            path = node.record(study)
            record = json_checksum.read_any(path)
            upstream = [n for n in graph.reads_from(study, node) if json_checksum.read_any(n.record(study))]
            if not json_checksum.is_sealed(record) or not accepted.keys() >= set(upstream):
                continue
            spec = json.loads(json.dumps(graph.spec(study, node.name, **node.keywords), default=str))
            makers = {n.name for n in graph.reads_from(study, node)}
            changed = {k for k in record["spec"].keys() | spec.keys() if record["spec"].get(k) != spec.get(k)}
            if changed - makers - CODE or _find_edited(study, record, _products(record)):
                continue
            if _explain_replaced(record, [accepted[n] for n in upstream]):
                continue
            accepted[node] = record
            digest = graph.digest(study, node.name, **node.keywords)
            if record["digest"] != digest:
                note = {"instead_of": record["digest"], "on": datetime.now(UTC).isoformat(timespec="seconds")}
                new = {"spec": spec, "digest": digest, "code": code.modules(*graph.modules(study, node))}
                json_checksum.write(path, record | new | {"accepted": [*record.get("accepted", []), note]})
                json_checksum.aside(path).unlink(missing_ok=True)
                lines.append(f"accepted: {node.label}")
    return lines


def lacking(findings: Iterable[Finding]) -> Finding | None:
    """The first that is absent or not current of what tables and figures need, but for archives."""
    return next((f for f in findings if f.state != "current" and f.node.name not in ARCHIVES), None)


def to_run(study: Study) -> Iterator[Node]:
    """The steps that have to run for the grid's goals, each before those that it reads from."""
    done = current(examine(study))
    needed = set(graph.goals(study))
    for node in reversed(graph.in_order(study)):
        if node in needed and node not in done:
            needed.update(graph.reads_from(study, node))
            yield node


def differences(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Where two nested mappings differ, in words: ``train.max_epochs: 10 -> 12``."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from differences(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now and DIGEST.fullmatch(str(now or before)):
        yield f"{key.removeprefix('code.')} changed" if key.startswith("code.") else f"{key} has changed"
    elif before != now:
        yield f"{key}: {before} -> {now}"


def _set_aside(study: Study, node: Node) -> None:
    path = node.record(study)
    keep = getattr(node.module, "keep", None)
    if keep:  # what Snakemake deletes before the step runs
        keep(study, json_checksum.read_any(path), **node.keywords)
    for name in TOGETHER if node.name in TOGETHER else (node.name,):
        same_job = step(name, **node.keywords)
        for file in [*same_job.outputs(study).values(), same_job.record(study)]:
            # DVC's cache protects its files, and Snakemake refuses a job with outputs that are protected.
            if file.exists() and not file.stat().st_mode & stat.S_IWUSR:
                with replacing(file) as temporary:
                    shutil.copyfile(file, temporary)
    # As a file of now, which Snakemake sees as an input that is newer than the products.
    with replacing(json_checksum.aside(path)) as temporary:
        temporary.write_bytes(path.read_bytes())
    path.unlink()


def _products(record: dict[str, Any]) -> list[Path]:
    return [p for p in map(Path, record.get("outputs", {})) if p.exists()]


def _changed_after(record: Path, products: Iterable[Path]) -> list[Path]:
    """Products whose inode changed after their record was written, which is last. Modification times say nothing: caches keep
    them, a checkout sets them.
    """
    written = record.lstat().st_ctime_ns
    return [p for p in products if max(p.lstat().st_ctime_ns, p.stat().st_ctime_ns) >= written]


def _find_edited(study: Study, record: dict[str, Any], products: Collection[Path]) -> str:
    """The first of some products that is not the one that a record certifies; empty if all are. Each is read once."""
    files = {os.fsencode(p.absolute()): p.stat() for p in products}
    sha256 = checksums.sha256_of(files, study.files.at("known_files"))
    return next(
        (str(p) for p in products if sha256[os.fsencode(p.absolute())] != record["outputs"][str(p)]), ""
    )


def _mismatch(study: Study, node: Node, record: dict[str, Any], doubtful: list[Path]) -> str:
    """Why a record does not belong to the plan or to its products; empty if it does."""
    if not record:
        return "its record is damaged"
    if not json_checksum.is_sealed(record):
        return "its record has no checksum of itself"
    if record["digest"] != graph.digest(study, node.name, **node.keywords):
        return ", ".join(_reasons(study, node, record))
    lost = [p for p in record["outputs"] if not Path(p).exists()]
    if lost:
        return f"{lost[0]} is missing"
    edited = _find_edited(study, record, doubtful)
    return f"{edited} has changed" if edited else ""


def _reasons(study: Study, node: Node, record: dict[str, Any]) -> list[str]:
    """The settings and files of code by which a record differs from the plan, the first of them by name."""
    planned = json.loads(json.dumps(graph.spec(study, node.name, **node.keywords), default=str))
    before = record["spec"] | {"code": record.get("code")}
    reasons = list(differences(before, planned | {"code": code.modules(*graph.modules(study, node))}))
    more = [f"and {len(reasons) - MOST_SETTINGS} more"] if len(reasons) > MOST_SETTINGS else []
    return reasons[:MOST_SETTINGS] + more or ["its digest changed"]


def _explain_replaced(record: dict[str, Any], upstream: list[dict[str, Any]]) -> str:
    """Why a product was not made from what lies there now, though settings and files are right; empty if it was."""
    now = {path: sha256 for other in upstream for path, sha256 in other.get("outputs", {}).items()}
    others = [p for p, sha256 in record["inputs"].items() if now.get(p, sha256) != sha256]
    return f"{others[0]} is another one than it was made from" if others else ""
