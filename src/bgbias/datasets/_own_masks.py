"""Masks as people draw them: grey levels, or pixels of 0 and 1 as many annotation programs write them."""

from __future__ import annotations

from bgbias import images
from bgbias.errors import UserError


def white(data: bytes, name: str) -> bytes:
    """The encoded mask with its object white: one whose only levels are 0 and 1 is stretched to 0 and 255.

    A broken mask stays as it is; it is left out with its photo where photos are checked.
    """
    try:
        pixels = images.decode(data, name, "L")
    except UserError:
        return data
    return images.encode_png(pixels * 255) if pixels.max() == 1 else data
