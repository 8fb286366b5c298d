"""The only place where pictures are mixed: an object, its mask, another background (docs/methods.md, section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

Array = TypeVar("Array")


def blend(foreground: Array, mask: Array, background: Array) -> Array:
    """``M * x + (1 - M) * b``, for tensors or arrays that broadcast; ``mask`` in 0..1, soft masks stay soft."""
    return background + mask * (foreground - background)  # type: ignore[operator]


def paste_on_grey(photo: Array, mask: Array) -> Array:
    """The object of a photo uint8 [..., H, W, 3] where its mask [..., H, W] says, grey (127.5) around it; rounded, a half
    upwards, in arrays as in tensors.
    """
    # In whole numbers, in 510ths: 127.5 lies between two grey levels, and floating point would round it to either.
    soft: Any = mask.astype(np.int32) if isinstance(mask, np.ndarray) else mask.int()  # type: ignore[attr-defined]
    soft = soft[..., None]
    levels = (2 * soft * photo + 255 * (255 - soft) + 255) // 510
    return levels.astype(np.uint8) if isinstance(mask, np.ndarray) else levels.byte()  # type: ignore[no-any-return]


def blend_batch(photos: Tensor, masks: Tensor, backgrounds: Tensor) -> Tensor:
    """``blend`` of batches: grey levels float32 [B, 3, H, W] of uint8 photos and backgrounds and float32 masks [B, 1, H, W].

    On a CPU photo by photo, as numbers that fit into its cache are mixed three times as fast as those of a whole batch; by one
    thread, as others are busy with the next batch.
    """
    import torch

    if photos.device.type != "cpu":
        return blend(photos.float(), masks, backgrounds.float())
    arrays = [t.permute(0, 2, 3, 1).numpy() for t in (photos, masks, backgrounds)]
    mixed = np.empty(photos.permute(0, 2, 3, 1).shape, np.float32)
    for out, photo, mask, background in zip(mixed, *arrays, strict=True):
        levels = background.astype(np.float32)
        out[:] = photo
        out -= levels
        out *= _spread_colours(mask[..., 0], np.float32)
        out += levels
    return torch.from_numpy(mixed).permute(0, 3, 1, 2)


class CutOut:
    """An object cut out once, to be put before many backgrounds; grey levels are rounded to the nearest.

    In whole numbers of 16 bits, which takes half as long as Pillow's ``composite`` and gives the same result; so would floating
    point, as a sum of 255ths never lies half way between two grey levels.
    """

    def __init__(self, photo: NDArray[np.uint8], mask: NDArray[np.uint8]) -> None:
        """``photo`` [H, W, 3] and its mask [H, W]."""
        hole = _spread_colours(mask, np.uint16)
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


class DeviceCutOuts:
    """The objects of a batch in a device's memory, cut out once: the bytes of ``CutOut``."""

    def __init__(self, photos: Tensor, masks: Tensor) -> None:
        """``photos`` uint8 [B, H, W, 3] and their masks [B, H, W]."""
        hole = masks.int()[..., None]
        self._object, self._hole = photos * hole + 128, 255 - hole

    def before(self, backgrounds: Tensor) -> Tensor:
        """The pictures uint8 [B, H, W, 3] with these backgrounds."""
        levels = backgrounds * self._hole + self._object
        return ((levels + (levels >> 8)) >> 8).byte()


def _spread_colours(mask: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """The mask [H, W] once for each colour, [H, W, 3]: faster than to repeat it or to broadcast over it."""
    wide = np.empty((*mask.shape, 3), kind)
    for colour in range(3):
        wide[..., colour] = mask
    return wide
