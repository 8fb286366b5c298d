"""A texture of what a photo is made of: two of its windows, quilted to the photo's size (Efros & Freeman, SIGGRAPH 2001).

Blocks are laid from left to right and down. Each is one of the best continuations of what lies there already, and is cut out
along the line where both differ least. Lengths are told for photos whose short side is 224 pixels, and grow with it.
"""

import itertools
import zlib

import cv2
import numpy as np
from numpy.typing import NDArray

from bgbias import seeds

cv2.setNumThreads(1)  # or it would take every core; photos are worked on side by side
SIDE = 224
WINDOW, BLOCK, OVERLAP = 96, 36, 9
TOLERANCE = 0.1  # how much worse than the best one a continuation may be

Picture = NDArray[np.uint8]
Errors = NDArray[np.float32]


def texture(photo: Picture) -> Picture:
    """A texture as large as the photo uint8 [H, W, 3], of its centre and one more window, which the photo's pixels decide on."""
    height, width, _ = photo.shape
    generator = seeds.generator("texture", height, width, zlib.crc32(photo.tobytes()))
    window = _scale(WINDOW, photo)
    centre = (height - window) // 2, (width - window) // 2
    corner = int(generator.integers(height - window + 1)), int(generator.integers(width - window + 1))
    sources = [photo[y : y + window, x : x + window] for y, x in (centre, corner)]
    block = min(max(4, _scale(BLOCK, photo)), window)
    return quilt(sources, (height, width), block, min(max(2, _scale(OVERLAP, photo)), block // 2), generator)


def quilt(
    sources: list[Picture], size: tuple[int, int], block: int, overlap: int, generator: np.random.Generator
) -> Picture:
    """A picture of a size (height, width) of blocks of the sources, none smaller than a block, that overlap by some pixels."""
    step = block - overlap
    rows, columns = (-(-max(length - block, 0) // step) + 1 for length in size)
    canvas = np.zeros((rows * step + overlap, columns * step + overlap, 3), np.uint8)
    for top in range(0, rows * step, step):
        for left in range(0, columns * step, step):
            patch = canvas[top : top + block, left : left + block]
            new = _choose_block(sources, patch, overlap, bool(top), bool(left), generator)
            is_kept = np.zeros((block, block), bool)
            differences = np.square(patch.astype(np.float32) - new).sum(2)
            if left:
                is_kept[:, :overlap] |= before_cut(differences[:, :overlap])
            if top:
                is_kept[:overlap] |= before_cut(differences[:overlap].T).T
            patch[~is_kept] = new[~is_kept]
    return canvas[: size[0], : size[1]]


def before_cut(errors: Errors) -> NDArray[np.bool_]:
    """What lies left of the path of least total error from the first row to the last of [H, W], which moves by one column at most
    from a row to the next; the path itself lies right.
    """
    height, width = errors.shape
    total = np.full((height, width + 2), np.inf)  # with a column on either side that no path takes
    total[:, 1:-1] = errors
    for above, row in itertools.pairwise(total):
        row[1:-1] += np.minimum(np.minimum(above[:-2], above[1:-1]), above[2:])
    path = [int(total[-1].argmin())]
    for row in total[-2::-1]:
        first = path[-1] - 1
        path.append(first + int(row[first : first + 3].argmin()))
    return np.arange(1, width + 1) < np.array(path[::-1])[:, None]


def _choose_block(
    sources: list[Picture],
    patch: Picture,
    overlap: int,
    has_above: bool,
    has_left: bool,
    generator: np.random.Generator,
) -> Picture:
    """A block of the sources, one of those that differ least from what is there above and on its left."""
    block = len(patch)
    misfits = [_compare(source, patch, overlap, has_above, has_left) for source in sources]
    every = np.concatenate([errors.ravel() for errors in misfits])
    good = np.flatnonzero(every <= every.min() * (1 + TOLERANCE))
    chosen = int(good[generator.integers(len(good))])
    for source, errors in zip(sources, misfits, strict=True):
        if chosen < errors.size:
            y, x = divmod(chosen, errors.shape[1])
            return source[y : y + block, x : x + block]
        chosen -= errors.size
    raise AssertionError("a block of no source was chosen")


def _compare(source: Picture, patch: Picture, overlap: int, has_above: bool, has_left: bool) -> Errors:
    """Sums of squared differences for each place of a block in a source; what is above and left counts twice in the corner."""
    places = tuple(length - len(patch) + 1 for length in source.shape[:2])
    errors: Errors = np.zeros(places, np.float32)
    for is_present, strip in ((has_above, patch[:overlap]), (has_left, patch[:, :overlap])):
        if is_present:
            squares = cv2.matchTemplate(source, np.ascontiguousarray(strip), cv2.TM_SQDIFF)
            errors += squares[: places[0], : places[1]]
    return errors.round()


def _scale(pixels: int, photo: Picture) -> int:
    return max(1, round(pixels * min(photo.shape[:2]) / SIDE))
