"""Anybody's photos: a folder, or a zip or tar of one, with one folder of pictures for each class. An archive may instead have
labels among its photos: a COCO file, or webdataset's (``photos.sources.by_labels``).

Classes are split into train, val and test by a seeded shuffle, or in sorted order by numbers of classes. Masks, where somebody
drew them, lie in a folder of their own, with the photos' relative names and the ending ``.png``.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture, why_not
from bgbias.photos import sources
from bgbias.photos.table import Item
from bgbias.settings import Strict

# Where folders lie in folders.
LEVELS = (
    "Set datasets.{name}.options.class_level in params.yaml: {{levels}}. If the first ones are splits, use a table (kind: table)"
    " with the column split."
)


class ClassSplit(Strict):
    """How many classes train and select; the rest of the classes are the test."""

    train_classes: int | None = Field(None, ge=2, description="half of the classes if null")
    val_classes: int | None = Field(None, ge=1, description="a tenth of the classes if null")
    shuffle: int | None = Field(0, ge=0, description="seed of the classes' order; null: sorted")


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
    def _masks_are_no_class(self) -> Self:
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
    """The pictures with their path as id and their folder, or label, as class; numbers follow the sorted names of the classes.

    Pictures outside any folder, folders in folders without a ``class_level``, too few classes for three splits, and a mask that
    belongs to no photo, or to two, are errors; so are masks of which there is none.
    """
    files = Lookup(parts["photos"])
    listing = None if params.class_level else sources.by_labels(files, name)
    names = [member for member in files.names if is_picture(member)]
    if listing is None:
        listing = sources.list_names(files, names, name, params.class_level, LEVELS.format(name=name))
    if masks := parts.get("masks"):
        doctor = f"python -m bgbias doctor {parts['photos']} --masks {masks}"
        listing = listing.with_masks(masks, f"datasets.{name}.options.masks", doctor)
    classes = sorted({photo.class_name for photo in listing.photos.values()})
    label_of = {c: number for number, c in enumerate(classes)}
    split_of = assign(classes, params, name)
    for photo in (listing.photos[member] for member in names if member in listing.photos):
        split, label = split_of[photo.class_name], label_of[photo.class_name]
        key = (f"{name}|{split}", photo.image_id)
        yield Item(photo.image_id, photo.class_name, label, split, *key, photo.read(), photo.truth())


def assign(
    classes: Collection[str], params: ClassSplit, name: str, together: Iterable[Collection[str]] = ()
) -> dict[str, str]:
    """The split of each class, in a seeded or in sorted order; too few classes for three splits are an error.

    Classes that stand ``together`` in a collection (they share a product, say) get the same one: such bundles are taken in the
    order of their first classes until train has its number of classes, then until val has.
    """
    bundle_of = {c: [c] for c in sorted(classes)}
    for joined in together:  # by any chain of them
        merged = sorted({c for member in joined for c in bundle_of[member]})
        bundle_of |= dict.fromkeys(merged, merged)
    bundles = list({bundle[0]: bundle for bundle in bundle_of.values()}.values())
    if params.shuffle is not None:
        seeds.generator("split", params.shuffle).shuffle(bundles)
    train = params.train_classes or max(2, len(classes) // 2)
    val = params.val_classes or max(1, len(classes) // 10)
    roles: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for bundle in bundles:
        role = next((r for r, most in (("train", train), ("val", val)) if len(roles[r]) < most), "test")
        roles[role] += bundle
    if train + val >= len(classes) or not all(roles.values()):
        raise UserError(
            f"{name} has {len(classes)} classes, too few for {train} to train, {val} to validate and at least one to test;"
            f" set datasets.{name}.options.train_classes and val_classes in params.yaml."
        )
    return {c: role for role, members in roles.items() for c in members}


def left_out(place: Path) -> dict[str, str]:
    """What lies in an archive, of photos or of masks, and is no picture, with the reason."""
    others = Lookup(place, lambda n: not (is_picture(n) or n.endswith(".cls")))
    return others.passed_over | {member: why_not(member) for member in others.names}
