"""Masks that somebody drew or exported: PNGs in a folder or zip under their photos' names, or a COCO-style JSON of outlines.

Pictures are found by the photo's path: ``birds/7.jpg`` has the mask ``birds/7.png`` or ``birds/7_mask.png``. Of a COCO file
(``photos.coco``) the objects of a photo are united into one mask.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import is_picture, stem, unique
from bgbias.files.places import source
from bgbias.files.store import ImageStore
from bgbias.images import drawn_masks
from bgbias.photos import coco
from bgbias.settings import Strict

PREDICTS = False
SPEED: tuple[str, ...] = ()
FILES = ("folder", "zip", "coco")
SUFFIX = "_mask"
Given = Callable[[str], NDArray[np.uint8] | None]


class Params(Strict):
    """Exactly one place."""

    folder: str | None = Field(None, description="of <photo's path>.png or <photo's path>_mask.png")
    zip: str | None = Field(None, description="zip (or tar) of such a folder")
    coco: str | None = Field(None, description="JSON in COCO's format: polygons or run lengths")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(getattr(self, name) is not None for name in FILES) != 1:
            raise ValueError("masks from files need exactly one of `folder`, `zip` and `coco`")
        return self


def given(params: Params, truth: ImageStore, ids: Sequence[str]) -> Given:
    """The masks of the photos ``ids``; None for a photo without one."""
    if params.coco is not None:
        return from_coco(source(params.coco), ids)
    return from_pictures(source(str(params.folder or params.zip)), ids)


def from_pictures(place: Path, ids: Sequence[str]) -> Given:
    """Masks of a folder, or of a zip or tar of one. Two masks or two photos of one name are errors that name both."""
    if not place.exists():
        raise UserError(f"There are no masks at {place}; correct the masker's options in params.yaml.")
    files = Lookup(place, is_picture)
    mask_of = unique(sorted(files.names), lambda n: stem(n).removesuffix(SUFFIX), f"{place}: the masks")
    photo_of = unique((i for i in ids if stem(i) in mask_of), stem, "The photos")
    unclaimed = mask_of.keys() - photo_of.keys()
    if len(unclaimed) == len(mask_of):
        example = f"the mask of '{ids[0]}' would be '{stem(ids[0])}.png'"
        there = f"there is '{min(mask_of.values())}'" if mask_of else "there are no pictures"
        raise UserError(f"{place} has no mask for any photo: {example}, but {there}; rename the masks.")
    if unclaimed:
        progress.say(f"{place}: {len(unclaimed)} masks of no photo here, e.g. {mask_of[min(unclaimed)]}")

    def find(image_id: str) -> NDArray[np.uint8] | None:
        name = mask_of.get(stem(image_id))
        return None if name is None else drawn_masks.decode_mask(files.read(name), f"{place}: {name}")

    return find


def from_coco(path: Path, ids: Sequence[str]) -> Given:
    """Masks of a COCO-style JSON (``photos.coco``): polygons, run lengths as lists and compressed run lengths, of all objects of
    a photo together. A photo without outlines has no mask.
    """
    if not path.is_file():
        raise UserError(f"There is no file {path}; correct the masker's option `coco` in params.yaml.")
    described = coco.parse(path.read_bytes(), path, ("image_id", "segmentation"))
    entry_of = coco.entries(path, described, ids)
    drawn = defaultdict(list)
    for number, annotation in enumerate(described["annotations"]):
        if annotation["segmentation"]:
            drawn[annotation["image_id"]].append((annotation.get("id", f"number {number}"), annotation))

    def find(image_id: str) -> NDArray[np.uint8] | None:
        entry = entry_of.get(image_id)
        if entry is None or not drawn[entry["id"]]:
            return None
        masks = [
            coco.mask_of(annotation, entry, f"{path}: '{image_id}', annotation {name},")
            for name, annotation in drawn[entry["id"]]
        ]
        return np.logical_or.reduce(masks) * np.uint8(255)

    return find
