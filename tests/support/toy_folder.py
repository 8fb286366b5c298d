"""Toys as a person's folder of photos, with drawn masks; and a model of hers in a file."""

from __future__ import annotations

from pathlib import Path

from bgbias.datasets import toy

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


def made(folder: Path, correlation: float = 0.9, classes: int = CLASSES, per_class: int = PER_CLASS) -> None:
    """``photos/<class>/<n>.png``, ``masks/`` alike, ``walls/`` and ``my_model.py``."""
    from bgbias.backgrounds import generated
    from bgbias.images.pixels import encode_png

    params = toy.Params(
        test_correlation=correlation,
        train_classes=1,
        val_classes=1,
        test_classes=classes,
        photos_per_class=per_class,
    )
    for item in toy.items(params):
        if item.split == "test":
            place = item.image_id.removeprefix("test/")
            for name, data in (("photos", item.data), ("masks", item.truth)):
                path = folder / name / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data or b"")
    (folder / "walls").mkdir()
    for name, wall in generated.pictures("gradients", 6, "test", 64):
        (folder / "walls" / f"{name}.png").write_bytes(encode_png(wall))
    (folder / "my_model.py").write_text(COLOURS)
