"""Masks as people draw them: grey levels, pixels of 0 and 1, palettes and cut-outs, as programs write them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bgbias.errors import UserError
from bgbias.images import pixels

# A mask whose brightest pixel is darker than this shows nothing: such pictures number classes or regions (1, 2, 3).
NUMBERED_BELOW = 32


class NoMaskError(UserError):
    """A picture that can be read, but whose levels number something: a trimap, or a map of labels."""


def decode_mask(data: bytes, name: str) -> NDArray[np.uint8]:
    """The mask, uint8 [H, W], its object white; a broken picture is an error that names it.

    Of a cut-out (transparent around its object) the opacity counts, of a palette every colour but the first; one whose only
    levels are 0 and 1 is stretched to 0 and 255. Levels of 8 bits in a file of more are taken as such.
    Levels that number something, as those of a trimap, are a ``NoMaskError``.
    """
    with pixels.opened(data, name) as image:
        colours = np.asarray(image) if image.mode == "P" else None
        levels = np.asarray(image) if image.mode.startswith("I") else None
        if image.mode in ("RGBA", "LA"):
            opacity = np.asarray(image.getchannel("A"))
            if opacity.min() < 255:
                return opacity
    if colours is not None:
        if 0 < colours.min() < colours.max():  # without the first colour, that of the background
            raise _numbered(colours, name)
        return ((colours > 0) * 255).astype(np.uint8)
    if levels is not None and levels.min() >= 0 and levels.max() <= 255:
        grey = levels.astype(np.uint8)
    else:
        grey = pixels.decode(data, name, "L")
    if grey.min() < grey.max() and 1 < grey.max() < NUMBERED_BELOW:
        raise _numbered(grey, name)
    return grey * 255 if grey.max() == 1 else grey


def _numbered(levels: NDArray[np.uint8], name: str) -> NoMaskError:
    found = np.unique(levels).tolist()
    shown = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
    return NoMaskError(
        f"'{name}' is no mask: its grey levels are {shown}, as of a trimap or a map of labels, and masks are white (255) where"
        " the object is and black (0) elsewhere. Write all masks anew so, e.g. 255 where a trimap has its level of the object."
    )


def white(data: bytes, name: str) -> bytes:
    """The mask encoded as PNG, its object white. A broken one stays as it is: it is left out where photos are checked."""
    try:
        return pixels.encode_png(decode_mask(data, name))
    except UserError:
        return data
