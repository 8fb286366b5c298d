"""Market-1501: 32,217 boxes of 1,501 persons by six cameras, and distractors (Zheng et al., ICCV 2015), in its official layout;
and what CUHK03 has in common with it.

Queries and gallery are given; a match by the query's own camera is no match (docs/methods.md, section 15).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from PIL import Image
from pydantic import Field

from bgbias.datasets._official import ArchiveParams, names_in, read_official
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.images import pixels
from bgbias.photos.table import Item

TITLE = "Market-1501"
KEY = "market1501"
(OFFICIAL,) = read_official("market1501").values()
TRAIN, QUERIES, GALLERY = 12_936, 3_368, 15_913
TRAINING_PERSONS = 751
PHOTO_BYTES = 2_000  # about: 64 x 128 pixels
FOLDERS = ("bounding_box_train", "query", "bounding_box_test")
# As public toolboxes read names: 0002_c1s1_000451_03.jpg is person 2 by camera 1.
NAME = re.compile(r"(-?\d+)_c(\d)")
JUNK, DISTRACTOR = "-1", "0000"


class Params(ArchiveParams):
    """Where the photos are, how many persons validate, and the photos' shape."""

    source: str | None = Field(None, description="a folder, zip or tar in the official layout")
    val_persons: int = Field(100, ge=2, description="last training persons that validate")
    square: bool = Field(True, description="stretch to squares: crops then keep heads and feet")


class PersonPhoto(NamedTuple):
    """What a photo is of, by which camera, and for what; photos of training persons are not asked for in the test."""

    person: str
    camera: str
    train: bool
    query: bool = True
    gallery: bool = True


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {"photos": params.archive(OFFICIAL)}


def given(params: Params) -> bool:
    return True


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted: persons are of about as many."""
    val = round(TRAIN * params.val_persons / TRAINING_PERSONS)
    return {"train": TRAIN - val, "val": val, "test": QUERIES + GALLERY}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos without junk, in the archive's order. Other folders or counts than the dataset has are errors."""
    archive = parts["photos"]
    photos = in_folders(names_in(archive, is_picture), archive)
    if not photos:
        raise UserError(f"{archive} has no {FOLDERS[0]}: it is not in the layout of Market-1501.")
    photos = {file: p._replace(query=p.query and p.person != DISTRACTOR) for file, p in photos.items()}
    check_counts(photos, (TRAIN, QUERIES, GALLERY), archive)
    yield from items_of(members(archive, photos.__contains__), photos, params, KEY, name)


def in_folders(names: list[str], archive: Path) -> dict[str, PersonPhoto]:
    """What the three folders of a layout like Market-1501's say of their photos. Junk (person -1), which nobody may find or
    miss, is left out; distractors (person 0) are in the gallery, and never right.
    """
    photos = {}
    for name in names:
        path = PurePosixPath(name)
        folder = path.parent.name
        if folder not in FOLDERS:
            continue
        match = NAME.match(path.name)
        if match is None:
            raise UserError(f"{archive}: '{name}' does not begin with a person and a camera, like 0002_c1.")
        if match[1] != JUNK:
            train, query = folder == FOLDERS[0], folder == FOLDERS[1]
            photos[name] = PersonPhoto(match[1], match[2], train, train or query, train or not query)
    return photos


def check_counts(photos: Mapping[str, PersonPhoto], official: tuple[int, ...], archive: Path) -> None:
    """Refuse another number of photos to train, to ask and to search than the dataset has."""
    every = list(photos.values())
    test = [p for p in every if not p.train]
    counts = len(every) - len(test), sum(p.query for p in test), sum(p.gallery for p in test)
    if counts != official:
        raise UserError(
            f"{archive} has {counts[0]} photos to train, {counts[1]} queries and {counts[2]} in the gallery, not"
            f" {', '.join(map(str, official))}; fetch it again."
        )


def items_of(
    pictures: Iterable[tuple[str, bytes]],
    photos: Mapping[str, PersonPhoto],
    params: Params,
    key: str,
    name: str,
) -> Iterator[Item]:
    """The photos in the pictures' order; image ids are their last folder and name. Too few training persons are an error."""
    training = sorted({p.person for p in photos.values() if p.train})
    if len(training) < params.val_persons + 2:
        raise UserError(
            f"{name} has {len(training)} training persons, too few for {params.val_persons} to validate; set"
            f" datasets.{name}.options.val_persons in params.yaml."
        )
    validating = set(training[-params.val_persons :])
    label = {person: number for number, person in enumerate(sorted({p.person for p in photos.values()}))}
    for member, data in pictures:
        photo, image_id = photos[member], "/".join(PurePosixPath(member).parts[-2:])
        split = "test" if not photo.train else "val" if photo.person in validating else "train"
        yield Item(
            image_id=image_id,
            class_name=photo.person,
            label=label[photo.person],
            split=split,
            key_set=f"{key}|{'train' if photo.train else 'test'}",
            key_item=image_id,
            data=stretch_to_square(data, member) if params.square else data,
            query=photo.query,
            gallery=photo.gallery,
            camera=photo.camera,
        )


def stretch_to_square(data: bytes, name: str) -> bytes:
    """A picture stretched to a square of its longer side, as PNG."""
    picture = Image.fromarray(pixels.decode(data, name))
    side = max(picture.size)
    return pixels.encode_png(np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC)))
