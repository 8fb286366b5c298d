"""Files that are either absent or complete: written beside their place, then renamed into it."""

import errno
import glob
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling to write to, which takes the place of ``path`` if the block ends well and vanishes if not.

    A full disk is an OSError with ENOSPC that names ``path``, whatever library wrote.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.replace(path)
    except Exception as error:
        # A library tells of a full disk in words only, and a write's own error does not know the file.
        full = getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error)
        if full and getattr(error, "filename", None) in (None, str(temporary)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Delete what killed processes left beside ``path`` while they wrote it; nobody may be writing it now."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        leftover.unlink(missing_ok=True)


def link_or_copy(origin: Path, target: Path) -> None:
    """A second name for the file, behind symbolic links too; a copy where the disk has no links, or is another one."""
    try:
        os.link(origin.resolve(), target)
    except OSError:
        shutil.copyfile(origin, target)


def write_text(path: Path, text: str) -> None:
    """Text, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_frame(path: Path, frame: Any) -> None:
    """A table of pandas without its index, as Parquet or CSV by the path's ending, atomically."""
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            temporary.write_text(frame.to_csv(index=False), encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Readable JSON with sorted keys, atomically."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """The text of ``write_json``."""
    return json.dumps(value, indent=2, sort_keys=True, default=str) + "\n"
