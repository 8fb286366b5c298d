"""Where an audit works and what it leaves there: its own folder for one process at a time, and nobody else's files.

What is unfinished lies inside, under the digest of the question: another question never meets the pixels or embeddings of this
one, and does not delete them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.atomic import write_text
from bgbias.files.locks import Taken, locked
from bgbias.progress import say

UNFINISHED = ".unfinished"
VERDICT = "audit.json"
WRITTEN = ("audit.html", "verdict.txt", "classes.csv", "photos.parquet", "worst.jpg", "random.jpg")
NOISE = "noise.npy"
SAME_MODEL = 1e-3  # of the largest number: embeddings of one model differ by less from machine to machine
EXPORTS = "exports"


def check(folder: Path, photos: object) -> None:
    """Refuse a folder for an audit's files, before anything is done: one inside the photos' own, which would be taken for photos
    the next time; one with somebody else's files of the same names; and one that cannot be written to.
    """
    source = Path(photos) if isinstance(photos, (str, Path)) else None
    if source is not None and source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{folder} lies inside the photos; name a folder outside of {source} by --out.")
    foreign = [name for name in WRITTEN if (folder / name).exists()]
    if foreign and not (folder / VERDICT).is_file():
        raise UserError(
            f"{folder / foreign[0]} is of no audit and would be replaced; name another folder by --out."
        )
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UserError(f"{folder} cannot be written to; name another folder by --out.")


@contextmanager
def working(folder: Path, digest: str, noise: np.ndarray) -> Iterator[Path]:
    """The folder of what is unfinished of this question, which goes when the block ends well; a second process that wants to work
    in ``folder`` is a UserError that names the first. ``noise``: what the model makes of pictures of noise: another model of the
    same name has a folder of its own.
    """
    with _alone(folder):
        root = folder / UNFINISHED
        number = 0
        while (work := root / f"{digest}-{number}").is_dir() and not _same(work / NOISE, noise):
            number += 1
        others = [other.name for other in root.glob("*") if other != work]
        if others:
            say(
                f"{root} also holds {len(others)} unfinished audits of other questions; delete what you do not want"
            )
        work.mkdir(parents=True, exist_ok=True)
        np.save(work / NOISE, noise)
        yield work
        shutil.rmtree(work)
        if not any(root.iterdir()):
            root.rmdir()


def _same(path: Path, noise: np.ndarray) -> bool:
    try:
        before = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return True  # killed before it was written: nothing is there
    return before.shape == noise.shape and float(np.abs(before - noise).max()) <= SAME_MODEL * float(
        np.abs(noise).max()
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / ".lock", seconds=0):
            yield
    except Taken as taken:
        raise UserError(
            f"Process {taken.holder} is writing an audit to {folder}; wait for it, or name another folder by --out."
        ) from None


def begin_export(folder: Path, digest: str) -> None:
    """Refuse a folder that holds the pictures of another question."""
    told = folder / "question.json"
    if told.is_file() and json.loads(told.read_text(encoding="utf-8")).get("digest") != digest:
        raise UserError(
            f"{folder} holds the pictures of another question; name another folder by --export, or delete it."
        )
    if not told.is_file() and any(path.is_dir() for path in folder.glob("*-*")):
        raise UserError(f"{folder} holds folders that are of no export; name another one by --export.")
    write_text(told, json.dumps({"digest": digest}) + "\n")


def end_export(digest: str) -> None:
    """Remember, in the person's cache, that all pictures of this question were written."""
    write_text(places.cache() / EXPORTS / digest, "")


def check_exported(digest: str) -> None:
    """Refuse embeddings of pictures that nobody wrote: those of other photos, masks, backgrounds or sizes."""
    if not (places.cache() / EXPORTS / digest).exists():
        raise UserError(
            "No pictures were exported for this question on this computer, so that these embeddings are of another one. Give the"
            " options of the --export that wrote the pictures, or export again."
        )
