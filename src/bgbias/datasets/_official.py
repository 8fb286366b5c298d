"""What archives in an official layout have in common: lists that name the photos, and photos that have a place in their split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from bgbias.errors import UserError
from bgbias.files.archives import members

Photo = TypeVar("Photo")


def split_of(label: int, ranges: Mapping[str, tuple[int, int]]) -> str:
    """The split whose classes [from, to) have this number; ``unused`` if none has it."""
    return next((split for split, (first, end) in ranges.items() if first <= label < end), "unused")


def places(splits: Iterable[tuple[Photo, str]]) -> dict[Photo, tuple[str, int]]:
    """Each photo's split and its place among the photos of this split, in the order in which they come."""
    count: Counter[str] = Counter()
    placed = {}
    for photo, split in splits:
        placed[photo] = split, count[split]
        count[split] += 1
    return placed


def listed_photos(
    archive: Path, path_of: Callable[[str], str], listed: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the photos that a list names, each once, in the archive's order; ``path_of`` a member is its name in the
    list. Photos that are not there are an error.
    """
    missing = set(listed)
    for member, data in members(archive, lambda name: path_of(name) in missing):
        missing.remove(path_of(member))
        yield path_of(member), data
    if missing:
        raise UserError(
            f"{archive} lacks {len(missing)} of the photos it lists, e.g. '{min(missing)}'; fetch it again."
        )
