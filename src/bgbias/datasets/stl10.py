"""STL-10: 13,000 labelled photos of ten classes and 100,000 without labels, of 96 x 96 pixels (Coates, Lee and Ng, AISTATS 2011),
in its official archive.

Its test photos are of the classes of its training photos. Photos without labels are a dataset of their own, which only trains:
a pretraining names it (docs/methods.md, section 6).
"""

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from bgbias.datasets._official import ArchiveParams, last_of_each_class, lists_in, read_official
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.archives import readable
from bgbias.files.fetch import Source
from bgbias.images import pixels
from bgbias.photos.table import Item

TITLE = "STL-10"
KEY = "stl10"
(OFFICIAL,) = read_official("stl10").values()
CLASSES, SIDE = 10, 96
PHOTO = 3 * SIDE * SIDE  # bytes: red, green, blue, each column by column
COUNTS = {"train": 5_000, "test": 8_000, "unlabeled": 100_000}
NAMES, UNLABELLED = "class_names.txt", "unlabelled"
# Which of the archive's photos there are. What has no labels has no test, either.
TAKEN = {"labelled": ("train", "test"), "unlabelled": ("unlabeled",), "all": ("train", "unlabeled")}
PHOTO_BYTES = 19_000  # about: as PNG


class Params(ArchiveParams):
    """Where the archive is, and which of its photos to take."""

    photos: Literal["labelled", "unlabelled", "all"] = Field(
        "labelled",
        description="labelled ones, to train and to test; unlabelled ones, or these and the labelled training photos (`all`),"
        " which all train, as one class: for pretrainings",
    )
    val_per_class: int = Field(0, ge=0, description="last photos of each class that validate")

    @model_validator(mode="after")
    def _is_an_archive_with_labels(self) -> Self:
        if self.source and "://" not in self.source and places.source(self.source).is_dir():
            raise ValueError(
                "source is a folder, and the archive is read as it is: name it, or pack the folder (tar -czf stl10_binary.tar.gz)"
            )
        if self.val_per_class and self.photos != "labelled":
            raise ValueError("val_per_class is for labelled photos: set photos to labelled, or leave it out")
        return self


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {"photos": params.archive(OFFICIAL)}


def expected(params: Params) -> dict[str, int]:
    if params.photos != "labelled":
        return {"train": sum(COUNTS[role] for role in TAKEN[params.photos]), "val": 0, "test": 0}
    val = CLASSES * params.val_per_class
    return {"train": COUNTS["train"] - val, "val": val, "test": COUNTS["test"]}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos as PNG, in the order of their files; ids are the file's role and the place in it: ``train/00000.png``.

    An archive without one of the official files, and files of another length than the dataset's, are errors.
    """
    archive, taken = parts["photos"], TAKEN[params.photos]
    labelled = params.photos == "labelled"
    names, labels, validating = [UNLABELLED], {}, set[int]()
    if labelled:
        lists = lists_in(archive, [NAMES, *(f"{role}_y.bin" for role in taken)], TITLE)
        names = lists[NAMES].decode().split()
        labels = {role: _labels(lists[f"{role}_y.bin"], role, archive) for role in taken}
        if len(names) != CLASSES:
            raise UserError(f"{archive}: {NAMES} names {len(names)} classes, not {CLASSES}; fetch it again.")
        validating = last_of_each_class(dict(enumerate(labels["train"])), params.val_per_class, name)
    for role, number, data in _photos(archive, taken):
        label = labels[role][number] if labelled else 0
        validates = role == "train" and number in validating
        yield Item(
            image_id=f"{role}/{number:05d}.png",
            class_name=names[label],
            label=label,
            split="test" if role == "test" else "val" if validates else "train",
            key_set=f"{KEY}|{role}",
            key_item=str(number),
            data=pixels.encode_png(upright(data)),
        )


def _photos(archive: Path, roles: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
    """Role, place and bytes of one photo after the other: 2.8 GB in one file are too many for a memory."""
    role_of = {f"{role}_X.bin": role for role in roles}
    with readable(archive), tarfile.open(archive) as tar:
        for member in tar:
            file = PurePosixPath(member.name).name
            if (role := role_of.get(file)) is None or (opened := tar.extractfile(member)) is None:
                continue
            if member.size != COUNTS[role] * PHOTO:
                raise UserError(
                    f"{archive}: {file} does not hold {COUNTS[role]:,} photos of {PHOTO:,} bytes; fetch it again."
                )
            del role_of[file]
            yield from ((role, number, opened.read(PHOTO)) for number in range(COUNTS[role]))
    for file, role in role_of.items():
        raise UserError(f"{archive} has 0 photos in {file}, not {COUNTS[role]:,}; fetch it again.")


def upright(data: bytes) -> np.ndarray:
    """A photo of the archive, uint8 [96, 96, 3]: there its columns stand one behind the other, colour by colour."""
    return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(3, SIDE, SIDE).transpose(2, 1, 0))


def _labels(data: bytes, role: str, archive: Path) -> list[int]:
    """Classes from 0; in the file they count from 1."""
    labels = [number - 1 for number in data]
    if len(labels) != COUNTS[role] or not set(labels) <= set(range(CLASSES)):
        raise UserError(
            f"{archive}: {role}_y.bin does not hold {COUNTS[role]:,} classes from 1 to {CLASSES}; fetch it again."
        )
    return labels
