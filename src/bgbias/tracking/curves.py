"""What grows while a node works: its training curve, and the samples of its vitals. Points in time, read from CSV."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# MLflow's own names where they mean the same; its pages show them apart, over time.
SYSTEM = {
    "cpu_percent": "system/cpu_utilization_percentage",
    "memory_mb": "system/process_memory_megabytes",
    "gpu_percent": "system/gpu_0_utilization_percentage",
    "gpu_memory_mb": "system/gpu_0_memory_usage_megabytes",
}


@dataclass(frozen=True)
class Point:
    """A row of a CSV: its number, values by name, when that was (milliseconds since 1970), and the row itself."""

    number: int
    values: dict[str, float]
    time: int
    text: str


def epochs(
    history: Path | None, started: int, seconds: Mapping[str, Sequence[float]] | None = None
) -> tuple[Point, ...]:
    """The epochs of a history so far, without a last line that is still being written.

    ``seconds``: columns that the record has of a finished one, as the unfinished one has them at its end.
    """
    points: list[Point] = []
    elapsed = 0.0
    for row, (text, values) in enumerate(_rows(_text(history))):
        if "epoch" in values:
            if seconds and not seconds.keys() & values.keys():
                spent = {k: v[row] for k, v in seconds.items() if row < len(v)}
                values, text = values | spent, ",".join([text, *map(str, spent.values())])
            elapsed += sum(v for k, v in values.items() if k.endswith("seconds"))
            named = {f"epoch/{k}": v for k, v in values.items() if k != "epoch"}
            points.append(Point(int(values["epoch"]), named, started + round(1000 * elapsed), text))
    return tuple(points)


def samples(vitals: str | Path | None, started: int) -> tuple[Point, ...]:
    """The samples of a process's vitals, from a CSV's text or, while it works, its file."""
    text = vitals if isinstance(vitals, str) else _text(vitals)
    points = []
    for number, (row, values) in enumerate(_rows(text), 1):
        if "elapsed_seconds" in values:
            time = started + round(1000 * values["elapsed_seconds"])
            points.append(Point(number, {SYSTEM[k]: v for k, v in values.items() if k in SYSTEM}, time, row))
    return tuple(points)


def mark(points: Iterable[Point]) -> str:
    """A fingerprint of points, to tell a curve that has grown from one that began anew."""
    return hashlib.sha256("\n".join(point.text for point in points).encode()).hexdigest()[:16]


def _text(path: Path | None) -> str:
    try:
        return path.read_text(encoding="utf-8") if path else ""
    except OSError:
        # Training moves its history to its final place when it ends; vitals move into the record.
        return ""


def _rows(text: str) -> Iterable[tuple[str, dict[str, float]]]:
    lines = text.split("\n")[:-1]
    header, rows = (lines[0].split(","), lines[1:]) if lines else ([], [])
    for row in rows:
        fields = row.split(",")
        if len(fields) == len(header):
            yield (
                row,
                {k: v for k, field in zip(header, fields, strict=True) if (v := _number(field)) is not None},
            )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
