"""What archives in an official layout have in common: lists that name the photos, and photos that have a place in their split."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import Field

from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_hidden
from bgbias.settings import Strict, read_yaml

OFFICIAL = read_yaml(Path(__file__).with_name("official.yaml"))
Photo = TypeVar("Photo")


def read_official(dataset: str) -> dict[str, Source]:
    """The official files of one of our datasets by name, as ``official.yaml`` lists them."""
    return {file: Source(file=file, **facts) for file, facts in OFFICIAL[dataset].items()}


class ArchiveParams(Strict):
    """Where the archive is."""

    source: str | None = Field(None, description="path or URL; the official archive if null")
    sha256: str | None = None

    def archive(self, *official: Source, keep: tuple[str, ...] = ()) -> tuple[Source, ...]:
        """The user's if one is named, else the official one."""
        source = Source(place=self.source, sha256=self.sha256, keep=keep)
        return (source,) if self.source else official


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


def last_of_each_class(class_of: Mapping[Photo, object], count: int, name: str) -> set[Photo]:
    """The last ``count`` photos of each class, in order, which validate; a class without as many and one more is an error."""
    photos_of: dict[object, list[Photo]] = defaultdict(list)
    for photo, one in class_of.items():
        photos_of[one].append(photo)
    if count >= min(map(len, photos_of.values())):
        raise UserError(
            f"{name}: not every class has more than {count} training photos; lower"
            f" datasets.{name}.options.val_per_class in params.yaml."
        )
    return {photo for photos in photos_of.values() for photo in photos[len(photos) - count :]}


def names_in(archive: Path, is_wanted: Callable[[str], bool]) -> list[str]:
    """The wanted members of an archive, none of which is read, nor a compressed one unpacked: it may be of many gigabytes."""
    names: list[str] = []

    def listed(name: str) -> bool:
        if is_wanted(name):
            names.append(name)
        return False

    for _ in members(archive, listed):
        pass
    return names


def lists_in(archive: Path, lists: Collection[str], dataset: str) -> dict[str, bytes]:
    """The lists of these names, in this order; one that is not there is an error."""
    texts: dict[str, bytes] = {}
    for member, data in members(archive, lambda n: PurePosixPath(n).name in lists and not is_hidden(n)):
        texts[PurePosixPath(member).name] = data
        if len(texts) == len(lists):
            break  # what follows in an archive may be gigabytes
    if absent := [name for name in lists if name not in texts]:
        raise UserError(f"{archive} has no {absent[0]}: it is not in the official layout of {dataset}.")
    return {name: texts[name] for name in lists}


def listed_photos(
    archive: Path, path_of: Callable[[str], str], listed: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the listed photos, in the archive's order; absent ones are an error."""
    missing = set(listed)
    for member, data in members(archive, lambda name: path_of(name) in missing):
        missing.remove(path_of(member))
        yield path_of(member), data
    if missing:
        raise UserError(
            f"{archive} lacks {len(missing)} of the photos it lists, e.g. '{min(missing)}'; fetch it again."
        )
