"""Pools of background photos: three disjoint ones, for training, for validation and for the test alone.

A list may name their photos one by one, with where each can be had, who made it and under which licence: a CSV with at least the
columns ``name``, ``url``, ``licence`` and ``sha256``; ``pool`` tells groups apart, ``author`` may be unknown.
``data/backgrounds/sources.csv`` lists the 200 backgrounds of Kobs & Hotho (2022).
"""

import csv
import hashlib
import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bgbias import progress, seeds
from bgbias.backgrounds.settings import PoolSource, Proposal
from bgbias.errors import UserError
from bgbias.files import fetch, places
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import compose, is_picture, read_list_file
from bgbias.files.store import ImageStore
from bgbias.images import pixels

ROLES = ("train", "val", "test")
COLUMNS = ("name", "url", "licence", "sha256")  # of a list


def photos(source: PoolSource, role: str, gathered: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """(name, encoded picture) of a pool in pool order: sorted names, cut to ``part`` where it is given.

    A source is a zip or tar, a folder, a text file with one path a line, a CSV whose photos lie in the store ``gathered``, or
    pictures that are drawn. A source that is missing or empty is an error.
    """
    if source.drawn is not None:
        from bgbias.backgrounds import generated

        for name, picture in generated.pictures(*source.drawn, role, source.size):
            yield f"{name}.png", pixels.encode_png(picture)
        return
    assert source.source is not None  # PoolSource is either drawn or has a source
    if source.listed:
        assert gathered is not None  # made by the node `gather`
        store = ImageStore(gathered)
        pictures = [(row.name, store.read(row.name)) for row in read_list(source)]
    else:
        pictures = list(files(source.source))
    pictures = sorted(pictures, key=lambda pair: pair[0])[slice(*(source.part or (None,)))]
    if not pictures:
        raise UserError(
            f"The background source {source.source} gives no pictures for the {role} pool; see `backgrounds` in params.yaml."
        )
    yield from pictures


def expected_count(source: PoolSource) -> int | None:
    """How many photos a pool will have, as far as params.yaml and its lists tell; None if only the source itself knows."""
    if source.drawn is not None:
        return source.drawn[1]
    if not source.listed or not places.source(str(source.source)).exists():
        return None
    return len(read_list(source)[slice(*(source.part or (None,)))])


def share_out(names: list[str], proposal: Proposal) -> dict[str, list[str]]:
    """Proposed photos by pool, in sorted order, shuffled by the proposal's seed; too few for three pools are an error."""
    order = sorted(names)
    seeds.generator("background pools", proposal.seed).shuffle(order)
    train, val, _ = proposal.shares
    # At least one photo each, as long as there are three.
    first = max(1, round(len(order) * train))
    cuts = [first, max(first + 1, min(round(len(order) * (train + val)), len(order) - 1))]
    pools = dict(zip(ROLES, (order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :]), strict=True))
    if empty := [role for role, pool in pools.items() if not pool]:
        raise UserError(
            f"{proposal.source} has {len(order)} photos without an obvious foreground, too few for three pools ({empty[0]} stays"
            " empty). Add photos, or name some under `keep` of the proposal in params.yaml."
        )
    return {role: sorted(pool) for role, pool in pools.items()}


def files(source: str) -> Iterator[tuple[str, bytes]]:
    """(name, encoded picture) of a folder, of a zip or tar, or of a text file that lists one path a line."""
    origin = places.source(source)
    if not origin.exists():
        raise UserError(
            f"The background source {origin} is missing. Put it there, set BGBIAS_SHARED_DATA to the folder that has it, or name"
            " another zip, folder or list under `backgrounds` in params.yaml."
        )
    if origin.suffix in (".txt", ".lst") and origin.is_file():
        paths = read_list_file(origin).values()
        if missing := [p for p in paths if not p.exists()]:
            raise UserError(f"{origin} lists {missing[0]}, which is missing.")
        yield from ((compose(p.name), p.read_bytes()) for p in paths)
    else:
        yield from ((PurePosixPath(name).name, data) for name, data in members(origin, is_picture))


def unique(source: str) -> dict[str, bytes]:
    """The photos of a source by name; two of one name are an error, for one of them would never be looked at."""
    pictures: dict[str, bytes] = {}
    for name, data in files(source):
        if name in pictures:
            raise UserError(f"{source} holds two photos called '{name}'; rename one of them.")
        pictures[name] = data
    return pictures


@dataclass(frozen=True)
class PoolPhoto:
    """One photo of a list: its file name, where it is published, its licence, and the checksum of the copy that was used."""

    name: str
    url: str
    licence: str
    sha256: str


def read_list(source: PoolSource) -> list[PoolPhoto]:
    """The photos of a list in its order, or of one of its groups; what is wrong in it is an error that names the line."""
    path, group = places.source(str(source.source)), source.group
    if not path.exists():
        raise UserError(f"The list of photos {path} is missing; see `backgrounds` in params.yaml.")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns = (*COLUMNS, "pool") if group is not None else COLUMNS
        if missing := [c for c in columns if c not in (reader.fieldnames or ())]:
            raise UserError(
                f"{path} has no column '{missing[0]}'; a list of photos needs {', '.join(columns)}."
            )
        rows = [(reader.line_num, row) for row in reader]
    by_name: dict[str, PoolPhoto] = {}
    for line, row in rows:
        if group is not None and row["pool"] != group:
            continue
        photo = PoolPhoto(*(compose(row[c] or "") for c in COLUMNS))
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
    photos: Collection[PoolPhoto], copies: Iterable[str], work: Path
) -> Iterator[tuple[PoolPhoto, bytes, bool]]:
    """Each photo with its bytes, and whether they are the listed copy's, byte for byte.

    A copy in one of the zips or folders ``copies`` is taken where its checksum is the listed one; else the photo is fetched into
    ``work``, where an interrupted run finds it again. What cannot be had is an error that lists it all and says what to do.
    """
    missing: dict[str, str] = {}
    data_of = _read_copies({p.name: p.sha256 for p in photos}, copies)
    for photo in progress.track(photos, len(photos), "photos of the list"):
        data = data_of.get(photo.name)
        if data is None:
            path = work / photo.name
            try:
                if not path.exists():
                    fetch.fetch((Source(place=photo.url),), path, photo.name)
            except UserError as error:
                missing[photo.name] = str(error)
                continue
            data = path.read_bytes()
        yield photo, data, hashlib.sha256(data).hexdigest() == photo.sha256
    if missing:
        name, why = next(iter(missing.items()))
        raise UserError(
            f"{len(missing)} of {len(photos)} listed photos cannot be had; the others are kept. The first, '{name}':\n{why}\n"
            "Get them by other means, and name the zip or folder that holds them under `copies` of the pool in params.yaml."
        )


def _read_copies(checksums: dict[str, str], origins: Iterable[str]) -> dict[str, bytes]:
    """Photos that lie in local zips or folders with the right checksum; places that are not here are passed over."""
    by_name: dict[str, bytes] = {}
    for text in origins:
        origin = places.source(text)
        if not (origin.is_dir() or zipfile.is_zipfile(origin)):
            continue
        for member, data in members(origin, lambda member: PurePosixPath(member).name in checksums):
            name = PurePosixPath(member).name
            if hashlib.sha256(data).hexdigest() == checksums[name]:
                by_name[name] = data
    return by_name
