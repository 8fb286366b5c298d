"""Pixels: decoding, the resize and the crops that photo and mask share, and what a backbone wants to see.

Geometry follows the published transforms (docs/methods.md, section 1): short side 256, then a random resized crop with flip in
training, a centre crop in evaluation. EXIF orientation is ignored where pictures are decoded, as the published masks and
the loaders of torchvision and timm ignore it; ``index`` counts it, and turns a user's own photos if she asks (``upright``).
"""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from bgbias.errors import UserError

Image.MAX_IMAGE_PIXELS = 300_000_000
PngImagePlugin.MAX_TEXT_CHUNK = 64 << 20  # notes of a PNG of up to 64 MB do not stop its pixels
# What Pillow warns of is noted, with the photo's name, where each photo is looked at (photos/examination.py).
warnings.filterwarnings("ignore", module=r"PIL\.")
FULL_SCALE = 16_384  # levels of 16 bits: a brightest one below it is no dark photo, but one of 14 bits or fewer, as of cameras
KEPT = 512  # pictures, 400 kB each at short side 256

Picture = Callable[[int], np.ndarray]
"""The picture at a place in some collection, uint8 [H, W, 3] or [H, W]; it is read when it is asked for."""

Photo = str | Path | Image.Image | np.ndarray
"""A picture file's name, a picture of Pillow's, or uint8 [H, W, 3] (RGB). Where a mask is meant, [H, W]: bool, or uint8 whose 255
is object and whose greys are soft edges."""
SIXTEEN = "sixteen bits"  # in the notes of an opened picture: decoding forgets how it was stored


class UnknownLevelsError(UserError):
    """Nobody can tell which level of a picture is white; ``kind`` is a name for the reason."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class RelativeBox:
    """A crop in relative coordinates (0..1 of width and height), so that every input size sees the same part."""

    left: float
    top: float
    width: float
    height: float


def decode(data: bytes, name: str, mode: str = "RGB") -> np.ndarray:
    """The picture as uint8 [H, W, 3] (RGB) or [H, W] (L); a broken one is an error that names it."""
    with open_picture(data, name) as image:
        return from_pillow(image, mode)


def decode_all(photos: Iterable[Photo]) -> Iterator[np.ndarray]:
    """``photos``, uint8 [H, W, 3] each; one by one, so that they may be more than fit into memory."""
    for number, photo in enumerate(photos):
        yield decode_photo(photo, f"photos[{number}]")


def decode_photo(photo: Photo, name: str) -> np.ndarray:
    """The photo, uint8 [H, W, 3]; what cannot be one is an error with its ``name``."""
    picture = decode_as(photo, "RGB", name)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise UserError(f"{name} is {picture.dtype} {list(picture.shape)}, not uint8 [H, W, 3].")
    return picture


def decode_as(picture: Photo, mode: str, name: str) -> np.ndarray:
    """A file or a picture of Pillow's in this mode, an array as it is; anything else is an error with its ``name``."""
    if isinstance(picture, np.ndarray):
        return picture
    if isinstance(picture, Image.Image):
        return from_pillow(picture, mode)
    if not isinstance(picture, (str, Path)):
        kind = type(picture).__name__
        raise UserError(f"{name} is a {kind}, not a file's name, a picture or an array.")
    if not Path(picture).is_file():
        raise UserError(f"{name}: the picture {picture} is missing.")
    return decode(Path(picture).read_bytes(), str(picture), mode)


