"""Anybody's photos: a folder, or a zip or tar of one, with one folder of pictures for each class.

Classes are split into train, val and test by a seeded shuffle, or in sorted order by numbers of classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import Field

from bgbias import seeds
from bgbias.archives import members
from bgbias.errors import UserError
from bgbias.fetching import Source, is_picture
from bgbias.image_table import Item
from bgbias.strict import Strict


class Params(Strict):
    """Where the photos are and how many classes train and select; the rest of the classes are the test."""

    source: str = Field(description="folder, zip, tar or URL")
    sha256: str | None = None
    train_classes: int | None = Field(None, ge=2, description="half of the classes if null")
    val_classes: int | None = Field(None, ge=1, description="a tenth of the classes if null")
    shuffle: int | None = Field(
        0, description="seed of the order of classes before splitting; null keeps sorted order"
    )


def sources(params: Params) -> tuple[Source, ...]:
    """The one place that was named."""
    return (Source(place=params.source, sha256=params.sha256),)


def items(params: Params, archive: Path, name: str) -> Iterator[Item]:
    """The pictures with their path as id and their folder as class; labels follow the sorted names of the folders.

    Pictures outside any folder, or too few classes for three splits, are errors.
    """
    names = [member for member, _ in members(archive, is_picture)]
    loose = [n for n in names if len(PurePosixPath(n).parts) < 2]
    if loose:
        raise UserError(
            f"{name}: '{loose[0]}' lies in no folder; put each class's pictures into a folder of its own."
        )
    classes = sorted({_class(n) for n in names})
    label_of = {c: number for number, c in enumerate(classes)}
    split_of = _split(classes, params, name)
    for member, data in members(archive, is_picture):
        own = _class(member)
        split = split_of[own]
        yield Item(member, own, label_of[own], split, f"{name}|{split}", member, data)


def _class(member: str) -> str:
    return PurePosixPath(member).parent.as_posix()


def _split(classes: list[str], params: Params, name: str) -> dict[str, str]:
    order = list(classes)
    if params.shuffle is not None:
        seeds.generator("split", params.shuffle).shuffle(order)
    train = params.train_classes or max(2, len(order) // 2)
    val = params.val_classes or max(1, len(order) // 10)
    if train + val >= len(order):
        raise UserError(
            f"{name} has {len(order)} classes, too few for {train} to train, {val} to validate and at least one to test;"
            f" set datasets.{name}.options.train_classes and val_classes in params.yaml."
        )
    roles = ["train"] * train + ["val"] * val + ["test"] * (len(order) - train - val)
    return dict(zip(order, roles, strict=True))
