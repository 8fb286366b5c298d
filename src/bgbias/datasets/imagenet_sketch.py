"""ImageNet-Sketch: drawings of ImageNet's classes (Wang et al., NeurIPS 2019); those of ImageNet-100's, to test alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bgbias.datasets import _imagenet
from bgbias.datasets._imagenet import CLASSES, ImageNetParams
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "ImageNet-Sketch"
KEY = "imagenet_sketch"
HINT = (
    "See github.com/HaohanWang/ImageNet-Sketch; its photos lie in <wnid>/*.JPEG. Write the folder of these, or the archive, into"
    " params.yaml, as the option source."
)
EACH = 51  # photos of a class, about
PHOTO_BYTES = 140_000  # about


class Params(ImageNetParams):
    """Where the photos are."""


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive."""
    return {"photos": (_imagenet.source(params, "ImageNet-Sketch.zip", HINT),)}


def expected(params: Params) -> dict[str, int]:
    """Photos of each split before they are counted."""
    return {"train": 0, "val": 0, "test": EACH * len(CLASSES)}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order. Another layout, and a class without photos, are errors."""
    archive = parts["photos"]
    class_of = _imagenet.photos(archive, f"{CLASSES[0]}/sketch_0.JPEG")
    _imagenet.check(class_of, archive)
    yield from _imagenet.items(archive, class_of, KEY)
