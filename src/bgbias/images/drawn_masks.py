"""Masks as people draw them: grey levels, pixels of 0 and 1, palettes and cut-outs, as programs write them."""

import io
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.images.pixels import Photo

# A mask whose brightest pixel is darker than this shows nothing: such pictures number classes or regions (1, 2, 3).
NUMBERED_BELOW = 32
# Of a grey picture R, G and B are alike, but for what JPEG loses.
COLOURED, COLOURED_SHARE = 48, 0.01
# At short side 256: by so many pixels a border may be drawn beside the object's.
SIDE, BLUR = 256, 3.0
CLEARLY = 1.3  # as many times stronger are the edges along a mask's border the right way up


class NoMaskError(UserError):
    """A picture that can be read, but is no mask: a trimap, a map of labels, or a photo."""


def decode_mask(data: bytes, name: str) -> NDArray[np.uint8]:
    """The mask, uint8 [H, W], its object white; a broken picture is an error that names it.

    Of a cut-out (transparent around its object) the opacity counts, of a palette every colour but the first; one whose only
    levels are 0 and 1 is stretched to 0 and 255. Levels of 8 bits in a file of more are taken as such.
    Levels that number something, as those of a trimap, and colours are a ``NoMaskError``.
    """
    with pixels.open_picture(data, name) as image:
        colours = np.asarray(image) if image.mode == "P" else None
        levels = np.asarray(image) if image.mode.startswith("I") else None
        if image.mode in ("RGBA", "LA"):
            opacity = np.asarray(image.getchannel("A"))
            if opacity.min() < 255:
                return opacity
        is_coloured = False
        if image.mode in ("RGB", "RGBA"):
            rgb = np.asarray(image.convert("RGB"))
            is_coloured = ((rgb.max(-1) - rgb.min(-1)) > COLOURED).mean() > COLOURED_SHARE
    if is_coloured:
        raise NoMaskError(
            f"'{name}' is no mask: it has colours, as a photo or a map of labels, and masks are white where the object is and"
            " black elsewhere, or transparent around it. Write all masks anew so."
        )
    if colours is not None:
        if 0 < colours.min() < colours.max():  # without the first colour, that of the background
            raise _refuse_numbers(colours, name)
        return ((colours > 0) * 255).astype(np.uint8)
    if levels is not None and levels.min() >= 0 and levels.max() <= 255:
        grey = levels.astype(np.uint8)
    else:
        grey = pixels.decode(data, name, "L")
    if grey.min() < grey.max() and 1 < grey.max() < NUMBERED_BELOW:
        raise _refuse_numbers(grey, name)
    return grey * 255 if grey.max() == 1 else grey


def read_mask(mask: Photo, photo: Photo, shape: tuple[int, ...], name: str) -> NDArray[np.uint8]:
    """The mask of a photo of this ``shape`` [H, W], of either's file, Pillow's picture or array: uint8 [H, W]; another size is an
    error with its ``name``, and so is one that was drawn on the photo turned as its EXIF says.
    """
    if isinstance(mask, Image.Image):
        mask.save(encoded := io.BytesIO(), "PNG")
        picture = decode_mask(encoded.getvalue(), name)
    elif isinstance(mask, (str, Path)) and Path(mask).is_file():
        picture = decode_mask(Path(mask).read_bytes(), str(mask))
    else:
        picture = pixels.decode_as(mask, "L", name)
    if picture.dtype == np.uint8 and 1 < picture.max(initial=0) < NUMBERED_BELOW:
        raise _refuse_numbers(picture, name)
    if picture.dtype == bool or (picture.dtype == np.uint8 and picture.max(initial=0) == 1):
        picture = np.where(picture, np.uint8(255), np.uint8(0))
    if picture.dtype != np.uint8 or picture.shape != shape:
        raise UserError(
            f"{name} is {picture.dtype} {list(picture.shape)}, not uint8 or bool {list(shape)} as its photo."
        )
    if isinstance(photo, (str, Path)):
        check_turned_alike(
            Path(photo).read_bytes(), picture, str(photo), "Turn the photo's pixels, or its mask."
        )
    return picture


def is_cut_out(data: bytes, name: str) -> bool:
    """Whether a picture is transparent in part, so that it may serve as the mask of itself."""
    with pixels.open_picture(data, name) as image:
        return pixels.transparent(image)


def _refuse_numbers(levels: NDArray[np.uint8], name: str) -> NoMaskError:
    numbers = np.unique(levels).tolist()
    text = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return NoMaskError(
        f"'{name}' is no mask: its grey levels are {text}, as of a trimap or a map of labels, and masks are white (255) where"
        " the object is and black (0) elsewhere. Write all masks anew so, e.g. 255 where a trimap has its level of the object."
    )


def white(data: bytes, name: str) -> bytes:
    """The mask encoded as PNG, its object white. A broken one stays as it is: it is left out where photos are checked."""
    try:
        return pixels.encode_png(decode_mask(data, name))
    except UserError:
        return data


def is_drawn_upright(photo: Image.Image, mask: NDArray[np.uint8]) -> bool | None:
    """Whether the mask of a photo that carries a rotation was drawn on it as it is shown (True), or as it is stored (False).

    The shape tells if only one of them has it, else the photo's edges along the mask's border, if they are stronger by
    ``CLEARLY``; None where neither tells.
    """
    either = (pixels.from_pillow(photo), pixels.from_pillow(ImageOps.exif_transpose(photo)))
    as_stored, as_shown = (_measure_edges(p, mask) if p.shape[:2] == mask.shape else 0.0 for p in either)
    return None if max(as_stored, as_shown) <= CLEARLY * min(as_stored, as_shown) else as_shown > as_stored


def check_turned_alike(data: bytes, mask: NDArray[np.uint8], photo: str, cure: str) -> None:
    """Refuse the mask of an encoded photo that is used as it is stored, if it was drawn on the photo as it is shown."""
    with pixels.open_picture(data, photo) as image:
        is_turned = pixels.is_turned(image) and is_drawn_upright(image, mask)
    if is_turned:
        raise UserError(
            f"'{photo}' carries a rotation (EXIF or XMP), and its mask was drawn on it as it is shown, by its shape or the edges"
            f" along its border; the photo is used as it is stored. {cure}"
        )


def _measure_edges(photo: NDArray[np.uint8], mask: NDArray[np.uint8]) -> float:
    """The mean change of the photo's colours across the mask's border; above 0, so that a fitting shape is more than another."""
    height, width = (max(1, round(n * min(1, SIDE / min(mask.shape)))) for n in mask.shape)
    smooth = [
        cv2.GaussianBlur(cv2.resize(a, (width, height), interpolation=cv2.INTER_AREA), (0, 0), BLUR)
        for a in (photo.astype(np.float32), (mask >= 128).astype(np.float32))
    ]
    (down, across), (out_down, out_across) = (np.gradient(a, axis=(0, 1)) for a in smooth)
    change = np.abs(down * out_down[..., None] + across * out_across[..., None]).sum()
    return float(change / max(np.hypot(out_down, out_across).sum(), 1e-9)) + 1e-9
