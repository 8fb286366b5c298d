"""Outlines in COCO's format (cocodataset.org/#format-data) as pixels: polygons, run lengths, and compressed run lengths.

Coordinates are pixels of the photo, x before y; runs go down its columns, from the left. What cannot be so is refused, as a mask
that lies elsewhere shows in no table.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bgbias.errors import UserError

SLACK = 0.02  # of the photo's longer side: as far may a polygon reach beyond the photo, where it is cut off
BY_ROWS = 2  # as many times fewer edges, if runs are read along rows, and they were written so


def mask_of(outline: Any, height: int, width: int, where: str) -> NDArray[np.bool_]:
    """The object, bool [H, W], of an annotation's ``segmentation``; a UserError begins with ``where``."""
    of = _runs if isinstance(outline, dict) else _polygons
    return of(outline, height, width, where)


def _polygons(outline: Any, height: int, width: int, where: str) -> NDArray[np.bool_]:
    from pycocotools import mask as coco

    try:
        polygons = [np.array(numbers, float) for numbers in outline]
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} cannot be read ({error}); export it again.") from error
    if not all(p.ndim == 1 and len(p) >= 6 and len(p) % 2 == 0 and np.isfinite(p).all() for p in polygons):
        raise UserError(
            f"{where} cannot be read: a polygon is one list of three points or more, [x, y, x, y, x, y]; export it again."
        )
    points = np.concatenate(polygons).reshape(-1, 2)
    if points.min() >= 0 and points.max() <= 1:
        raise UserError(
            f"{where} has coordinates of 0 to 1, as shares of the photo; COCO's are pixels. Multiply x by the photo's width and"
            " y by its height."
        )
    slack = max(1, SLACK * max(height, width))
    if (points < -slack).any() or (points > np.array([width, height]) + slack).any():
        (left, top), (right, bottom) = points.min(0), points.max(0)
        raise UserError(
            f"{where} reaches from ({left:g}, {top:g}) to ({right:g}, {bottom:g}), and the photo is {width}x{height} pixels."
            " Was it drawn at another size, or in another order than x, y? Export it for this size."
        )
    parts = coco.frPyObjects([p.tolist() for p in polygons], height, width)
    return coco.decode(coco.merge(parts)).astype(bool)  # type: ignore[no-any-return]


def _runs(outline: dict[str, Any], height: int, width: int, where: str) -> NDArray[np.bool_]:
    size, runs = outline.get("size"), outline.get("counts")
    if size != [height, width]:
        turned = " It is [height, width] in COCO's format." if size == [width, height] else ""
        raise UserError(
            f"{where} has the size {size}, and the photo is {width}x{height} pixels.{turned} Export it again."
        )
    try:
        counts = np.array(_decompressed(runs) if isinstance(runs, str) else runs)
    except ValueError as error:
        raise UserError(f"{where} cannot be read ({error}); export it again.") from error
    if counts.ndim != 1 or counts.dtype.kind != "i" or (counts < 0).any() or counts.sum() != height * width:
        total = f"sum up to {counts.sum()}" if counts.dtype.kind == "i" else "are no whole numbers"
        raise UserError(
            f"{where} cannot be read: its runs {total}, and the photo has {height * width} pixels; export it again."
        )
    pixels = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    columns, rows = pixels.reshape(width, height).T, pixels.reshape(height, width)
    if _edges(columns) > BY_ROWS * _edges(rows):
        raise UserError(
            f"{where} gives stripes: its runs go along rows, and COCO's go down columns. Export it again, e.g. by"
            " pycocotools.mask.encode(numpy.asfortranarray(mask))."
        )
    return columns


def _decompressed(text: str) -> list[int]:
    """Run lengths from COCO's letters of six bits each: five of the number, the lowest first, and whether more follow. From the
    fourth on, a number is the difference to the last but one.
    """
    counts: list[int] = []
    letters = iter(text.encode())
    for letter in letters:
        number, place, bits = (letter - 48) & 31, 5, letter - 48
        while bits & 32:
            bits = next(letters, 48) - 48
            number, place = number | (bits & 31) << place, place + 5
        if bits & 16:
            number -= 1 << place
        counts.append(number + counts[-2] if len(counts) > 2 else number)
    return counts


def _edges(mask: NDArray[np.bool_]) -> int:
    """How many neighbours, below or beside each other, are not alike."""
    return int((mask[1:] != mask[:-1]).sum() + (mask[:, 1:] != mask[:, :-1]).sum())
