"""ImageNet-R: renditions, from paintings to toys, of 200 of ImageNet's classes (Hendrycks et al., ICCV 2021); those of
ImageNet-100's classes that it has, to test alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bgbias.datasets import _imagenet
from bgbias.datasets._imagenet import CLASSES, ImageNetParams
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "ImageNet-R"
KEY = "imagenet_r"
HINT = (
    "See github.com/hendrycks/imagenet-r; its photos lie in <wnid>/*.jpg. Write the folder of these, or imagenet-r.tar, into"
    " params.yaml, as the option source."
)
TESTS_ALONE = True  # how many of its photos are of the hundred classes is known once they are counted
PHOTO_BYTES = 75_000  # about


class Params(ImageNetParams):
    """Where the photos are."""


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive."""
    return {"photos": (_imagenet.source(params, "imagenet-r.tar", HINT),)}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order, of the classes that it has. Another layout is an error."""
    archive = parts["photos"]
    yield from _imagenet.items(archive, _imagenet.photos(archive, f"{CLASSES[0]}/art_0.jpg"), KEY)
