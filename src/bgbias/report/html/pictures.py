"""Pictures inside a page, as small as they are shown."""

import base64
import io

import numpy as np
from PIL import Image, ImageFilter

QUALITY = 78
OUTLINE = (255, 64, 160)  # seen on most photos


def inside(picture: np.ndarray, side: int) -> str:
    """A picture uint8 [H, W, 3], no larger than ``side``, as a URL that holds it."""
    return url(jpeg(picture, side))


def jpeg(picture: np.ndarray, side: int) -> bytes:
    """The same as the bytes of a file."""
    thumbnail = Image.fromarray(np.ascontiguousarray(picture))
    thumbnail.thumbnail((side, side), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    thumbnail.save(data, "JPEG", quality=QUALITY, optimize=True)
    return data.getvalue()


def url(data: bytes, kind: str = "image/jpeg") -> str:
    """A file's bytes as a URL that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def outline(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A photo uint8 [H, W, 3] with the line around its mask uint8 [H, W], which parts it at one half; uint8 [H, W, 3]."""
    inner = Image.fromarray(np.where(mask > 127, np.uint8(255), np.uint8(0)))
    width = 2 * max(1, round(max(mask.shape) / 224)) + 1
    around = np.asarray(inner.filter(ImageFilter.MaxFilter(width))) != np.asarray(
        inner.filter(ImageFilter.MinFilter(width))
    )
    return np.where(around[..., None], np.array(OUTLINE, np.uint8), photo)
