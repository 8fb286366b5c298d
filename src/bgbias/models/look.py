"""How a model looks at a photo: the square of pixels that it sees, before they are normalised."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from PIL import Image

from bgbias.errors import UserError
from bgbias.images import pixels

Interpolation = Literal["bilinear", "bicubic", "lanczos", "nearest"]
Rounding = Literal["down", "even"]


@dataclass(frozen=True)
class Look:
    """The photo's short side becomes ``resize`` pixels, and the middle ``size`` x ``size`` of that is seen.

    With ``squash`` both sides become ``resize``, whatever the photo's shape. Where the margin around the middle is odd, its half
    is rounded ``down`` (bgbias, transformers) or to the ``even`` number (torchvision, timm, open_clip).
    """

    size: int
    resize: int
    squash: bool = False
    interpolation: Interpolation = "bilinear"
    rounding: Rounding = "down"

    def __post_init__(self) -> None:
        if self.interpolation not in get_args(Interpolation):
            raise UserError(
                f"Photos cannot be resized by '{self.interpolation}'; there are {', '.join(get_args(Interpolation))}."
            )
        if not 1 <= self.size <= self.resize:
            raise UserError(
                f"No {self.size} x {self.size} pixels can be cut out of a photo that was resized to {self.resize};"
                f" give --resize {self.size} or more."
            )

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """What is seen of a photo uint8 [H, W, 3], or of its mask [H, W]: uint8 [S, S, 3] or [S, S]."""
        return self.cropped(self.resized(picture))

    def resized(self, picture: np.ndarray) -> np.ndarray:
        """The whole picture at the size out of which the middle is cut."""
        height, width = picture.shape[:2]
        square = (self.resize, self.resize)
        shape = square if self.squash else pixels.resized_shape(height, width, self.resize)
        if (height, width) == shape:
            return picture
        how = Image.Resampling[self.interpolation.upper()]
        return np.asarray(Image.fromarray(picture).resize(shape[::-1], how))

    def cropped(self, resized: np.ndarray) -> np.ndarray:
        """The middle of a picture that was resized: uint8 [S, S, 3] or [S, S]."""
        if self.rounding == "down":
            return pixels.centre_crop(resized, self.size)
        top, left = (round((side - self.size) / 2) for side in resized.shape[:2])
        return resized[top : top + self.size, left : left + self.size]

    def __str__(self) -> str:
        sides = "both sides" if self.squash else "short side"
        crop = "" if self.squash and self.resize == self.size else f", centre crop {self.size} x {self.size}"
        return f"{sides} {self.resize} pixels ({self.interpolation}){crop}"