@contextmanager
def open_picture(data: bytes, name: str) -> Iterator[Image.Image]:
    """An encoded picture as Pillow opens it; whatever fails inside is an error that names the picture."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            xmp = image.info.pop("xmp", None)
            if isinstance(xmp, (str, bytes)):  # in anything else Pillow cannot look for a rotation
                image.info["xmp"] = xmp.encode() if isinstance(xmp, str) else xmp
            image.info[SIXTEEN] = has_sixteen_bits(image)
            yield image
    except UnidentifiedImageError as error:  # whose text is the address of a buffer
        raise UserError(
            f"'{name}' cannot be decoded (no picture of a kind that is known here); replace or remove this picture."
        ) from error
    except Exception as error:  # decoders raise many kinds for damaged files
        raise UserError(f"'{name}' cannot be decoded ({error}); replace or remove this picture.") from error


def from_pillow(image: Image.Image, mode: str = "RGB") -> np.ndarray:
    """A picture of Pillow's as uint8 [H, W, 3] (RGB) or [H, W] (L); what is transparent is white.

    Of 16 bits the levels 0 to 65,535 become 0 to 255. What black and white are in other pictures of more than 8 bits, nobody
    can tell: an ``UnknownLevelsError``.
    """
    picture = _to_8_bits(image)
    if picture.has_transparency_data:
        whole = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole)
    return np.asarray(picture.convert(mode))


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Pillow's own conversion would cut all that is not black to white; of colours it has the upper 8 bits of 16."""
    if image.mode in ("I", "F"):
        whole = image.mode == "I"
        numbers = "whole numbers of 32 bits, or with signs," if whole else "floating point numbers,"
        raise UnknownLevelsError(
            f"its levels are {numbers} of which nobody can tell which is white; save it with 8 bits",
            "levels_of_32_bits" if whole else "levels_of_floats",
        )
    if not has_sixteen_bits(image):
        return image
    is_grey = image.mode.startswith("I;16")
    levels = np.asarray(image if is_grey else image.convert("RGB"))
    brightest = int(levels.max()) if is_grey else 256 * int(levels.max()) + 255
    if 0 < brightest < FULL_SCALE:
        raise UnknownLevelsError(
            f"its 16 bits hold levels up to {brightest} alone, as of a camera with fewer bits; stretch white to 65535, or save it"
            " with 8 bits",
            "levels_of_few_bits",
        )
    return Image.fromarray(np.rint(levels / 257).astype(np.uint8)) if is_grey else image


def has_sixteen_bits(image: Image.Image) -> bool:
    """Whether the picture is stored with 16 bits a level; of one that is decoded, what ``open_picture`` noted."""
    if SIXTEEN in image.info:
        return bool(image.info[SIXTEEN])
    file = getattr(image, "fp", None)
    if image.format == "JPEG2000" and image.mode != "I;16" and file:
        file.seek(0)  # its codestream alone tells
        _, _, sizes = file.read().partition(b"\xff\x4f\xff\x51")
        return sizes[38:39] == b"\x0f"
    return image.mode.startswith("I;16") or any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def transparent(image: Image.Image) -> bool:
    """Whether some of the picture is not to be seen: an object that was cut out, with its old background behind it."""
    return image.has_transparency_data and np.asarray(image.convert("RGBA").getchannel("A")).min() < 255


def size(data: bytes, name: str) -> tuple[int, int]:
    """(height, width) of an encoded picture, read from its header; a broken one is an error that names it."""
    with open_picture(data, name) as image:
        return image.height, image.width


def is_turned(image: Image.Image) -> bool:
    """Whether EXIF or XMP turns or mirrors a picture; Pillow turns a decoded TIFF itself."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9)
    except Exception:  # damaged EXIF is none
        return False


def day_of(data: bytes) -> str:
    """The day on which an encoded photo was taken, as its EXIF says it, "2024:05:31"; empty if it does not."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            date = image.getexif().get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal, "")
    except Exception:  # whatever is wrong with it is said where it is decoded
        return ""
    return str(date).partition(" ")[0]


def is_turned_by_xmp(image: Image.Image) -> bool:
    """Whether a rotation stands in the picture's XMP alone, where Pillow looks if the EXIF has none."""
    if not is_turned(image) or not {"xmp", "XML:com.adobe.xmp"} & image.info.keys():
        return False
    exif = Image.Exif()
    exif.load(image.info.get("exif", b""))
    return ExifTags.Base.Orientation not in exif


