"""Toys as a person's folder of photos, with drawn masks; and a model of hers in a file."""

from pathlib import Path

from miniatures import as_folder

from bgbias.backgrounds import generated
from bgbias.datasets import toy
from bgbias.images.pixels import encode_png

CLASSES, PER_CLASS = 6, 5
# Where colours lie on a coarse grid: it sees object and background alike.
COLOURS = '''
import torch
from torch import nn


class Colours(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)


def build():
    return Colours()


def pictures(batch):
    """A function: what is no network has no gradients."""
    return [photo.reshape(-1, 3).mean(0) for photo in batch]
'''


def made(folder: Path, classes: int = CLASSES, per_class: int = PER_CLASS) -> None:
    """``photos/<class>/<n>.png``, ``masks/`` alike, ``walls/`` and ``my_model.py``."""
    walls = generated.pictures("gradients", 6, "test", 64)
    files = {"my_model.py": COLOURS.encode()} | {f"walls/{n}.png": encode_png(wall) for n, wall in walls}
    few = {"train_classes": 1, "val_classes": 1, "test_classes": classes, "photos_per_class": per_class}
    for item in toy.items(toy.Params(test_correlation=0.9, **few)):
        if item.split == "test":
            place = item.image_id.removeprefix("test/")
            files |= {f"photos/{place}": item.data, f"masks/{place}": item.truth or b""}
    as_folder(folder, files)
