"""The files that a dataset of params.yaml is made of, where each can come from, and what a digest sees of that."""

import re
from pathlib import Path
from typing import Any

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.checksums import fingerprint
from bgbias.files.fetch import Source
from bgbias.study.params import Study

PART = re.compile("[a-z_]+")


def parts_of(study: Study, dataset: str) -> dict[str, tuple[Source, ...]]:
    """The files a dataset is made of, each with the places it can come from, best first; none for one that is rendered."""
    named = study.dataset(dataset)
    parts = dict(named.fact("parts"))
    if wrong := [part for part in parts if not PART.fullmatch(part)]:
        raise UserError(
            f"{named.module.__file__} calls a file of its datasets {wrong[0]!a}; the name becomes part of paths and"
            " commands: small letters and _ only."
        )
    return parts


def sources_of(study: Study, dataset: str, part: str) -> tuple[Source, ...]:
    """The places of one of a dataset's files."""
    parts = parts_of(study, dataset)
    if not parts:
        raise UserError(f"{dataset} has nothing to fetch: `python -m bgbias index {dataset}` renders it.")
    if part not in parts:
        raise UserError(f"{dataset} has no part '{part}'; it has: {', '.join(parts)}.")
    return parts[part]


def identity(sources: tuple[Source, ...], database: Path) -> list[dict[str, Any]]:
    """What the digest sees of a file's sources: its checksum, so that a new mirror changes nothing; where none is known, the
    place, and for a local file or folder what lies there (``database`` remembers what was read).
    """
    found = []
    for source in sources:
        folder = bool(source.place) and places.source(source.place or "").is_dir()
        checksum = None if folder else source.md5 or source.sha256  # a folder has none
        seen: dict[str, Any] = {"checksum": checksum}
        if not checksum:
            seen = {"place": source.place, "file": source.file, "keep": source.keep}
            seen["listing"] = fingerprint(source.place or "", database, source.names)
        found += [seen] if seen not in found else []
    return found
