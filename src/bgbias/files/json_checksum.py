"""JSON that carries a checksum of itself: not one bit of it can change unseen."""

import hashlib
import json
from pathlib import Path
from typing import Any

from bgbias.files.atomic import as_json, write_text

SEAL, SEALED = "record_sha256", "record_sealed"
BLANK = "0" * 64


def write(path: Path, value: dict[str, Any]) -> None:
    """The mapping with its seal: the SHA-256 of the file's bytes, with zeros where the seal stands."""
    # Two keys, since a damaged name must not make a sealed file look like one that never was.
    text = as_json(value | {SEAL: BLANK, SEALED: True})
    write_text(path, text.replace(_spell(BLANK), _spell(hashlib.sha256(text.encode()).hexdigest())))


def read(path: Path) -> Any:
    """What a file holds, sealed or not (``is_sealed``); ``ValueError`` if it is no JSON, or not what was sealed."""
    data = path.read_bytes()
    value = json.loads(data)
    if isinstance(value, dict) and value.keys() & {SEAL, SEALED}:
        seal = str(value.get(SEAL))
        blank = data.replace(_spell(seal).encode(), _spell(BLANK).encode())
        if value.get(SEALED) is not True or hashlib.sha256(blank).hexdigest() != seal:
            raise ValueError("damaged: it is not what was written, by its own checksum")
    return value


def read_any(record: Path) -> dict[str, Any]:
    """A record, or the one that was set aside; empty if there is none, or a damaged one, which fits no plan."""
    try:
        return dict(read(record if record.exists() else aside(record)))
    except (OSError, ValueError, TypeError):
        return {}


def aside(record: Path) -> Path:
    """Where a record lies while it does not match the plan (``engine/freshness.py``)."""
    return record.with_name(f"{record.name}.stale")


def is_sealed(value: dict[str, Any]) -> bool:
    """Whether what was read vouches for itself."""
    return SEAL in value


def _spell(seal: str) -> str:
    return f'"{SEAL}": "{seal}"'
