"""Coloured squares before noise, with exact masks; some of them spoilt on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
    for label, split in enumerate(splits):
        for number in range(1 if label in params.lonely else params.photos):
            item = _item(params, label, split, number)
            shared = label % params.train_classes if params.closed and split == "test" else label
            yield replace(item, label=shared, class_name=f"colour {shared}")


def _item(params: Params, label: int, split: str, number: int) -> Item:
    image_id = f"{label:02d}/{number}.png"
    rng = seeds.generator("square", label, number)
    colour = seeds.generator("colour", label).integers(0, 256, 3)
    side = params.size
    photo = rng.integers(0, 256, (side, side + 6, 3), dtype=np.uint8)
    truth = np.zeros(photo.shape[:2], np.uint8)
    top, left = rng.integers(0, side // 2, 2)
    truth[top : top + side // 2, left : left + side // 2] = 255
    photo[truth > 0] = colour
    if image_id in params.empty_mask:
        truth[:] = 0
    data = pixels.encode_png(photo)
    return Item(
        image_id=image_id,
        class_name=f"colour {label}",
        label=label,
        split=split,
        key_set=f"squares|{split}",
        key_item=image_id,
        data=data[: len(data) // 2] if image_id in params.truncated else data,
        truth=None if image_id in params.without_mask else pixels.encode_png(truth),
    )
