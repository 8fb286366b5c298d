"""Photos that a list names one by one, with where each can be had, who made it and under which licence.

A list is a CSV with at least the columns ``name``, ``url``, ``licence`` and ``sha256``; ``pool`` tells groups apart, ``author``
may be unknown. ``data/backgrounds/sources.csv`` lists the 200 backgrounds of Kobs & Hotho (2022).
"""

import csv
import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files import fetch
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import compose, is_picture
from bgbias.files.places import source

COLUMNS = ("name", "url", "licence", "sha256")


@dataclass(frozen=True)
class Listed:
    """One photo of a list: its file name, where it is published, its licence, and the checksum of the copy that was used."""

    name: str
    url: str
    licence: str
    sha256: str


def read_list(path: Path, group: str | None = None) -> list[Listed]:
    """The photos of a list in its order, or of one of its groups; what is wrong in it is an error that names the line."""
    if not path.exists():
        raise UserError(f"The list of photos {path} is missing; see `backgrounds` in params.yaml.")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        wanted = (*COLUMNS, "pool") if group is not None else COLUMNS
        absent = [c for c in wanted if c not in (reader.fieldnames or ())]
        if absent:
            raise UserError(
                f"{path} has no column '{absent[0]}'; a list of photos needs {', '.join(wanted)}."
            )
        rows = [(reader.line_num, row) for row in reader]
    by_name: dict[str, Listed] = {}
    for line, row in rows:
        if group is not None and row["pool"] != group:
            continue
        photo = Listed(*(compose(row[c] or "") for c in COLUMNS))
        if not is_picture(photo.name) or "/" in photo.name:
            raise UserError(f"{path}, line {line}: '{photo.name}' is not the file name of a picture.")
        if photo.name in by_name:
            raise UserError(f"{path}, line {line}: '{photo.name}' is listed twice.")
        by_name[photo.name] = photo
    if not by_name:
        groups = ", ".join(sorted({row["pool"] for _, row in rows})) if group is not None else "none"
        raise UserError(f"{path} lists no photo{f' of pool {group!r}; it has: {groups}' if group else ''}.")
    return list(by_name.values())


def gather(
    photos: Iterable[Listed], copies: Iterable[str], work: Path
) -> Iterator[tuple[Listed, bytes, bool]]:
    """Each photo with its bytes, and whether they are the listed copy's, byte for byte.

    A copy in one of the zips or folders ``copies`` is taken where its checksum is the listed one; else the photo is fetched into
    ``work``, where an interrupted run finds it again. What cannot be had is an error that lists it all and says what to do.
    """
    missing: dict[str, str] = {}
    wanted = list(photos)
    here = _copies({p.name: p.sha256 for p in wanted}, copies)
    for photo in progress.track(wanted, len(wanted), "photos of the list"):
        data = here.get(photo.name)
        if data is None:
            kept = work / photo.name
            try:
                if not kept.exists():
                    fetch.fetch((Source(place=photo.url),), kept, photo.name)
            except UserError as error:
                missing[photo.name] = str(error)
                continue
            data = kept.read_bytes()
        yield photo, data, hashlib.sha256(data).hexdigest() == photo.sha256
    if missing:
        name, why = next(iter(missing.items()))
        raise UserError(
            f"{len(missing)} of {len(wanted)} listed photos cannot be had; the others are kept. The first, '{name}':\n{why}\n"
            "Get them by other means, and name the zip or folder that holds them under `copies` of the pool in params.yaml."
        )


def _copies(wanted: dict[str, str], places: Iterable[str]) -> dict[str, bytes]:
    """Photos that lie in local zips or folders with the right checksum; places that are not here are passed over."""
    by_name: dict[str, bytes] = {}
    for place in places:
        origin = source(place)
        if not (origin.is_dir() or zipfile.is_zipfile(origin)):
            continue
        for member, data in members(origin, lambda member: PurePosixPath(member).name in wanted):
            name = PurePosixPath(member).name
            if hashlib.sha256(data).hexdigest() == wanted[name]:
                by_name[name] = data
    return by_name
