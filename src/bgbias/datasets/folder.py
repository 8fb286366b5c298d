"""Anybody's photos: a folder, or a zip or tar of one, with one folder of pictures for each class.

Classes are split into train, val and test by a seeded shuffle, or in sorted order by numbers of classes. Masks, where somebody
drew them, lie in a folder of their own, with the photos' relative names and the ending ``.png``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import Field, model_validator

from bgbias.datasets._class_splits import ClassSplit, assign
from bgbias.datasets._official import names_in
from bgbias.errors import UserError
from bgbias.files.archives import Lookup, members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture, stem, why_not
from bgbias.images.drawn_masks import white
from bgbias.photos import by_name
from bgbias.photos.table import Item

# Where folders lie in folders.
LEVELS = (
    "Set datasets.{name}.options.class_level in params.yaml: {{levels}}. If the first ones are splits, use a table (kind: table)"
    " with the column split."
)


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
    return "masks" if params.masks else None


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The pictures with their path as id and their folder as class; labels follow the sorted names of the folders.

    Pictures outside any folder, folders in folders without a ``class_level``, too few classes for three splits, and a mask that
    belongs to no photo, or to two, are errors; so are masks of which there is none.
    """
    names = names_in(parts["photos"], is_picture)
    class_of = by_name.classes(names, params.class_level, name, LEVELS.format(name=name))
    classes = sorted(set(class_of.values()))
    label_of = {c: number for number, c in enumerate(classes)}
    split_of = assign(classes, params, name)
    masks = Lookup(parts["masks"], is_picture) if "masks" in parts else None
    if masks and not masks.names:
        raise UserError(
            f"{name}: {masks.path} holds no pictures; masks are called like their photo, with the ending .png. To see what is"
            f" there, run: python -m bgbias doctor {parts['photos']} --masks {masks.path}"
        )
    mask_of = by_name.masks(masks.names, names, name, f"datasets.{name}.options.masks") if masks else {}
    for member, data in members(parts["photos"], is_picture):
        own = class_of[member]
        split = split_of[own]
        mask = mask_of.get(stem(member))
        truth = white(masks.read(mask), mask) if masks and mask else None
        yield Item(member, own, label_of[own], split, f"{name}|{split}", member, data, truth)


def left_out(place: Path) -> dict[str, str]:
    """What lies in an archive, of photos or of masks, and is no picture, with the reason."""
    others: dict[str, str] = {}
    no_pictures = names_in(place, lambda member: not is_picture(member), others)
    return others | {member: why_not(member) for member in no_pictures}
