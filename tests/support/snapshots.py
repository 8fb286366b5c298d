"""Small photos as people have them: noise as JPEG, with an EXIF rotation where it is asked for."""

import io

import numpy as np
from PIL import ExifTags, Image

from bgbias import seeds

Photos = dict[str, bytes]


def snapshot(*name: object, height: int = 36, width: int = 48, orientation: int = 1) -> bytes:
    """A JPEG that belongs to this name alone."""
    noise = seeds.generator("snapshot", *name).integers(0, 256, (height, width, 3), dtype=np.uint8)
    stream, exif = io.BytesIO(), Image.Exif()
    if orientation != 1:
        exif[ExifTags.Base.Orientation] = orientation
    Image.fromarray(noise).save(stream, "JPEG", exif=exif)
    return stream.getvalue()


def shop(classes: int = 3, photos: int = 3) -> Photos:
    """A folder's files: so many classes with so many photos each."""
    return {f"shoe {c:02d}/{n}.jpg": snapshot(c, n) for c in range(classes) for n in range(photos)}
