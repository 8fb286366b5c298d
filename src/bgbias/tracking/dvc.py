"""Under which of DVC's hashes the files that a node read are kept, according to ``dvc.lock``.

A hash is told only where DVC's version holds the very record that certifies the file's content: ``dvc.lock`` may be of
another day than the files beside it.
"""

from __future__ import annotations

import configparser
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import yaml

from bgbias.tracking.entries import Stamp, stamp


def tags(root: Path, inputs: Mapping[str, str], makers: Mapping[tuple[str, str], Path]) -> dict[str, str]:
    """The tag ``dvc``: JSON of each output of a DVC stage that holds inputs, with its MD5; nothing where there is none.

    ``root`` is the project's folder; ``inputs`` has the SHA-256 of each file; ``makers`` the record that certifies a file with
    that content.
    """
    root, held = root.resolve(), {}
    try:
        outs = _outs(root / "dvc.lock", stamp(root / "dvc.lock"))
    except (OSError, AttributeError, yaml.YAMLError):
        return {}  # being written, or not there: the tag comes with the next look
    for item in inputs.items():
        with suppress(KeyError, OSError, ValueError):  # not in DVC, not pulled, or being written
            out, record = _holder(root / item[0], outs), makers[item].resolve()
            if _kept(root, record, outs) == _md5(record, stamp(record)):
                held[out.relative_to(root).as_posix()] = outs[out]
    return {"dvc": json.dumps(held, sort_keys=True)} if held else {}


@lru_cache(1)
def _outs(lock: Path, _: Stamp) -> dict[Path, str]:
    """The MD5 of each output that ``dvc.lock`` names."""
    stages = (yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages") or {}
    outs = [out for stage in stages.values() for out in stage.get("outs") or ()]
    return {lock.parent / out["path"]: out["md5"] for out in outs if "md5" in out}


def _holder(path: Path, outs: Mapping[Path, str]) -> Path:
    """The output that a file is, or is in; the file itself if there is none."""
    return next((out for out in (path, *path.parents) if out in outs), path)


def _kept(root: Path, path: Path, outs: Mapping[Path, str]) -> str:
    """The MD5 under which DVC keeps a file."""
    out = _holder(path, outs)
    if not outs[out].endswith(".dir"):
        return outs[out]
    read = configparser.RawConfigParser()
    read.read([root / ".dvc" / "config", root / ".dvc" / "config.local"])
    # A folder is named from the file that names it.
    cached = (root / ".dvc" / read.get("cache", "dir", fallback="cache")).resolve()
    return _manifest(cached / "files" / "md5", outs[out])[path.relative_to(out).as_posix()]


@cache
def _md5(path: Path, _: Stamp) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


@cache
def _manifest(cached: Path, name: str) -> dict[str, str]:
    listed = json.loads((cached / name[:2] / name[2:]).read_text(encoding="utf-8"))
    return {item["relpath"]: item["md5"] for item in listed}
