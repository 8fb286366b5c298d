"""ImageNet-100: 131,689 photos of a hundred classes of ILSVRC 2012 (Russakovsky et al. 2015; classes of Tian et al., ECCV 2020).

ImageNet's validation photos are the test: they are of the classes of its training photos (docs/methods.md, section 6).
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import Field

from bgbias.datasets import _imagenet
from bgbias.datasets._imagenet import CLASSES, VALIDATION, ImageNetParams
from bgbias.datasets._official import last_of_each_class
from bgbias.errors import UserError
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "ImageNet-100"
KEY = "imagenet100"
FOLDERS = ("train", "val")
TRAIN = 126_689
PHOTO_BYTES = 110_000  # about


class Params(ImageNetParams):
    """Where the photos are, and how many of them validate."""

    val_per_class: int = Field(0, ge=0, description="last photos of each class that validate")


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {"photos": (_imagenet.source(params, KEY, FOLDERS),)}


def expected(params: Params) -> dict[str, int]:
    val = len(CLASSES) * params.val_per_class
    return {"train": TRAIN - val, "val": val, "test": len(CLASSES) * VALIDATION}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order. Another layout, and classes that lack photos, are errors."""
    archive = parts["photos"]
    class_of = _imagenet.photos(archive, f"train/{CLASSES[0]}/*.JPEG", FOLDERS)
    folder_of = {member: PurePosixPath(member).parts[-3] for member in class_of}
    own: dict[str, dict[str, str]] = {
        part: {m: wnid for m, wnid in class_of.items() if folder_of[m] == part} for part in FOLDERS
    }
    _imagenet.check(own["val"], archive, VALIDATION)
    _imagenet.check(own["train"], archive)
    if len(own["train"]) != TRAIN:
        raise UserError(
            f"{archive} has {len(own['train']):,} training photos of ImageNet-100's classes, not {TRAIN:,}: get it again."
        )
    splits = {member: "test" if folder == "val" else "train" for member, folder in folder_of.items()}
    by_name = dict(sorted(own["train"].items()))
    splits |= dict.fromkeys(last_of_each_class(by_name, params.val_per_class, name), "val")
    yield from _imagenet.items(archive, class_of, KEY, splits)
