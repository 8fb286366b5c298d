"""Stylized-ImageNet: ImageNet's validation photos in the styles of paintings (Geirhos et al., ICLR 2019); those of ImageNet-100's
classes, to test alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bgbias.datasets import _imagenet
from bgbias.datasets._imagenet import CLASSES, VALIDATION, ImageNetParams
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "Stylized-ImageNet"
KEY = "imagenet_stylized"
HINT = (
    "It is made with the code of github.com/rgeirhos/Stylized-ImageNet; its validation photos lie in val/<wnid>. Write the folder"
    " that holds val into params.yaml, as the option source."
)
FOLDERS = ("val",)
PHOTO_BYTES = 100_000  # about


class Params(ImageNetParams):
    """Where the photos are."""


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive."""
    return {"photos": (_imagenet.source(params, "stylized-imagenet.tar", HINT, FOLDERS),)}


def expected(params: Params) -> dict[str, int]:
    """Photos of each split."""
    return {"train": 0, "val": 0, "test": VALIDATION * len(CLASSES)}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order. Another layout, and a class that lacks photos, are errors."""
    archive = parts["photos"]
    class_of = _imagenet.photos(archive, f"val/{CLASSES[0]}/*", FOLDERS)
    _imagenet.check(class_of, archive, VALIDATION)
    yield from _imagenet.items(archive, class_of, KEY)
