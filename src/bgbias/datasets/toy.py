"""Toys: rendered objects on procedural scenes, with a background bias one can dial. What is object is known exactly.

``correlation`` is the probability that a photo stands in front of its own class's scene; otherwise it stands in front of one of
a common set of scenes. Objects, poses, light and masks are the same at every value, and a photo that stands in front of its own
scene at one value does so at every higher one: only backgrounds change, so that differences between two values are their doing.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from bgbias import seeds
from bgbias.files.fetch import Source
from bgbias.images.pixels import encode_png
from bgbias.photos.table import Item
from bgbias.settings import Strict
from bgbias.toy import render, scenes

KEY = "toy"
_scene = lru_cache(maxsize=1024)(scenes.scene)


class Params(Strict):
    """How biased, and how large; validation photos have the correlation of the training photos."""

    train_correlation: float = Field(0.0, ge=0, le=1)
    test_correlation: float = Field(0.0, ge=0, le=1)
    size: int = Field(64, ge=16, le=1024, description="side of the photos in pixels")
    train_classes: int = Field(24, ge=1)
    val_classes: int = Field(8, ge=1)
    test_classes: int = Field(16, ge=1)
    photos_per_class: int = Field(30, ge=1)
    common_scenes: int = Field(200, ge=1, description="scenes of each split that belong to no class")
    seed: int = Field(0, ge=0)


def parts(params: Params) -> dict[str, tuple[Source, ...]]:
    return {}


def truth(params: Params) -> str:
    return "masks"


def expected(params: Params) -> dict[str, int]:
    return {split: classes * params.photos_per_class for split, classes in _splits(params)}


def items(params: Params, parts: dict[str, Path] | None = None, name: str = "") -> Iterator[Item]:
    """The photos and their true masks as PNG, split by split, class by class; labels go on through the splits."""
    label = 0
    for split, classes in _splits(params):
        for c in range(classes):
            toy = render.toy(params.seed, split, c)
            class_name = f"{label:03d}_{toy.kind}"
            for n in range(params.photos_per_class):
                shot = render.shoot(toy, render.pose(params.seed, split, c, n), params.size)
                scene = _scene(*scene_of(params, split, c, n), params.seed)
                glance = scenes.glance(params.seed, split, c, n)
                photo = render.expose(shot, scenes.photograph(scene, glance, params.size))
                yield Item(
                    image_id=f"{split}/{class_name}/{n:03d}.png",
                    class_name=class_name,
                    label=label,
                    split=split,
                    key_set=f"{KEY}|{split}",
                    key_item=str(c * params.photos_per_class + n),
                    data=encode_png(photo),
                    truth=encode_png(render.mask_pixels(shot)),
                )
            label += 1


def scene_of(params: Params, split: str, c: int, n: int) -> tuple[str, int]:
    """The identity (role, number) of the scene behind photo ``n`` of the split's class ``c``."""
    rng = seeds.generator("toy", params.seed, "stage", split, c, n)
    chance, other = rng.random(), int(rng.integers(params.common_scenes))
    correlation = params.test_correlation if split == "test" else params.train_correlation
    return (f"{split} classes", c) if chance < correlation else (f"{split} common", other)


def _splits(params: Params) -> tuple[tuple[str, int], ...]:
    return ("train", params.train_classes), ("val", params.val_classes), ("test", params.test_classes)
