"""The data path of the published code (METHODS sections 1 and 2), on the main process: every picture is opened, decoded and
resized each time it is shown, and turned into normalised numbers before it is mixed.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from bgbias.benchmarks._album import SIDE, Files
from bgbias.images import Preprocess

SCALE, RATIO = (0.16, 1.0), (0.75, 1.33)


class PublishedPhotos:
    """Photos as the published datasets and transforms give them."""

    def __init__(self, files: Files, size: int, preprocess: Preprocess) -> None:
        self.files, self._size, self._preprocess = files, size, preprocess

    def training(self, rows: list[int]) -> Tensor:
        """A batch of photos before random backgrounds, normalised [B, 3, S, S]."""
        photos, masks = zip(*(self._cropped_at_random(row) for row in rows), strict=True)
        behind = [self.background() for _ in rows]
        return _mixed(torch.stack(photos), torch.stack(masks), torch.stack(behind))

    def evaluation(self, rows: list[int], draws: int) -> list[Tensor]:
        """Each draw is a pass of its own: the photos as they are, and before random backgrounds."""
        seen = []
        for _ in range(draws):
            photos, masks = zip(*(self._cropped_in_the_middle(row) for row in rows), strict=True)
            clean, mask = torch.stack(photos), torch.stack(masks)
            seen += [clean, _mixed(clean, mask, torch.stack([self.background() for _ in rows]))]
        return seen

    def background(self) -> Tensor:
        """A random one, always cropped at random, also in evaluation."""
        photo = F.resize(_opened(random.choice(self.files.backgrounds), "RGB"), SIDE)
        box = transforms.RandomResizedCrop.get_params(photo, list(SCALE), list(RATIO))
        return self._normalised(self.crop(photo, box, random.random() < 0.5))

    def crop(self, picture: Image.Image, box: tuple[int, int, int, int], flip: bool) -> Image.Image:
        """Its part (top, left, height, width), resized to the network's input."""
        part = F.resized_crop(picture, *box, [self._size, self._size])
        return F.hflip(part) if flip else part

    def resized(self, row: int) -> tuple[Image.Image, Image.Image]:
        """Photo and mask with short side 256."""
        pair = _opened(self.files.photos[row], "RGB"), _opened(self.files.masks[row], "L")
        return F.resize(pair[0], SIDE), F.resize(pair[1], SIDE)

    def _cropped_at_random(self, row: int) -> tuple[Tensor, Tensor]:
        photo, mask = self.resized(row)
        box = transforms.RandomResizedCrop.get_params(photo, list(SCALE), list(RATIO))
        flip = random.random() < 0.5
        return self._normalised(self.crop(photo, box, flip)), F.to_tensor(self.crop(mask, box, flip))

    def _cropped_in_the_middle(self, row: int) -> tuple[Tensor, Tensor]:
        photo, mask = self.resized(row)
        size = [self._size, self._size]
        return self._normalised(F.center_crop(photo, size)), F.to_tensor(F.center_crop(mask, size))

    def _normalised(self, picture: Image.Image) -> Tensor:
        p = self._preprocess
        x = F.to_tensor(picture)
        x = x[[2, 1, 0]] if p.order == "bgr" else x
        return F.normalize(x * (255 * p.scale), list(p.mean), list(p.std))


def _opened(path: Path, mode: str) -> Image.Image:
    with Image.open(path) as picture:
        return picture.convert(mode)


def _mixed(photos: Tensor, masks: Tensor, backgrounds: Tensor) -> Tensor:
    return masks * photos + (1 - masks) * backgrounds
