"""CUB-200-2011: 11,788 photos of 200 bird species (Wah et al. 2011), in its official archive layout.

Splits are by class, as in METHODS section 1: 0-74 train, 75-99 validation, 100-199 test. A study may restrict itself to the
first classes and split those otherwise; a photo's key in the manifest of corrupted sets stays that of the full dataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath

from pydantic import Field, model_validator

from bgbias.archives import members
from bgbias.errors import UserError
from bgbias.fetching import Source
from bgbias.image_table import Item
from bgbias.strict import Strict

KEY = "cub200"
OFFICIAL = Source(
    place="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
    md5="97eceeb196236b17998738112f37df78",
)
OFFICIAL_SPLIT = {"train": (0, 75), "val": (75, 100), "test": (100, 200)}
PHOTOS, CLASSES = 11_788, 200
LISTS = ("images.txt", "image_class_labels.txt")


class Params(Strict):
    """Where the archive is, and which part of it to use."""

    source: str | None = Field(
        None, description="a file or URL of the official archive; the official host if null"
    )
    sha256: str | None = None
    classes: int = Field(CLASSES, ge=3, le=CLASSES, description="only the first so many classes")
    split: dict[str, tuple[int, int]] = Field(
        OFFICIAL_SPLIT, description="class numbers [from, to) of train, val and test, 0-based"
    )

    @model_validator(mode="after")
    def _disjoint(self) -> Params:
        if set(self.split) != set(OFFICIAL_SPLIT):
            raise ValueError("split needs exactly train, val and test")
        ranges = sorted(self.split.values())
        if any(not 0 <= a < b for a, b in ranges):
            raise ValueError("each split is [from, to) with 0 <= from < to")
        if any(a[1] > b[0] for a, b in pairwise(ranges)) or ranges[-1][1] > self.classes:
            raise ValueError(f"splits must not share classes and must end at class {self.classes}")
        return self


def sources(params: Params) -> tuple[Source, ...]:
    """The user's file if one is named, else the official archive."""
    return (Source(place=params.source, sha256=params.sha256),) if params.source else (OFFICIAL,)


def items(params: Params, archive: Path, name: str) -> Iterator[Item]:
    """The photos of the chosen classes in the archive's order; image ids are the paths of ``images.txt``.

    An archive without the official lists, with other counts than the dataset has (where all classes are asked for), or without
    a photo that its list names, is an error.
    """
    listed = {PurePosixPath(n).name: text.decode() for n, text in members(archive, lambda n: _is_list(n))}
    absent = [n for n in LISTS if n not in listed]
    if absent:
        raise UserError(f"{archive} has no {absent[0]}: it is not in the official layout of CUB-200-2011.")
    label = _labels(listed, archive)
    found = len(set(label.values()))
    if params.classes == CLASSES and (len(label), found) != (PHOTOS, CLASSES):
        raise UserError(f"{archive} lists {len(label)} photos of {found} classes, not {PHOTOS} of {CLASSES}.")
    absent_classes = sorted(set(range(params.classes)) - set(label.values()))
    if absent_classes:
        raise UserError(
            f"{archive} lists no photo of class {absent_classes[0] + 1}, and {params.classes} classes were asked for;"
            f" set datasets.{name}.options.classes in params.yaml to what the archive holds."
        )
    places = _official_places(label)
    wanted = {path for path, number in label.items() if number < params.classes}
    for member, data in members(archive, lambda n: _path(n) in wanted):
        path = _path(member)
        wanted.remove(path)
        official, place = places[path]
        yield Item(
            image_id=path,
            class_name=path.split("/")[0].split(".", 1)[-1],
            label=label[path],
            split=next((s for s, (a, b) in params.split.items() if a <= label[path] < b), "unused"),
            key_set=f"{KEY}|{official}",
            key_item=str(place),
            data=data,
        )
    if wanted:
        raise UserError(
            f"{archive} lacks {len(wanted)} of the photos it lists, e.g. '{sorted(wanted)[0]}'; fetch it again."
        )


def _labels(listed: dict[str, str], archive: Path) -> dict[str, int]:
    """The class, counted from 0, of each path of ``images.txt``, in its order."""
    try:
        number_of = dict(
            line.split() for line in listed["image_class_labels.txt"].splitlines() if line.strip()
        )
        rows = [line.split() for line in listed["images.txt"].splitlines() if line.strip()]
        return {path: int(number_of[number]) - 1 for number, path in rows}
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{archive}: images.txt and image_class_labels.txt do not fit together ({error})."
        ) from error


def _official_places(label: dict[str, int]) -> dict[str, tuple[str, int]]:
    """Each photo's official split and its position in the order of ``images.txt`` within that split."""
    counts: dict[str, int] = defaultdict(int)
    places = {}
    for path, number in label.items():
        official = next(s for s, (a, b) in OFFICIAL_SPLIT.items() if a <= number < b)
        places[path] = (official, counts[official])
        counts[official] += 1
    return places


def _is_list(member: str) -> bool:
    return PurePosixPath(member).name in LISTS and "/images/" not in member


def _path(member: str) -> str:
    """``images/`` and what stands before it taken away: the name that ``images.txt`` uses."""
    return member.split("/images/", 1)[-1]
