"""Test photos that need no files."""

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from bgbias.backgrounds.draws import Pool
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.images.inpainting import remove_object
from bgbias.photos.table import COLUMNS, ImageTable


def hash_number(text: str) -> int:
    """What is drawn for a name: the first eight bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Pictures:
    """A gallery in memory."""

    def __init__(self, pictures: dict[str, np.ndarray]) -> None:
        self.pictures = pictures
        self.ids = list(pictures)
        self.shapes = [picture.shape for picture in pictures.values()]

    def __getitem__(self, row: int) -> np.ndarray:
        return self.pictures[self.ids[row]]

    def row(self, image_id: str) -> int:
        return self.ids.index(image_id)

    def __contains__(self, image_id: str) -> bool:
        return image_id in self.pictures

    def get(self, image_id: str) -> np.ndarray:
        return self.pictures[image_id]


def of_rows(rows: Sequence[Sequence[object]]) -> ImageTable:
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def table(labels: dict[str, int]) -> ImageTable:
    """The test split of a dataset: photos by name, each with the number of its class."""
    return of_rows([(i, label, f"class {label}", "test", "toy|test", i) for i, label in labels.items()])


def split(
    photos: Sequence[np.ndarray],
    labels: Sequence[int],
    size: int,
    masks: Sequence[np.ndarray],
    trusted: Collection[int] | None = None,
    filled: Sequence[np.ndarray] | None = None,
    pool: Sequence[np.ndarray] | None = None,
) -> EvaluationPhotos:
    """Photos 0, 1, ..., which keys know as 100, 101, ...; ``trusted``: whose masks are, if not all; ``filled``: photos without
    their objects, if not by inpainting.
    """
    ids = [f"{n}.png" for n in range(len(photos))]
    rows = [(i, labels[n], "class", "test", "own|test", str(100 + n)) for n, i in enumerate(ids)]
    filled = [remove_object(*pair) for pair in zip(photos, masks, strict=True)] if filled is None else filled
    shown, drawn, empty = (Pictures(dict(zip(ids, of, strict=True))) for of in (photos, masks, filled))
    usable = frozenset(ids if trusted is None else (ids[n] for n in trusted))
    backgrounds = None if pool is None else Pool(pool)
    return EvaluationPhotos(of_rows(rows), shown, size, drawn, usable, backgrounds, empty)
