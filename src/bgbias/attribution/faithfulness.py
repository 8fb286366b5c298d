"""Whether what a map points at is what moves the embedding: places are taken out of the photo in the map's order.

After ROAD (Rong et al., A Consistent and Efficient Evaluation Strategy for Attribution Methods, ICML 2022): what is taken out is
filled by noisy linear imputation from around it, so that neither grey holes nor their outlines move the embedding. Places are
cells of 4 x 4 pixels; a photo's value is the mean over fractions of how much nearer to the photo the embedding stays if the
places of least attribution go than if those of most go. 0 is no better than chance, 1 the most there can be for vectors that are
not opposed.
"""

from collections.abc import Iterator

import numpy as np

CELL = 4
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# ROAD's, of the eight neighbours: beside and above, and across the corners; its noise, in grey levels.
STRAIGHT, ACROSS, NOISE = 1 / 6, 1 / 12, 2.55
STEPS = [(0, 1, STRAIGHT), (1, 0, STRAIGHT), (1, 1, ACROSS), (1, -1, ACROSS)]


def removals(photo: np.ndarray, attribution: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """The photo uint8 [S, S, 3] without the share ``FRACTIONS`` of the places of most attribution [S, S], then without those of
    least, uint8 [S, S, 3] each.
    """
    import cv2

    cells = max(1, len(photo) // CELL)
    shape = (cells, cells)
    strengths = np.asarray(cv2.resize(attribution.astype(np.float64), shape, interpolation=cv2.INTER_AREA))
    order = np.argsort(-strengths.ravel(), kind="stable")
    for first in (order, order[::-1]):
        for fraction in FRACTIONS:
            gone = np.zeros(cells * cells, bool)
            gone[first[: round(fraction * len(first))]] = True
            yield without(photo, gone.reshape(shape), random)


def without(photo: np.ndarray, gone: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The photo with the cells ``gone`` [s, s] filled from around them."""
    import cv2

    size = len(photo)
    means = np.asarray(cv2.resize(photo.astype(np.float64), gone.shape, interpolation=cv2.INTER_AREA))
    filled = imputed(means, gone) + random.normal(0, NOISE, means.shape) * gone[..., None]
    smooth = np.asarray(cv2.resize(filled, (size, size), interpolation=cv2.INTER_LINEAR))
    place = np.arange(size) * len(gone) // size
    hole = gone[place[:, None], place]
    return np.where(hole[..., None], np.clip(np.rint(smooth), 0, 255), photo).astype(np.uint8)


def imputed(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Values [s, s, c] of which those ``gone`` [s, s] become the weighted mean of their neighbours, all at once.

    All gone, there is nothing to fill from: 0.
    """
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import splu

    filled = values.astype(np.float64)
    if not gone.any():
        return filled
    if gone.all():
        return np.zeros_like(filled)
    index = np.arange(gone.size).reshape(gone.shape)
    pairs = []
    for down, right, weight in STEPS:
        a, b = index[: len(gone) - down], index[down:]
        if right > 0:
            a, b = a[:, :-right], b[:, right:]
        elif right < 0:
            a, b = a[:, -right:], b[:, :right]
        pairs += [(a.ravel(), b.ravel(), weight), (b.ravel(), a.ravel(), weight)]
    rows, columns = (np.concatenate([pair[n] for pair in pairs]) for n in (0, 1))
    weights = np.concatenate([np.full(len(pair[0]), pair[2]) for pair in pairs])
    beside = coo_array((weights, (rows, columns)), shape=(gone.size, gone.size)).tocsr()
    hole = gone.ravel()
    laplacian = (diags_array(beside.sum(axis=1)) - beside).tocsr()
    flat = filled.reshape(gone.size, -1)
    flat[hole] = splu(laplacian[hole][:, hole].tocsc()).solve(-(laplacian[hole][:, ~hole] @ flat[~hole]))
    return flat.reshape(filled.shape)


def area(kept: np.ndarray) -> np.ndarray:
    """A photo's value from the cosines [..., 2 x fractions] of what ``removals`` gave to the photo as it is."""
    most, least = np.split(kept, 2, axis=-1)
    between: np.ndarray = (least - most).mean(axis=-1)
    return between