def upright(data: bytes, name: str) -> bytes:
    """An encoded picture as its EXIF says that it is to be shown: as PNG if that turns it, else as it is, as a broken one."""
    try:
        with open_picture(data, name) as image:
            if not is_turned(image):
                return data
            _to_8_bits(image)  # which cannot tell any more what levels there were in a picture that is turned
            return encode_png(from_pillow(ImageOps.exif_transpose(image)))
    except UserError:
        return data


def encode_png(array: np.ndarray) -> bytes:
    """PNG bytes of uint8 [H, W, 3] or [H, W]."""
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def resize_short(array: np.ndarray, side: int) -> np.ndarray:
    """Bilinear with antialiasing, short side ``side``, long side rounded down: the published ``Resize``."""
    height, width = array.shape[:2]
    if min(height, width) == side:
        return array
    shape = resized_shape(height, width, side)[::-1]
    return np.asarray(Image.fromarray(array).resize(shape, Image.Resampling.BILINEAR))


def centre_crop(array: np.ndarray, size: int) -> np.ndarray:
    """The middle ``size`` x ``size`` pixels.

    Where the margin is odd the crop lies half a pixel up and left of the centre; rounding half to even, as some libraries do,
    would move it to the one side or the other with the picture's size.
    """
    height, width = array.shape[:2]
    top, left = (height - size) // 2, (width - size) // 2
    return array[top : top + size, left : left + size]


def random_box(
    generator: np.random.Generator,
    height: int,
    width: int,
    scale: tuple[float, float] = (0.16, 1.0),
    ratio: tuple[float, float] = (0.75, 4 / 3),
) -> tuple[RelativeBox, bool]:
    """A random resized crop and whether to flip it.

    Drawn in the order area, log aspect ratio, then left and top once they fit (up to 10 tries), then the flip. The fallback is
    the largest centred crop within the ratios, as in the published transform.
    """
    box = None
    for _ in range(10):
        area = height * width * generator.uniform(*scale)
        aspect = math.exp(generator.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = math.sqrt(area * aspect), math.sqrt(area / aspect)
        if w <= width and h <= height:
            left, top = generator.uniform(0, width - w), generator.uniform(0, height - h)
            box = RelativeBox(left / width, top / height, w / width, h / height)
            break
    if box is None:
        aspect = min(max(width / height, ratio[0]), ratio[1])
        w, h = min(width, height * aspect), min(height, width / aspect)
        box = RelativeBox((1 - w / width) / 2, (1 - h / height) / 2, w / width, h / height)
    return box, bool(generator.random() < 0.5)


def cache_pictures(picture: Picture) -> Callable[[int], Image.Image]:
    """The same pictures as Pillow's, of which the last ones are kept: to convert one takes an eighth of the time of a crop."""
    return lru_cache(KEPT)(lambda row: Image.fromarray(picture(row)))


def crop(array: np.ndarray, box: RelativeBox, size: int, flip: bool) -> np.ndarray:
    """The boxed part, bilinearly resized to ``size`` x ``size``, mirrored if asked."""
    return np.asarray(crop_picture(Image.fromarray(array), box, size, flip))


def crop_picture(
    picture: Image.Image, box: RelativeBox, size: int | tuple[int, int], flip: bool
) -> Image.Image:
    """The same of a picture of Pillow's; ``size`` may be (width, height)."""
    width, height = picture.size
    corners = (
        box.left * width,
        box.top * height,
        min((box.left + box.width) * width, width),
        min((box.top + box.height) * height, height),
    )
    shape = (size, size) if isinstance(size, int) else size
    part = picture.resize(shape, Image.Resampling.BILINEAR, box=corners)
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else part


def resized_shape(height: int, width: int, side: int) -> tuple[int, int]:
    """(height, width) of a picture of this size at short side ``side``; see ``resize_short``."""
    if min(height, width) == side:
        return height, width
    return (int(side * height / width), side) if width <= height else (side, int(side * width / height))
