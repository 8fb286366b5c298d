"""Photos with masks drawn by hand, from a folder or a table: what a masker is fine-tuned and judged on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.pictures import is_picture, locator, stem, walk
from bgbias.files.tables import read_text
from bgbias.images import drawn_masks, pixels

MASK, PHOTO = "_mask", "_image"
# A photo saved with loss; a mask never is.
LOSSY = {".jpg", ".jpeg", ".webp"}
EXAMPLE = "photo 12.jpg (or 12_image.jpg) with mask 12_mask.png"


@dataclass(frozen=True, slots=True)
class MaskPair:
    """A photo (uint8 [H, W, 3]) and its true mask (uint8 [H, W], 255 = object); ``group`` is the set it belongs to."""

    name: str
    group: str
    photo: NDArray[np.uint8]
    mask: NDArray[np.uint8]


def read_pairs(place: Path) -> list[MaskPair]:
    """The pairs of a folder or of a table (.csv with columns ``image``, ``mask`` and, if wanted, ``group``), sorted by name.

    In a folder, a mask is ``<name>_mask.png`` and its photo ``<name>.jpg`` or ``<name>_image.jpg`` beside it (any kind of
    picture); each sub-folder is a group. In a table, paths are relative to the table. A photo without a mask, a mask without
    a photo, a pair of two sizes and a mask without object are errors that name the file.
    """
    if place.is_dir():
        pairs = list(_in_folder(place))
    elif place.is_file():
        pairs = list(_in_table(place))
    else:
        raise UserError(f"There is no folder or table {place}; give photos and masks a folder: {EXAMPLE}.")
    if not pairs:
        raise UserError(f"{place} holds no photo with a mask; name them like this: {EXAMPLE}.")
    return [_pair(*files) for files in sorted(pairs)]


def _in_folder(root: Path) -> Iterator[tuple[str, str, Path, Path]]:
    pictures = {name: path for name, path in walk(root)[0].items() if is_picture(name)}
    masks = {stem(n).removesuffix(MASK): path for n, path in pictures.items() if stem(n).endswith(MASK)}
    ignored = 0
    for photo, path in pictures.items():
        if stem(photo).endswith(MASK):
            continue
        name = PurePosixPath(stem(photo).removesuffix(PHOTO))
        mask = masks.pop(str(name), None)
        if mask is not None:
            yield str(name), str(name.parent), path, mask
        elif path.suffix.lower() in LOSSY or stem(photo).endswith(PHOTO):
            raise UserError(
                f"{path} has no mask; draw {name.name}{MASK}.png (white object on black) or move the photo away."
            )
        else:
            ignored += 1
    if masks:
        mask = min(masks.values())
        raise UserError(f"{mask} has no photo; put it beside the mask, or move the mask away.")
    if ignored:
        progress.say(f"{root}: {ignored} pictures that are neither photo nor mask are not used")


def _in_table(table: Path) -> Iterator[tuple[str, str, Path, Path]]:
    frame, first = read_text(table, str(table))
    locate = locator()
    for column in ("image", "mask"):
        if column not in frame.columns:
            raise UserError(f"{table} has no column '{column}'; it has: {', '.join(frame.columns)}.")
    groups = frame["group"] if "group" in frame.columns else [""] * len(frame)
    for number, (image, mask, group) in enumerate(
        zip(frame["image"], frame["mask"], groups, strict=True), first
    ):
        photo, drawn = locate(table.parent / image), locate(table.parent / mask)
        for column, value, path in (("image", image, photo), ("mask", mask, drawn)):
            if not path.is_file():
                raise UserError(f"{table}, line {number}: no file '{value}' ({column}); correct the line.")
        yield image, group or ".", photo, drawn


def _pair(name: str, group: str, photo: Path, mask: Path) -> MaskPair:
    picture = pixels.decode(photo.read_bytes(), str(photo))
    alpha = drawn_masks.decode_mask(mask.read_bytes(), str(mask))
    if alpha.shape != picture.shape[:2]:
        raise UserError(
            f"{mask} is {alpha.shape[1]}x{alpha.shape[0]} pixels, its photo {photo.name}"
            f" {picture.shape[1]}x{picture.shape[0]}; save both at one size."
        )
    drawn_masks.check_turned_alike(
        photo.read_bytes(), alpha, str(photo), "Save the photo as it is shown, without a rotation."
    )
    if alpha.max() < 128:
        raise UserError(f"{mask} shows no object: none of its pixels is 128 or brighter; draw it in white.")
    return MaskPair(name, group, picture, alpha)
