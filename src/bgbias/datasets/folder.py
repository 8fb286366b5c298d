"""Anybody's photos: a folder, or a zip or tar of one, with one folder of pictures for each class.

Classes are split into train, val and test by a seeded shuffle, or in sorted order by numbers of classes. Masks, where somebody
drew them, lie in a folder of their own, with the photos' relative names and the ending ``.png``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath

from pydantic import Field, model_validator

from bgbias.datasets._class_splits import ClassSplit, assign
from bgbias.errors import UserError
from bgbias.files.archives import Lookup, members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture, stem, unique, why_not
from bgbias.images.drawn_masks import white
from bgbias.images.pixels import upright
from bgbias.photos.table import Item
from bgbias.progress import say


class Params(ClassSplit):
    """Where the photos and their masks are, and which classes train."""

    source: str = Field(description="folder, zip, tar or URL")
    sha256: str | None = None
    class_level: int | None = Field(
        None,
        ge=1,
        description="which folder of a photo's path is its class, where folders lie in folders: 1 is the first below source",
    )
    upright: bool = Field(
        False, description="turn photos as their EXIF says; they are as they were stored if false"
    )
    masks: str | None = Field(
        None, description="folder, zip, tar or URL of masks (PNG, white is the object), named like the photos"
    )

    @model_validator(mode="after")
    def _masks_are_no_class(self) -> Params:
        if self.masks and PurePosixPath(self.source) in PurePosixPath(self.masks).parents:
            raise ValueError("masks must not lie inside source, where each folder is a class")
        return self


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The one place that was named, and that of the masks."""
    sources: dict[str, tuple[Source, ...]] = {"photos": (Source(place=params.source, sha256=params.sha256),)}
    if params.masks:
        sources["masks"] = (Source(place=params.masks),)
    return sources


def truth(params: Params) -> str | None:
    """Masks, where somebody drew them."""
    return "masks" if params.masks else None


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The pictures with their path as id and their folder as class; labels follow the sorted names of the folders.

    Pictures outside any folder, folders in folders without a ``class_level``, too few classes for three splits, and a mask that
    belongs to no photo, or to two, are errors; so are masks of which there is none.
    """
    names = [member for member, _ in members(parts["photos"], is_picture)]
    class_of = _classes(names, params.class_level, name)
    classes = sorted(set(class_of.values()))
    label_of = {c: number for number, c in enumerate(classes)}
    split_of = assign(classes, params, name)
    masks = Lookup(parts["masks"], is_picture) if "masks" in parts else None
    if masks and not masks.names:
        raise UserError(
            f"{name}: {masks.path} holds no pictures; masks are called like their photo, with the ending .png. To see what is"
            f" there, run: python -m bgbias doctor {parts['photos']} --masks {masks.path}"
        )
    mask_of = _mask_names(masks, names, name) if masks else {}
    for member, data in members(parts["photos"], is_picture):
        own = class_of[member]
        split = split_of[own]
        mask = mask_of.get(stem(member))
        truth = white(masks.read(mask), mask) if masks and mask else None
        data = upright(data, member) if params.upright else data
        yield Item(member, own, label_of[own], split, f"{name}|{split}", member, data, truth)


def _mask_names(masks: Lookup, photos: list[str], name: str) -> dict[str, str]:
    """The masks by the stem they share with their photo. A mask is taken for no photo's if the names do not fit: an error,
    for the photo would silently go without.
    """
    stems = {stem(n) for n in photos}
    homeless = [n for n in masks.names if stem(n) not in stems]
    if homeless:
        raise UserError(
            f"{name}: the mask '{homeless[0]}' fits no photo ({len(homeless)} in all); masks are called like their photo, with"
            f" the ending .png, in the same folders below datasets.{name}.options.masks."
        )
    mask_of = unique(sorted(masks.names), stem, f"{name}: the masks")
    unique((n for n in photos if stem(n) in mask_of), stem, f"{name}: the photos")
    return mask_of


def left_out(place: Path) -> dict[str, str]:
    """What lies in an archive, of photos or of masks, and is no picture, with the reason."""
    others: dict[str, str] = {}

    def wanted(member: str) -> bool:
        if not is_picture(member):
            others[member] = why_not(member)
        return False

    for _ in members(place, wanted, others):
        pass
    return others


def _classes(names: list[str], level: int | None, name: str) -> dict[str, str]:
    """Each picture's class: the folders of its path down to ``level``; all of them, if no level is named and none is doubtful."""
    folders = {n: PurePosixPath(n).parent.parts for n in names}
    loose = [n for n in names if len(folders[n]) < (level or 1)]
    if loose:
        place = f"in no folder of level {level}" if level else "in no folder"
        raise UserError(
            f"{name}: '{loose[0]}' lies {place}; put each class's pictures into a folder of its own."
        )
    if level:
        class_of = {n: "/".join(folders[n][:level]) for n in names}
        above: dict[str, set[str]] = defaultdict(set)
        for c in set(class_of.values()):
            above[PurePosixPath(c).name].add(c)
        twice = sorted(sorted(cs) for cs in above.values() if len(cs) > 1)
        if twice:
            say(
                f"{name}: {len(twice)} folders' names stand for two classes or more, e.g. {' and '.join(twice[0])}"
            )
        return class_of
    # A folder around all of them, as in many archives, is no level: what follows it must be the class, and nothing below it.
    different = sorted(set(folders.values()))
    around = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*different, strict=False)))
    if len(different) > 1 and {len(f) for f in different} != {around + 1}:
        raise UserError(_nested(different, name))
    return {n: "/".join(f) for n, f in folders.items()}


def _nested(folders: list[tuple[str, ...]], name: str) -> str:
    told = []
    shown = ["/".join(folders[0]), "/".join(sorted(folders, key=lambda parts: len(parts))[-1])]
    for level in range(1, min(map(len, folders)) + 1):
        classes = sorted({"/".join(f[:level]) for f in folders})
        told.append(f"{level} ({len(classes)} classes, e.g. '{classes[0]}')")
    return (
        f"{name}: folders lie in folders, as '{shown[0]}' and '{shown[1]}', so that nobody"
        f" knows which are classes. Set datasets.{name}.options.class_level in params.yaml: {', or '.join(told)}. If the first"
        " ones are splits, use a table (kind: table) with the column split."
    )
