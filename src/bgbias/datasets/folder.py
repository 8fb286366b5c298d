"""Anybody's photos: a folder, or a zip or tar of one, with one folder of pictures for each class.

Classes are split into train, val and test by a seeded shuffle, or in sorted order by numbers of classes. Masks, where somebody
drew them, lie in a folder of their own, with the photos' relative names and the ending ``.png``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import Field, model_validator

from bgbias.datasets._class_splits import ClassSplit, assign
from bgbias.errors import UserError
from bgbias.files.archives import Lookup, members
from bgbias.files.fetch import Source, is_picture
from bgbias.images.drawn_masks import white
from bgbias.photos.table import Item


class Params(ClassSplit):
    """Where the photos and their masks are, and which classes train."""

    source: str = Field(description="folder, zip, tar or URL")
    sha256: str | None = None
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

    Pictures outside any folder, too few classes for three splits, and a mask that belongs to no photo are errors.
    """
    names = [member for member, _ in members(parts["photos"], is_picture)]
    loose = [n for n in names if len(PurePosixPath(n).parts) < 2]
    if loose:
        raise UserError(
            f"{name}: '{loose[0]}' lies in no folder; put each class's pictures into a folder of its own."
        )
    classes = sorted({_class(n) for n in names})
    label_of = {c: number for number, c in enumerate(classes)}
    split_of = assign(classes, params, name)
    masks = Lookup(parts["masks"], is_picture) if "masks" in parts else None
    mask_of = _mask_names(masks, names, name) if masks else {}
    for member, data in members(parts["photos"], is_picture):
        own = _class(member)
        split = split_of[own]
        mask = mask_of.get(_stem(member))
        truth = white(masks.read(mask), mask) if masks and mask else None
        yield Item(member, own, label_of[own], split, f"{name}|{split}", member, data, truth)


def _mask_names(masks: Lookup, photos: list[str], name: str) -> dict[str, str]:
    """The masks by the stem they share with their photo. A mask is taken for no photo's if the names do not fit: an error,
    for the photo would silently go without.
    """
    stems = {_stem(n) for n in photos}
    homeless = [n for n in masks.names if _stem(n) not in stems]
    if homeless:
        raise UserError(
            f"{name}: the mask '{homeless[0]}' fits no photo ({len(homeless)} in all); masks are called like their photo, with"
            f" the ending .png, in the same folders below datasets.{name}.options.masks."
        )
    return {_stem(n): n for n in masks.names}


def _stem(member: str) -> str:
    return PurePosixPath(member).with_suffix("").as_posix()


def _class(member: str) -> str:
    return PurePosixPath(member).parent.as_posix()
