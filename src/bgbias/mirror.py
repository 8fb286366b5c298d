"""Records and histories as a reader of MLflow sees them: one entry a node.

Files in, values out; MLflow itself is not here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

# What a person opens from a run's page. Models, embeddings and stores are named by checksum, never copied.
PICTURES = frozenset({".png", ".svg", ".pdf", ".md", ".tex", ".html"})
# The nodes whose CSV files are read by people; those of the others have a row a photo.
REPORT = frozenset({"collect", "table", "figure"})
PICTURE_BYTES = 5_000_000
# MLflow's limits on the length of a value, and the characters it takes in a name.
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
FORBIDDEN = re.compile(r"[^\w\-. /:]")
RECORD = re.compile(r"[^.].*\.json")
DIGEST = re.compile(r"[0-9a-f]{16,}")
STATUS = {"running": "RUNNING", "done": "FINISHED", "failed": "FAILED"}
CELL = ("dataset", "backbone", "loss", "method", "seed")

log = logging.getLogger("bgbias.tracking")
Stamp = tuple[int, int] | None


@dataclass(frozen=True)
class Entry:
    """What MLflow is to show of one node; equal entries show the same. Times are milliseconds since 1970."""

    key: str
    digest: str
    name: str
    status: str
    started: int
    finished: int | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    datasets: dict[str, str]
    pictures: tuple[Path, ...]
    history: Path | None
    process: int | None
    """Of a running node on this machine."""
    history_stamp: Stamp = None
    fingerprint: str = ""
    """Of all this but the history's growth."""


@dataclass(frozen=True)
class Epoch:
    """A row of a history: metrics by name, and when the epoch ended (milliseconds since 1970)."""

    number: int
    values: dict[str, float]
    ended: int
    text: str


