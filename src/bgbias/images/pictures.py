"""Pictures as people hand them over, decoded; errors call them as the argument does: ``photos[3]``."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from bgbias.errors import UserError
from bgbias.images import pixels

Photo = str | Path | Image.Image | np.ndarray
"""A picture file's name, a picture of Pillow's, or uint8 [H, W, 3] (RGB). Where a mask is meant, [H, W]: bool, or uint8 whose 255
is object and whose greys are soft edges."""


def decode_all(photos: Iterable[Photo]) -> Iterator[np.ndarray]:
    """``photos``, uint8 [H, W, 3] each; one by one, so that they may be more than fit into memory."""
    for number, photo in enumerate(photos):
        yield decode_photo(photo, f"photos[{number}]")


def decode_photo(photo: Photo, name: str) -> np.ndarray:
    """The photo, uint8 [H, W, 3]; what cannot be one is an error with its ``name``."""
    picture = _decoded(photo, "RGB", name)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise UserError(f"{name} is {picture.dtype} {list(picture.shape)}, not uint8 [H, W, 3].")
    return picture


def decode_mask(mask: Photo, photo: np.ndarray, name: str) -> np.ndarray:
    """The mask, uint8 [H, W] of the photo's size; another size is an error with its ``name``."""
    picture = _decoded(mask, "L", name)
    if picture.dtype == bool:
        picture = np.where(picture, np.uint8(255), np.uint8(0))
    if picture.dtype != np.uint8 or picture.shape != photo.shape[:2]:
        raise UserError(
            f"{name} is {picture.dtype} {list(picture.shape)}, not uint8 or bool"
            f" {list(photo.shape[:2])} as its photo."
        )
    return picture


def _decoded(picture: Photo, mode: str, name: str) -> np.ndarray:
    if isinstance(picture, np.ndarray):
        return picture
    if isinstance(picture, Image.Image):
        return pixels.from_pillow(picture, mode)
    if not isinstance(picture, (str, Path)):
        kind = type(picture).__name__
        raise UserError(f"{name} is a {kind}, not a file's name, a picture or an array.")
    if not Path(picture).is_file():
        raise UserError(f"{name}: the picture {picture} is missing.")
    return pixels.decode(Path(picture).read_bytes(), str(picture), mode)
