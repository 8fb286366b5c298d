"""Photos that show one view twice: the same file, a re-saved or slightly cropped one, shots of a burst, frames of a video.

Each photo becomes a grey picture of 32 x 32 pixels without its rim (frames are alike) and without what is smooth in it (so are
skies and walls); two whose detail correlates by more than ``ALIKE`` are near-duplicates. docs/data.md has how often that is
right. Mirrored or turned copies, and crops of more than a few percent, are not noticed.
"""

from collections.abc import Sequence

import numpy as np

ALIKE = 0.7  # correlation: independent photos of birds and groceries stay below .62, saved again at quality 20 above .99
SIDE, RIM = 32, 2
SMOOTH = 2.0  # standard deviation of what counts as smooth, pixels
FAINT = 1.0  # grey levels: detail that is weaker is noise
ALL_PAIRS = 20_000  # photos: of more, only those of one class are compared
BLOCK = 256


def thumbnail(grey: np.ndarray) -> np.ndarray:
    """What is kept of a photo, uint8 [32, 32], from its grey pixels uint8 [H, W]."""
    import cv2

    return np.asarray(cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA))


def find(thumbnails: np.ndarray, labels: np.ndarray, sums: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """For each of N photos the first one of its class, and the first one of another class, of which it is a near-duplicate: rows
    int64 [N] each, its own where there is none. ``thumbnails`` uint8 [N, 32, 32]; ``sums`` [N]: equal where files are, however
    little they show.
    """
    rows = np.arange(len(labels))
    _, first, copy_of = np.unique(sums, return_index=True, return_inverse=True)
    within, across = rows.copy(), np.where(labels[first[copy_of]] == labels, rows, first[copy_of])
    compared = [rows]
    if len(rows) > ALL_PAIRS:
        compared = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for part in compared:
        detail = _detail(thumbnails[part])
        for start in range(0, len(part), BLOCK):
            block = part[start : start + BLOCK]
            alike = detail[start : start + BLOCK] @ detail.T > ALIKE
            alike |= copy_of[block, None] == copy_of[part]
            for row, near in zip(block, alike, strict=True):
                earlier = part[near & (part < row)]
                earlier = earlier[within[earlier] == earlier]  # what stands for itself
                same = labels[earlier] == labels[row]
                within[row] = earlier[same].min(initial=row)
                across[row] = earlier[~same].min(initial=across[row])
    return within, across


def _detail(thumbnails: np.ndarray) -> np.ndarray:
    """Float32 [N, D], of unit length where there is any."""
    import cv2

    grey = thumbnails.astype(np.float32).reshape(-1, SIDE, SIDE)
    fine = np.array([picture - cv2.GaussianBlur(picture, (0, 0), SMOOTH) for picture in grey])
    inside = fine.reshape(grey.shape)[:, RIM:-RIM, RIM:-RIM].reshape(len(grey), (SIDE - 2 * RIM) ** 2)
    inside = inside - inside.mean(axis=1, keepdims=True)
    faint = FAINT * (SIDE - 2 * RIM)  # the length of detail of so many levels
    return inside / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), faint)
