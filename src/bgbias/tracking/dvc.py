"""Under which of DVC's hashes the files that a node read are kept, according to ``dvc.lock``.

A hash is told only where DVC's version holds the very record that certifies the file's content: ``dvc.lock`` may be of
another day than the files beside it.
"""

from __future__ import annotations

import configparser
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bgbias.tracking.entries import Stamp, stamp


class Versions:
    """What ``dvc.lock`` in a project's folder says now."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._read: tuple[Stamp, dict[Path, str]] = (None, {})
        self._hashes: dict[tuple[Path, Stamp], str] = {}

    def tags(self, inputs: Mapping[str, str], makers: Mapping[tuple[str, str], Path]) -> dict[str, str]:
        """The tag ``dvc``: JSON of each output of a DVC stage that holds inputs, with its MD5; nothing where there is none.

        ``inputs`` has the SHA-256 of each file; ``makers`` the record that certifies a file with that content.
        """
        outs = self._outs()
        held: dict[str, str] = {}
        for item in inputs.items() if outs else ():
            path, record = self._root / item[0], makers.get(item)
            out = next((o for o in (path, *path.parents) if o in outs), None)
            if out and record and self._recorded(record.resolve(), outs) == self._md5(record.resolve()):
                held[out.relative_to(self._root).as_posix()] = outs[out]
        return {"dvc": json.dumps(held, sort_keys=True)} if held else {}

    def _outs(self) -> dict[Path, str]:
        import yaml

        lock = self._root / "dvc.lock"
        now = stamp(lock)
        if now != self._read[0]:
            try:
                stages = (yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages") or {}
                outs = [out for stage in stages.values() for out in stage.get("outs") or ()]
                self._read = (now, {self._root / o["path"]: o["md5"] for o in outs if "md5" in o})
            except (OSError, AttributeError, yaml.YAMLError):
                # Being written, or not there: the tag comes with the next look.
                return {}
        return self._read[1] if now else {}

    def _recorded(self, path: Path, outs: Mapping[Path, str]) -> str | None:
        """The MD5 under which DVC keeps a file."""
        out = next((o for o in (path, *path.parents) if o in outs), None)
        if out is None or not outs[out].endswith(".dir"):
            return outs[out] if out else None
        try:
            listed = _manifest(self._cache() / "files" / "md5", outs[out])
        except (OSError, ValueError):
            # Not pulled, or being written.
            return None
        return listed.get(path.relative_to(out).as_posix())

    def _md5(self, path: Path) -> str | None:
        now = stamp(path)
        if now and (path, now) not in self._hashes:
            self._hashes[path, now] = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        return self._hashes.get((path, now))

    def _cache(self) -> Path:
        read = configparser.RawConfigParser()
        read.read([self._root / ".dvc" / "config", self._root / ".dvc" / "config.local"])
        # A folder is named from the file that names it.
        return (self._root / ".dvc" / read.get("cache", "dir", fallback="cache")).resolve()


@cache
def _manifest(cache: Path, name: str) -> dict[str, str]:
    listed = json.loads((cache / name[:2] / name[2:]).read_text(encoding="utf-8"))
    return {item["relpath"]: item["md5"] for item in listed}
