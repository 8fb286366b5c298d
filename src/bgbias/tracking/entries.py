"""What MLflow is to show of a node, made of its record. Values in, values out; MLflow itself is not here."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from bgbias.tracking import looks
from bgbias.tracking.curves import Point, epochs, samples

# What a person opens from a run's page. Embeddings and stores are named by checksum, never copied.
PICTURES = frozenset({".png", ".svg", ".pdf", ".md", ".tex", ".html"})
# The nodes whose CSV files are read by people; those of the others have a row a photo.
REPORT = frozenset({"collect", "table", "figure"})
PICTURE_BYTES = 5_000_000
# MLflow's limits on the length of a value, and the characters it takes in a name.
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
FORBIDDEN = re.compile(r"[^\w\-. /:]")
DIGEST = re.compile(r"[0-9a-f]{16,}")
STATUS = {"running": "RUNNING", "done": "FINISHED", "failed": "FAILED"}
CELL_PARAMS = ("dataset", "backbone", "loss", "method", "seed")
MODEL = "model.safetensors"

Stamp = tuple[int, int] | None


@dataclass(frozen=True)
class Collection:
    """Photos, masks or backgrounds that a node read: where they lie, where they came from, how many there are."""

    name: str
    digest: str
    role: str
    source: str
    profile: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What MLflow is to show of one node; equal entries show the same. Times are milliseconds since 1970."""

    key: str
    node: str
    digest: str
    name: str
    status: str
    started: int
    finished: int | None
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    inputs: dict[str, str]
    """SHA-256 of each file that was read."""
    upstream: dict[str, str]
    """Digests of the nodes that made them."""
    pictures: tuple[Path, ...] = ()
    tables: tuple[Path, ...] = ()
    """CSV files of a model's node, which its model's run has."""
    model: tuple[Path, str] | None = None
    """Trained weights, and their SHA-256."""
    history: Path | None = None
    epoch_seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Of a finished training, columns beside those of its history."""
    vitals: str | Path | None = None
    process: int | None = None
    """Of a running node on this machine."""
    datasets: tuple[Collection, ...] = ()
    as_tables: bool = False
    """Whether its curve is called and scaled as the tables' numbers are."""
    growth: tuple[Stamp, Stamp] = (None, None)
    """Of the history's and the vitals' files."""

    @property
    def of_a_model(self) -> bool:
        """Whether the node works on one model."""
        return "method" in self.tags

    def epochs(self) -> tuple[Point, ...]:
        """The training curve so far."""
        points = epochs(self.history, self.started, self.epoch_seconds)
        if not self.as_tables:
            return points
        return tuple(replace(point, values=looks.named(point.values, looks.CURVES)) for point in points)

    def samples(self) -> tuple[Point, ...]:
        """What its process took of the machine so far."""
        return samples(self.vitals, self.started)

    def fingerprint(self) -> str:
        """Of all but what only grows."""
        fixed = asdict(self) | {"growth": None, "process": None, "vitals": None, "epoch_seconds": None}
        return hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def now(self, record: Stamp) -> Entry:
        """The entry as of this moment: how far its files have grown, whether weights are here, and its process still lives."""
        grown = (stamp(self.history), stamp(self.vitals) if isinstance(self.vitals, Path) else None)
        here = self.model if self.model and self.model[0].exists() else None
        if self.process and not psutil.pid_exists(self.process):
            # It died without a word (killed, power lost); its last epoch is its last sign of life.
            seen = grown[0] or record or (0, 0)
            return replace(self, growth=grown, status="KILLED", finished=seen[0] // 1_000_000)
        return replace(self, growth=grown, model=here)


def entry_of(record: dict[str, Any]) -> Entry:
    """A record as an entry; ``KeyError`` or ``ValueError`` if it lacks what every record has."""
    node, subject, digest = record["node"], record.get("subject") or "", record["digest"]
    cell = record.get("cell") or {}
    flat = _flat({k: v for k, v in record["spec"].items() if k not in ("node", "version", "subject")})
    upstream = {k: v for k, v in flat.items() if DIGEST.fullmatch(v)}
    place = {"node": node} | {k: str(cell[k]) for k in CELL_PARAMS if k in cell}
    params = place | {k: v for k, v in flat.items() if k not in upstream and k not in place}
    made, inputs = record.get("outputs") or {}, record.get("inputs") or {}
    tags = {
        **{k: record.get(k) for k in ("grid", "version", "git_commit", "device", "host", "error")},
        "subject": subject,
        "mlflow.source.git.commit": record.get("git_commit"),
        "mlflow.source.name": f"bgbias {node}",
        "mlflow.source.type": "LOCAL",
        "mlflow.note.content": record.get("command") and f"Repeat with `{record['command']}`",
        "upstream": _json(upstream),
        "inputs": _json(inputs),
        "outputs": _json(made),
        **{k: _json(record.get(k) or {}) for k in ("packages", "notes")},
        **place,
        **(looks.of_method(cell["method"]) if cell else {}),
    }
    measured = {**(record.get("metrics") or {}), **{k: record.get(k) for k in ("seconds", "peak_memory_mb")}}
    finished, status = record.get("finished"), STATUS[record["status"]]
    here = status == "RUNNING" and record.get("host") == platform.node()
    return Entry(
        key=f"{record.get('grid') or 'shared'}/{node}/{subject}",
        node=node,
        digest=digest,
        name=_name(node, subject, cell),
        status=status,
        started=_milliseconds(record["started"]),
        finished=_milliseconds(finished) if finished else None,
        params={_word(k): v for k, v in params.items()},
        tags={_word(k): str(v)[:TAG_LENGTH] for k, v in tags.items() if v not in (None, "")},
        metrics={_word(k): float(v) for k, v in measured.items() if isinstance(v, int | float)},
        inputs=inputs,
        upstream=upstream,
        pictures=tuple(path for path in map(Path, made) if _is_picture(path, node)),
        tables=tuple(path for path in map(Path, made) if cell and path.suffix == ".csv"),
        model=next(((Path(p), s) for p, s in made.items() if node == "train" and p.endswith(MODEL)), None),
        epoch_seconds=dict(sorted((record.get("epoch_seconds") or {}).items())),
        history=Path(record["history"]) if record.get("history") else None,
        vitals=record.get("vitals") or (Path(record["vitals_file"]) if record.get("vitals_file") else None),
        process=record.get("pid") if here else None,
    )


def collection(record: Mapping[str, Any]) -> Collection | None:
    """What a finished record certifies, if it is photos, masks or backgrounds."""
    if not record.get("collection"):
        return None
    role, source = record["collection"]
    spec = record["spec"]
    origin = (spec.get("options") or {}).get("source") or spec.get("pools")
    told = {"kind": spec.get("kind"), "origin": origin, **(record.get("metrics") or {})}
    return Collection(
        name=f"{record['subject']} {role}",
        digest=record["digest"],
        role=role,
        source=source,
        profile={k: v for k, v in told.items() if v is not None},
    )


def collections_of(
    entry: Entry, finished: Mapping[str, Entry], found: Mapping[str, Collection]
) -> tuple[tuple[Collection, ...], frozenset[str]]:
    """The collections behind a model's node, without those whose makers' records are not here (any more); and the digests of all
    that it was made of, as far as that can be followed.
    """
    if not entry.of_a_model:
        return (), frozenset()
    read: dict[str, Collection] = {}
    waiting, seen = [*entry.upstream.values()], set[str]()
    while waiting:
        digest = waiting.pop()
        if digest in seen:
            continue
        seen.add(digest)
        if digest in found:
            read[digest] = found[digest]
        elif digest in finished:
            waiting += finished[digest].upstream.values()
    behind = sorted(read.values(), key=lambda made: (made.role != "photos", made.name))
    return tuple(behind), frozenset(seen)


def stamp(path: Path | None) -> Stamp:
    """Modification time (ns) and size of a file, which change as it is written; ``None`` if it is absent."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


def _name(node: str, subject: str, cell: dict[str, Any]) -> str:
    if not cell:
        return f"{node} {subject.replace('/', ' ')}".strip()
    return f"{node} {looks.name(cell)}"


def _is_picture(path: Path, node: str) -> bool:
    if path.suffix not in PICTURES and not (path.suffix == ".csv" and node in REPORT):
        return False
    return is_small(path)


def is_small(path: Path) -> bool:
    """Whether a file is there, and small enough to be copied into a store."""
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


def _milliseconds(iso: str) -> int:
    return round(1000 * datetime.fromisoformat(iso).timestamp())
