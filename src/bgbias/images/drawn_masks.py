"""Masks as people draw them: grey levels, pixels of 0 and 1, palettes and cut-outs, as programs write them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bgbias.errors import UserError
from bgbias.images import pixels


def decode_mask(data: bytes, name: str) -> NDArray[np.uint8]:
    """The mask, uint8 [H, W], its object white; a broken picture is an error that names it.

    Of a cut-out (transparent around its object) the opacity counts, of a palette every colour but the first; one whose only
    levels are 0 and 1 is stretched to 0 and 255.
    """
    with pixels.opened(data, name) as image:
        if image.mode == "P":
            return ((np.asarray(image) > 0) * 255).astype(np.uint8)
        if image.mode in ("RGBA", "LA"):
            opacity = np.asarray(image.getchannel("A"))
            if opacity.min() < 255:
                return opacity
    grey = pixels.decode(data, name, "L")
    return grey * 255 if grey.max() == 1 else grey


def white(data: bytes, name: str) -> bytes:
    """The mask encoded as PNG, its object white. A broken one stays as it is: it is left out where photos are checked."""
    try:
        return pixels.encode_png(decode_mask(data, name))
    except UserError:
        return data
