"""Where a model looks, when it gives no gradients: places are blurred one after the other, and the embedding moves or does not.

After occlusion sensitivity (Zeiler & Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014). A place is a cell
of a grid; it is blurred and not greyed, so that no edge is drawn where there was none. The map has a cell's value at each of its
pixels: the cosine that the embedding loses.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

CELLS = 7  # on a side


def occluded(photo: np.ndarray) -> Iterator[np.ndarray]:
    """The photo uint8 [S, S, 3] as it is, then with each cell of the grid blurred, row by row."""
    import cv2

    size = len(photo)
    blurred = np.asarray(cv2.GaussianBlur(photo, (0, 0), size / CELLS))
    yield photo
    for rows, columns in _cells(size):
        hidden = photo.copy()
        hidden[rows, columns] = blurred[rows, columns]
        yield hidden


def occlusion_map(vectors: np.ndarray, size: int) -> np.ndarray:
    """A photo's map float64 [S, S] from the unit vectors [1 + cells, D] of what ``occluded`` gave; never below 0."""
    lost = np.maximum(0, 1 - vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64))
    found = np.zeros((size, size))
    for (rows, columns), value in zip(_cells(size), lost, strict=True):
        found[rows, columns] = value
    return found


def _cells(size: int) -> Iterator[tuple[slice, slice]]:
    edges = np.linspace(0, size, min(CELLS, size) + 1).round().astype(int)
    spans = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    for rows in spans:
        for columns in spans:
            yield rows, columns
