"""ImageNet-C: ImageNet's validation photos, corrupted in one of 19 ways, each in five severities (Hendrycks and Dietterich, ICLR
2019); those of ImageNet-100's classes in one way and severity, to test alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from bgbias.datasets import _imagenet
from bgbias.datasets._imagenet import CLASSES, VALIDATION, ImageNetParams
from bgbias.files.fetch import Source
from bgbias.photos.table import Item

TITLE = "ImageNet-C"
KEY = "imagenet_c"
HINT = (
    "See github.com/hendrycks/robustness; its photos lie in <corruption>/<severity>/<wnid>/*.JPEG. Write the folder that holds"
    " the corruptions, or an archive, into params.yaml, as the option source."
)
# Of noise, blur, weather and digital means; the last four are the authors' to validate with.
Corruption = Literal[
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "spatter",
    "gaussian_blur",
    "saturate",
]
PHOTO_BYTES = 20_000  # about: 224 x 224 pixels


class Params(ImageNetParams):
    """Where the photos are, and which of them to take."""

    corruption: Corruption = Field(description="what is done to the photos: the folder's name")
    severity: int = Field(ge=1, le=5, description="how much, from 1 to 5")

    @property
    def folder(self) -> str:
        """What the classes' folders lie in."""
        return f"{self.corruption}/{self.severity}"


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """The user's folder or archive."""
    return {"photos": (_imagenet.source(params, "imagenet-c.tar", HINT, (params.folder,)),)}


def expected(params: Params) -> dict[str, int]:
    """Photos of each split."""
    return {"train": 0, "val": 0, "test": VALIDATION * len(CLASSES)}


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The photos in the archive's order. Another layout, and a class that lacks photos, are errors."""
    archive = parts["photos"]
    class_of = _imagenet.photos(archive, f"{params.folder}/{CLASSES[0]}/*.JPEG", (params.folder,))
    _imagenet.check(class_of, archive, VALIDATION)
    yield from _imagenet.items(archive, class_of, KEY)
