"""The only place where pictures are mixed: an object, its mask, another background (METHODS section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Array = TypeVar("Array")


def blend(foreground: Array, mask: Array, background: Array) -> Array:
    """``M * x + (1 - M) * b``, for tensors or arrays that broadcast; ``mask`` in 0..1, soft masks stay soft."""
    return background + mask * (foreground - background)  # type: ignore[operator]


def replaced(photos: Tensor, masks: Tensor, backgrounds: Tensor) -> Tensor:
    """``blend`` of batches: grey levels float32 [B, 3, H, W] of uint8 photos and backgrounds and float32 masks [B, 1, H, W].

    On a CPU photo by photo: numbers that fit into its cache are mixed three times as fast as those of a whole batch.
    """
    import torch

    if photos.device.type != "cpu":
        return blend(photos.float(), masks, backgrounds.float())
    mixed = torch.empty(photos.shape, memory_format=torch.channels_last)
    for out, photo, mask, background in zip(mixed, photos, masks, backgrounds, strict=True):
        # Channels last, like the photos: a mask that is broadcast over them would take twice the time.
        wide = mask.permute(1, 2, 0).expand(*photo.shape[1:], 3).contiguous().permute(2, 0, 1)
        behind = background.float()
        torch.add(behind, photo.float().sub_(behind).mul_(wide), out=out)
    return mixed


class Foreground:
    """An object cut out once, to be put before many backgrounds; grey levels are rounded to the nearest.

    In whole numbers of 16 bits, which takes half as long as Pillow's ``composite`` and gives the same result; so would floating
    point, as a sum of 255ths never lies half way between two grey levels.
    """

    def __init__(self, photo: NDArray[np.uint8], mask: NDArray[np.uint8]) -> None:
        """``photo`` [H, W, 3] and its mask [H, W]."""
        hole = np.empty(photo.shape, np.uint16)
        for channel in range(photo.shape[2]):  # several times as fast as to repeat or to broadcast it
            hole[..., channel] = mask
        self._object = photo * hole
        self._object += 128
        self._hole = np.subtract(255, hole, out=hole)

    def before(self, background: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The picture [H, W, 3] with this background."""
        levels = background * self._hole
        levels += self._object
        # Pillow's division by 255, exact with the half that was added.
        levels += levels >> 8
        levels >>= 8
        return levels.astype(np.uint8)
