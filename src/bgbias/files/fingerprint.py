"""What lies at a local place outside the project's own folders, as a digest sees it: so that an added photo is noticed."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from bgbias.files import places

# Pictures that hardly ever keep their size when they are edited: reading them all would take minutes.
COMPRESSED = (".jpg", ".jpeg", ".png", ".webp")
END = 2**20


@cache
def fingerprint(place: str) -> str:
    """A fingerprint of what lies at a local place, so that an added photo or an edited table is noticed; empty for a URL.

    Names and sizes of all files, and the content of those whose edits may leave the size as it is. A list of paths stands for
    its files too.
    """
    if "://" in place or not place:
        return ""
    root = places.source(place)
    files = sorted(p for p in (root, *root.rglob("*")) if p.is_file())
    if root.is_file() and root.suffix in (".txt", ".lst"):
        listed = [root.parent / line.strip() for line in root.read_text("utf-8").splitlines() if line.strip()]
        files += [p for p in listed if p.is_file()]
    names = [p.relative_to(root).as_posix() if root in p.parents else p.name for p in files]
    text = "\n".join(f"{n} {p.stat().st_size}{_content(p)}" for n, p in zip(names, files, strict=True))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(path: Path) -> str:
    """The content's fingerprint; of a large file that of its ends, where archives keep their checksums."""
    size = path.stat().st_size
    if path.suffix.lower() in COMPRESSED:
        return ""
    with path.open("rb") as file:
        start = file.read(END)
        if size > 2 * END:
            file.seek(-END, 2)
        return " " + hashlib.sha256(start + file.read()).hexdigest()[:16]


def known_by(path: Path) -> str:
    """A file by its content: 16 hex digits of its SHA-256; empty for one that is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def elsewhere(place: str | None) -> bool:
    """Whether a place is a local one that is not here, as in a clone whose data came from a remote."""
    return bool(place) and "://" not in str(place) and not places.source(str(place)).exists()


def recorded(record: Path) -> dict[str, Any]:
    """What a finished node had read: what is not here cannot have changed. Empty where there is no such record."""
    return _spec(record, record.stat().st_mtime_ns) if record.exists() else {}


@cache
def _spec(record: Path, mtime: int) -> dict[str, Any]:
    try:
        return dict(json.loads(record.read_text(encoding="utf-8")).get("spec", {}))
    except (OSError, ValueError):  # damaged: made again
        return {}
