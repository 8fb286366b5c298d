"""Coloured squares before noise, with exact masks; some of them spoilt on demand."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bgbias import seeds
from bgbias.files.fetch import Source
from bgbias.images import pixels
from bgbias.photos.table import Item
from bgbias.settings import Strict


class Params(Strict):
    """How many, and the ids (``class/number.png``) of those that something is wrong with."""

    train_classes: int = 8
    val_classes: int = 4
    test_classes: int = 4
    photos: int = 5
    size: int = 40
    truncated: tuple[str, ...] = ()
    without_mask: tuple[str, ...] = ()
    empty_mask: tuple[str, ...] = ()
    lonely: tuple[int, ...] = ()
    closed: bool = False
    """Test photos are said to be of the training classes."""


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    """None: they are drawn."""
    return {}


def truth(params: Params) -> str:
    """Their masks."""
    return "masks"


def items(params: Params, parts: dict[str, Path], name: str) -> Iterator[Item]:
    """The squares, class after class."""
    splits = ["train"] * params.train_classes + ["val"] * params.val_classes + ["test"] * params.test_classes
    for number, split in enumerate(splits):
        label = number % params.train_classes if params.closed and split == "test" else number
        for place in range(1 if number in params.lonely else params.photos):
            image_id = f"{number:02d}/{place}.png"
            photo, truth = _draw(number, place, params.size)
            if image_id in params.empty_mask:
                truth[:] = 0
            data = pixels.encode_png(photo)
            if image_id in params.truncated:
                data = data[: len(data) // 2]
            mask = None if image_id in params.without_mask else pixels.encode_png(truth)
            yield Item(image_id, f"colour {label}", label, split, f"squares|{split}", image_id, data, mask)


def _draw(number: int, place: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    rng = seeds.generator("square", number, place)
    photo = rng.integers(0, 256, (side, side + 6, 3), dtype=np.uint8)
    truth = np.zeros(photo.shape[:2], np.uint8)
    top, left = rng.integers(0, side // 2, 2)
    truth[top : top + side // 2, left : left + side // 2] = 255
    photo[truth > 0] = seeds.generator("colour", number).integers(0, 256, 3)
    return photo, truth