class Records:
    """The entries below some folders; a record is read again only when its file has changed."""

    def __init__(self, folders: Iterable[Path], grid: str) -> None:
        self.folders = tuple(folders)
        self.grid = grid
        self.unreadable: dict[Path, Stamp] = {}
        self._read: dict[Path, tuple[Stamp, Entry | None]] = {}

    def entries(self) -> dict[str, Entry]:
        """Every node's latest entry by key, oldest first; a damaged record is skipped with a warning."""
        latest: dict[str, Entry] = {}
        for path in self._paths():
            entry = self._entry(path)
            if entry and (entry.key not in latest or _order(entry) > _order(latest[entry.key])):
                latest[entry.key] = entry
        return dict(sorted(latest.items(), key=lambda item: (item[1].started, item[0])))

    def _paths(self) -> Iterator[Path]:
        # What is hidden is unfinished: temporary siblings of records being written, parts of a store.
        for folder in self.folders:
            for where, below, names in os.walk(folder):
                below[:] = sorted(name for name in below if not name.startswith("."))
                yield from (Path(where, name) for name in sorted(names) if RECORD.fullmatch(name))

    def _entry(self, path: Path) -> Entry | None:
        now = stamp(path)
        if path not in self._read or self._read[path][0] != now:
            try:
                self._read[path] = (now, self._parsed(path))
                self.unreadable.pop(path, None)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._read[path] = (now, None)
                # None: the file vanished between listing and reading, as running records do.
                if now is not None:
                    self.unreadable[path] = now
                    log.warning("not a whole record, so not shown in MLflow: %s (%r)", path, error)
        entry = self._read[path][1]
        if entry and entry.history:
            entry = replace(entry, history_stamp=stamp(entry.history))
        if entry and entry.process and not _alive(entry.process):
            # It died without a word (killed, power lost); its last epoch is its last sign of life.
            seen = entry.history_stamp or now or (0, 0)
            entry = replace(entry, status="KILLED", finished=seen[0] // 1_000_000)
        return entry

    def _parsed(self, path: Path) -> Entry | None:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not {"node", "status"} <= record.keys():
            return None
        if record.get("grid") not in (None, "", self.grid):
            return None
        return entry_of(record)


def entry_of(record: dict[str, Any]) -> Entry:
    """A record as an entry; ``KeyError`` or ``ValueError`` if it lacks what every record has."""
    node, subject, digest = record["node"], record.get("subject") or "", record["digest"]
    cell = record.get("cell") or {}
    flat = _flat({k: v for k, v in record["spec"].items() if k not in ("node", "version", "cell")})
    upstream = {k: v for k, v in flat.items() if DIGEST.fullmatch(v)}
    place = {"node": node} | {k: str(cell[k]) for k in CELL if k in cell}
    params = place | {k: v for k, v in flat.items() if k not in upstream and k not in place}
    made, inputs = record.get("outputs") or {}, record.get("inputs") or {}
    tags = {
        "grid": record.get("grid"),
        "subject": subject,
        "version": record.get("version"),
        "git_commit": record.get("git_commit"),
        "mlflow.source.git.commit": record.get("git_commit"),
        "mlflow.source.name": f"bgbias {node}",
        "mlflow.source.type": "LOCAL",
        "mlflow.note.content": _note(record),
        "device": record.get("device"),
        "host": record.get("host"),
        "error": record.get("error"),
        "upstream": _json(upstream),
        "inputs": _json(inputs),
        "outputs": _json(made),
        "packages": _json(record.get("packages") or {}),
        "notes": _json(record.get("notes") or {}),
        **place,
    }
    measured = {**(record.get("metrics") or {}), **{k: record.get(k) for k in ("seconds", "peak_memory_mb")}}
    finished, status = record.get("finished"), STATUS[record["status"]]
    here = status == "RUNNING" and record.get("host") == platform.node()
    described = Entry(
        key=f"{record.get('grid') or 'shared'}/{node}/{subject}",
        digest=digest,
        name=_name(node, subject, cell),
        status=status,
        started=_milliseconds(record["started"]),
        finished=_milliseconds(finished) if finished else None,
        params={_word(k): v for k, v in params.items()},
        tags={_word(k): str(v)[:TAG_LENGTH] for k, v in tags.items() if v not in (None, "")},
        metrics={_word(k): float(v) for k, v in measured.items() if isinstance(v, int | float)},
        # Photos, masks and backgrounds; the files of the cell itself stand in the tag `inputs`.
        datasets={k: str(v) for k, v in inputs.items() if cell and subject not in k},
        pictures=tuple(path for path in map(Path, made) if _is_picture(path, node)),
        history=Path(record["history"]) if record.get("history") else None,
        process=record.get("pid") if here else None,
    )
    text = json.dumps(asdict(described), sort_keys=True, default=str)
    return replace(described, fingerprint=_fingerprint(text))


def epochs(entry: Entry) -> tuple[Epoch, ...]:
    """The rows of an entry's history so far, without a last line that is still being written."""
    try:
        text = entry.history.read_text(encoding="utf-8") if entry.history else ""
    except OSError:
        # Training moves its history to its final place when it ends.
        return ()
    lines = text.split("\n")[:-1]
    header, rows = (lines[0].split(","), lines[1:]) if lines else ([], [])
    made: list[Epoch] = []
    elapsed = 0.0
    for line in rows:
        fields = line.split(",")
        values = {k: v for k, text in zip(header, fields, strict=False) if (v := _number(text)) is not None}
        if len(fields) != len(header) or "epoch" not in values:
            continue
        elapsed += sum(v for k, v in values.items() if k.endswith("seconds"))
        number = int(values.pop("epoch"))
        made.append(Epoch(number, values, entry.started + round(1000 * elapsed), line))
    return tuple(made)


def shown(number: int) -> bool:
    """Whether an epoch is a point of the curve: all of the first 100, then 25 a doubling; 181 of 1,000.

    It depends on the number alone, so that a curve mirrored as it grows and one rebuilt later are the same.
    """
    return number < 100 or number % (4 << ((number // 100).bit_length() - 1)) == 0


def mark(rows: Iterable[Epoch]) -> str:
    """A fingerprint of rows, to tell a history that has grown from one that began anew."""
    return _fingerprint("\n".join(row.text for row in rows))


def stamp(path: Path) -> Stamp:
    """Modification time (ns) and size of a file, which change as it is written; ``None`` if it is absent."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _order(entry: Entry) -> tuple[int, bool]:
    # A node's running record and its final one bear the same start: the final one says more.
    return entry.started, entry.status != "RUNNING"


def _name(node: str, subject: str, cell: dict[str, Any]) -> str:
    if not cell:
        return f"{node} {subject.replace('/', ' ')}".strip()
    # The backbone last: tables cut long names at the end, and most grids have one backbone a dataset.
    loss = "" if cell["loss"] == "none" else f"{cell['loss']} "
    return f"{node} {cell['dataset']} {loss}{cell['method']} seed{cell['seed']} ({cell['backbone']})"


def _note(record: dict[str, Any]) -> str:
    return f"Repeat with `{record['command']}`" if record.get("command") else ""


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Somebody else's process, but one that lives.
        return True
    return True


def _is_picture(path: Path, node: str) -> bool:
    if path.suffix not in PICTURES and not (path.suffix == ".csv" and node in REPORT):
        return False
    found = stamp(path)
    return found is not None and found[1] <= PICTURE_BYTES


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested options as dotted names: ``{"train": {"lr": 1}}`` is ``{"train.lr": "1"}``."""
    if isinstance(value, dict):
        inner = [_flat(v, f"{prefix}.{k}" if prefix else str(k)) for k, v in value.items()]
        return {k: v for part in inner for k, v in part.items()}
    text = value if isinstance(value, str) else json.dumps(value)
    return {prefix: text if len(text) <= PARAM_LENGTH else text[: PARAM_LENGTH - 1] + "…"}


def _json(value: dict[str, Any]) -> str:
    """A mapping as JSON; one too long for a tag as its size and checksum."""
    if not value:
        return ""
    text = json.dumps(value, sort_keys=True)
    if len(text) <= TAG_LENGTH:
        return text
    return f"{len(value)} items, sha256 {hashlib.sha256(text.encode()).hexdigest()}; the record has them"


def _word(name: str) -> str:
    return FORBIDDEN.sub("_", name)[:250]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _milliseconds(iso: str) -> int:
    return round(1000 * datetime.fromisoformat(iso).timestamp())
