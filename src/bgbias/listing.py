"""What lies at a local place outside the project's own folders, as a digest sees it: so that an added photo is noticed."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from bgbias import paths


@cache
def listing(place: str) -> str:
    """A fingerprint of a local folder's or file's names and sizes, so that an added photo is noticed; empty for a URL."""
    if "://" in place or not place:
        return ""
    root = paths.source(place)
    files = (
        sorted(p for p in root.rglob("*") if p.is_file())
        if root.is_dir()
        else [root]
        if root.exists()
        else []
    )
    text = "\n".join(f"{p.relative_to(root) if p != root else p.name} {p.stat().st_size}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def elsewhere(place: str | None) -> bool:
    """Whether a place is a local one that is not here, as in a clone whose data came from a remote."""
    return bool(place) and "://" not in str(place) and not paths.source(str(place)).exists()


def recorded(record: Path) -> dict[str, Any]:
    """What a finished node had read: what is not here cannot have changed. Empty where there is no such record."""
    return _spec(record, record.stat().st_mtime_ns) if record.exists() else {}


@cache
def _spec(record: Path, mtime: int) -> dict[str, Any]:
    try:
        return dict(json.loads(record.read_text(encoding="utf-8")).get("spec", {}))
    except (OSError, ValueError):  # damaged: made again
        return {}
