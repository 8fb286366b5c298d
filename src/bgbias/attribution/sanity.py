"""What an attribution score is worth: networks that have forgotten what they learned, maps that never saw a photo, and whether
what a map points at is what moves the embedding.

Networks forget from the top down, after the cascading randomisation of Adebayo et al. (Sanity Checks for Saliency Maps, NeurIPS
2018): what a map shows of them, it does not show of the training. Entries of each tensor are permuted and not drawn anew, so that
the network's magnitudes, and what its batch norms know of them, stay as they are.

Places are taken out of the photo in the map's order, after ROAD (Rong et al., A Consistent and Efficient Evaluation Strategy for
Attribution Methods, ICML 2022): what is taken out is filled by noisy linear imputation from around it, so that neither grey holes
nor their outlines move the embedding. Places are cells of 4 x 4 pixels; a photo's value is the mean over fractions of how much
nearer to the photo the embedding stays if the places of least attribution go than if those of most go. 0 is no better than
chance, 1 the most there can be for vectors that are not opposed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds
from bgbias.compute.lazy import torch

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel

# From the embedding layer alone to everything: the share of the trunk's tensors, from the top, that goes with it.
LEVELS = {"embedder": 0.0, "upper_half": 0.5, "all": 1.0}
CELL = 4
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# ROAD's, of the eight neighbours: beside and above, and across the corners; its noise, in grey levels.
STRAIGHT, ACROSS, NOISE = 1 / 6, 1 / 12, 2.55


def randomise(model: EmbeddingModel, level: str) -> EmbeddingModel:
    """A copy of which all above the trunk, and the level's share of the trunk's tensors from the top, are permuted."""
    network = copy.deepcopy(model)
    trunk = [(name, tensor) for name, tensor in network.named_parameters() if name.startswith("trunk.")]
    above = [(name, tensor) for name, tensor in network.named_parameters() if not name.startswith("trunk.")]
    top = trunk[len(trunk) - round(LEVELS[level] * len(trunk)) :]
    with torch.no_grad():
        for name, tensor in (*top, *above):
            order = torch.randperm(tensor.numel(), generator=seeds.torch_generator("randomised", name))
            tensor.copy_(tensor.flatten()[order.to(tensor.device)].view_as(tensor))
    return network


def centre(size: int) -> np.ndarray:
    """The centre prior [size, size]: 1 in the middle, less with distance, 0 in the corners.

    People who take photos put the object into the middle: what a map does not beat, nobody needs.
    """
    places = np.linspace(-1, 1, size)
    return 1 - np.hypot(places[:, None], places) / np.sqrt(2)


def noise(size: int, key: tuple[str, str]) -> np.ndarray:
    """Noise [size, size] under a Gaussian blur of an eighth of the side: blobs, another map for each photo, 0..1."""
    import cv2

    numbers = seeds.generator("blurred noise", *key).normal(size=(size, size)).astype(np.float32)
    blurred = np.asarray(cv2.GaussianBlur(numbers, (0, 0), size / 8))
    return (blurred - blurred.min()) / max(float(np.ptp(blurred)), np.finfo(np.float32).tiny)


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
            is_gone = np.zeros(cells * cells, bool)
            is_gone[first[: round(fraction * len(first))]] = True
            yield blur_cells(photo, is_gone.reshape(shape), random)


def blur_cells(photo: np.ndarray, is_gone: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The photo with the cells ``is_gone`` [s, s] filled from around them."""
    import cv2

    size = len(photo)
    means = np.asarray(cv2.resize(photo.astype(np.float64), is_gone.shape, interpolation=cv2.INTER_AREA))
    filled = impute(means, is_gone) + random.normal(0, NOISE, means.shape) * is_gone[..., None]
    smooth = np.asarray(cv2.resize(filled, (size, size), interpolation=cv2.INTER_LINEAR))
    cells = np.arange(size) * len(is_gone) // size
    hole = is_gone[cells[:, None], cells]
    return np.where(hole[..., None], np.clip(np.rint(smooth), 0, 255), photo).astype(np.uint8)


def impute(values: np.ndarray, is_gone: np.ndarray) -> np.ndarray:
    """Values [s, s, c] of which those ``is_gone`` [s, s] become the weighted mean of their neighbours, all at once.

    All gone, there is nothing to fill from: 0.
    """
    from scipy.sparse import diags_array, eye_array, kron
    from scipy.sparse.linalg import splu

    filled = values.astype(np.float64)
    if not is_gone.any():
        return filled
    if is_gone.all():
        return np.zeros_like(filled)
    down, across = (eye_array(n, k=1) + eye_array(n, k=-1) for n in is_gone.shape)
    rows, columns = map(eye_array, is_gone.shape)
    straight = kron(down, columns) + kron(rows, across)
    weights = (STRAIGHT * straight + ACROSS * kron(down, across)).tocsr()
    hole = is_gone.ravel()
    laplacian = (diags_array(weights.sum(axis=1)) - weights).tocsr()
    flat = filled.reshape(is_gone.size, -1)
    flat[hole] = splu(laplacian[hole][:, hole].tocsc()).solve(-(laplacian[hole][:, ~hole] @ flat[~hole]))
    return flat.reshape(filled.shape)


def area(cosines: np.ndarray) -> np.ndarray:
    """A photo's value from the cosines [..., 2 x fractions] of what ``removals`` gave to the photo as it is."""
    most, least = np.split(cosines, 2, axis=-1)
    between: np.ndarray = (least - most).mean(axis=-1)
    return between
