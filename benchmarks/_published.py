"""The data path of the published code (docs/methods.md, sections 1 and 2), on the main process: every picture is opened, decoded
and resized each time it is shown, and turned into normalised numbers before it is mixed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from benchmarks._album import SIDE, Files
from bgbias.images.pixels import RelativeBox
from bgbias.models.preprocess import Preprocess

SCALE, RATIO = (0.16, 1.0), (0.75, 1.33)


@dataclass(frozen=True)
class Part:
    """A crop of a picture: (top, left, height, width) in pixels of a picture of this (width, height), mirrored or not."""

    box: tuple[int, int, int, int]
    flip: bool
    of: tuple[int, int]

    @property
    def relative(self) -> tuple[RelativeBox, bool]:
        """The same as this project names it."""
        (top, left, height, width), (w, h) = self.box, self.of
        return RelativeBox(left / w, top / h, width / w, height / h), self.flip


class PublishedPhotos:
    """Photos as the published datasets and transforms give them."""

    def __init__(self, files: Files, size: int, preprocess: Preprocess) -> None:
        self.files, self._size, self._preprocess = files, size, preprocess

    def training(self, rows: list[int]) -> Tensor:
        """A batch of photos before random backgrounds, normalised [B, 3, S, S]."""
        photos, masks = zip(*(self.cropped(row) for row in rows), strict=True)
        behind = [self.background() for _ in rows]
        return mixed(torch.stack(photos), torch.stack(masks), torch.stack(behind))

    def evaluation(self, rows: list[int], draws: int) -> list[Tensor]:
        """Each draw is a pass of its own: the photos as they are, and before random backgrounds."""
        seen = []
        for _ in range(draws):
            photos, masks = zip(*(self.middle(row) for row in rows), strict=True)
            clean, mask = torch.stack(photos), torch.stack(masks)
            seen += [clean, mixed(clean, mask, torch.stack([self.background() for _ in rows]))]
        return seen

    def cropped(self, row: int, part: Part | None = None) -> tuple[Tensor, Tensor]:
        """Photo and mask, the same part of both, a random one if none is given."""
        photo, mask = _resized(self.files.photos[row], "RGB"), _resized(self.files.masks[row], "L")
        part = part or random_part(photo)
        return self._normalised(self._crop(photo, part)), F.to_tensor(self._crop(mask, part))

    def middle(self, row: int) -> tuple[Tensor, Tensor]:
        """Photo and mask cropped in the middle."""
        photo, mask = _resized(self.files.photos[row], "RGB"), _resized(self.files.masks[row], "L")
        size = [self._size, self._size]
        return self._normalised(F.center_crop(photo, size)), F.to_tensor(F.center_crop(mask, size))

    def background(self, path: Path | None = None, part: Part | None = None) -> Tensor:
        """A random one if none is given, always cropped at random, also in evaluation."""
        photo = _resized(path or random.choice(self.files.backgrounds), "RGB")
        return self._normalised(self._crop(photo, part or random_part(photo)))

    def _crop(self, picture: Image.Image, part: Part) -> Image.Image:
        crop = F.resized_crop(picture, *part.box, [self._size, self._size])
        return F.hflip(crop) if part.flip else crop

    def _normalised(self, picture: Image.Image) -> Tensor:
        p = self._preprocess
        x = F.to_tensor(picture)
        x = x[[2, 1, 0]] if p.order == "bgr" else x
        return F.normalize(x * (255 * p.scale), list(p.mean), list(p.std))


def random_part(picture: Image.Image) -> Part:
    """A random crop in whole pixels."""
    return Part(
        transforms.RandomResizedCrop.get_params(picture, list(SCALE), list(RATIO)),
        random.random() < 0.5,
        picture.size,
    )


def mixed(photos: Tensor, masks: Tensor, backgrounds: Tensor) -> Tensor:
    """Normalised photos before backgrounds."""
    return masks * photos + (1 - masks) * backgrounds


def part_of(path: Path) -> Part:
    """A random crop of a picture as it is resized."""
    return random_part(_resized(path, "RGB"))


def _resized(path: Path, mode: str) -> Image.Image:
    """With short side 256."""
    with Image.open(path) as picture:
        return F.resize(picture.convert(mode), SIDE)
