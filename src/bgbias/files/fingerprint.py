"""What lies at a local place outside the project's own folders, as a digest sees it: by content, wherever it was edited."""

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from bgbias.files import checksums, pictures, places, sealed

DIGITS = 16


@cache
def fingerprint(place: str, database: Path, only: frozenset[str] | None = None) -> str:
    """A fingerprint of what lies at a local place: of the names and the content of all its files; empty for a URL.

    A list of paths stands for its files too. Of a folder, hidden files are not looked at, since nobody takes them, and ``only``
    these, if they are named. ``database`` remembers what was read (``checksums``).
    """
    if "://" in place or not place:
        return ""
    root = places.source(place)
    top = _absolute(root)
    found = dict(checksums.walk(top)) if root.is_dir() else {top: root.stat()} if root.is_file() else {}
    names = {path: path.removeprefix(top).lstrip(b"/") or os.fsencode(root.name) for path in found}
    if root.is_dir():
        found = {path: stat for path, stat in found.items() if not pictures.hidden(os.fsdecode(names[path]))}
    elif root.is_file() and root.suffix in (".txt", ".lst"):
        for line, listed in pictures.listed(root).items():
            if listed.is_file():
                found[_absolute(listed)], names[_absolute(listed)] = listed.stat(), os.fsencode(line)
    if only is not None:
        found = {
            path: stat for path, stat in found.items() if pictures.compose(os.fsdecode(names[path])) in only
        }
    sha256 = checksums.sha256_of(found, database)
    text = b"\n".join(sorted(b"%s %s" % (names[path], sha256[path].encode()) for path in found))
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def known_by(path: Path, database: Path) -> str:
    """A file by its content: 16 hex digits of its SHA-256; empty for one that is not there."""
    if not path.is_file():
        return ""
    return checksums.sha256_of({_absolute(path): path.stat()}, database)[_absolute(path)][:DIGITS]


def forget(database: Path) -> None:
    """Have all that digests know by content read again, whatever its size and times say."""
    checksums.forget(database)
    fingerprint.cache_clear()


def elsewhere(place: str | None) -> bool:
    """Whether a place is a local one that is not here, as in a clone whose data came from a remote."""
    return bool(place) and "://" not in str(place) and not places.source(str(place)).exists()


def recorded(record: Path) -> dict[str, Any]:
    """What a finished node had read: what is not here cannot have changed. Empty where there is no such record."""
    return dict(sealed.of_any_time(record).get("spec", {}))


def _absolute(path: Path) -> bytes:
    return os.fsencode(path.absolute())
