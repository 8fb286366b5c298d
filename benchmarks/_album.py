"""Photos, masks and backgrounds as the published study had them on its disk, prepared as this project keeps them, and the data
path of the published code.

Sizes are those of CUB200 (500 x 375 pixels and 98 kB in the mean) and of the published backgrounds (1,000 pixels wide). The
photos are real ones where the shared data are at hand, else drawn; those that had been reduced are enlarged again, with grain, so
that they take as long to decode as the originals.
"""

from __future__ import annotations

import io
import itertools
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from benchmarks._project import scratch_folder
from bgbias import seeds
from bgbias.backgrounds import draws
from bgbias.backgrounds import generated as procedural
from bgbias.backgrounds.draws import Pool
from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files import places
from bgbias.files.archives import members
from bgbias.files.pictures import is_picture
from bgbias.files.store import writing
from bgbias.images.inpainting import remove_object
from bgbias.images.pixels import RelativeBox
from bgbias.models.preprocess import Preprocess
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.training.batches import TrainingPhotos

PHOTO = (500, 375)
BACKGROUND_WIDTH = 1000
GRAIN = 3.5  # grey levels
SHARED_PHOTOS, SHARED_BACKGROUNDS = "shared:cub200_first50.tgz", "shared:backgrounds_val.zip"
BICUBIC = Image.Resampling.BICUBIC
SIDE = 256
PER_CLASS = 4


@dataclass(frozen=True)
class Files:
    """Encoded pictures on a disk, in the same order: photos and their masks; and backgrounds."""

    folder: Path
    photos: list[Path]
    masks: list[Path]
    backgrounds: list[Path]


def album(photos: int, backgrounds: int, times: int = 1) -> Files:
    """Pictures as files and in stores, in a temporary folder; each photo so many ``times``, under names of its own."""
    made = _files(photos, backgrounds)
    for n in range(photos, times * photos):
        photo, mask = made.photos[n - photos], made.masks[n - photos]
        made.photos.append(made.folder / f"photo_{n:03d}{photo.suffix}")
        made.masks.append(made.photos[-1].with_suffix(mask.suffix))
        shutil.copy(photo, made.photos[-1])
        shutil.copy(mask, made.masks[-1])
    for name, listed in (("photos", made.photos), ("masks", made.masks), ("pool", made.backgrounds)):
        with writing(made.folder / f"{name}.zip") as store:
            for path in listed:
                store.add(path.stem, path.read_bytes())
    return made


def _files(photos: int, backgrounds: int) -> Files:
    folder = scratch_folder()
    made = Files(folder, [], [], [])
    for n, picture in enumerate(_pictures(SHARED_PHOTOS, "photo", photos)):
        made.photos.append(folder / f"photo_{n:03d}.jpg")
        _grainy(picture.resize(PHOTO, BICUBIC), n).save(made.photos[-1], quality=92)
    for n, picture in enumerate(_pictures(SHARED_BACKGROUNDS, "background", backgrounds)):
        made.backgrounds.append(folder / f"background_{n:03d}.jpg")
        size = (BACKGROUND_WIDTH, round(BACKGROUND_WIDTH * picture.height / picture.width))
        _grainy(picture.resize(size, BICUBIC), n).save(made.backgrounds[-1], quality=80)
    for path in made.photos:
        mask = path.with_suffix(".png")
        _mask(path.stem).save(mask)
        made.masks.append(mask)
    return made


def training(made: Files, size: int, replaced: bool = True, device: str = "cpu") -> TrainingPhotos:
    """Training photos cropped to ``size``, with masks and backgrounds if these are to be ``replaced``."""
    ids = [p.stem for p in made.photos]
    photos, masks = _prepared(made)
    if not replaced:
        return TrainingPhotos(_table(ids), photos, size, device=device)
    pool = picture_cache.pictures(made.folder / "pool.zip", SIDE, made.folder)
    return TrainingPhotos(_table(ids), photos, size, masks, frozenset(ids), pool, device)


def evaluation(made: Files, size: int, count: int | None = None) -> EvaluationPhotos:
    """The same as a test set, with what replaces its backgrounds; only the first ``count`` photos if given."""
    ids = [p.stem for p in made.photos][:count]
    store = made.folder / "pool.zip"
    pool = Pool(picture_cache.pictures(store, SIDE, made.folder), draws.sizes(store))
    photos, masks = _prepared(made)
    inpainted = picture_cache.combined(f"inpainted-{SIDE}", made.folder, photos, masks, remove_object)
    return EvaluationPhotos(_table(ids), photos, size, masks, frozenset(ids), pool, inpainted)


def views(draws: int) -> tuple[View, ...]:
    """A photo as it is and before ``draws`` other backgrounds."""
    return conditions.views((conditions.CLEAN, conditions.RANDOM_BACKGROUND), draws)


def _prepared(made: Files) -> tuple[picture_cache.Pictures, picture_cache.Pictures]:
    return (
        picture_cache.pictures(made.folder / "photos.zip", SIDE, made.folder),
        picture_cache.pictures(made.folder / "masks.zip", SIDE, made.folder, "L"),
    )


def _table(ids: list[str]) -> ImageTable:
    rows = [[i, n // PER_CLASS, "class", "test", "bench|test", i] for n, i in enumerate(ids)]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def _pictures(source: str, name: str, count: int) -> Iterator[Image.Image]:
    """So many pictures of the shared archive, or drawn ones without it; an archive of fewer is an error."""
    place = places.source(source)
    if not place.exists():
        for _, drawn in procedural.pictures("textures", count, name, 256):
            yield Image.fromarray(drawn)
        return
    found = 0
    for _, data in itertools.islice(members(place, is_picture), count):
        yield Image.open(io.BytesIO(data)).convert("RGB")
        found += 1
    if found < count:
        raise UserError(
            f"{place} has {found} pictures, and {count} are measured; fetch it again, or set BGBIAS_SHARED_DATA to a folder"
            " without it, so that they are drawn."
        )


def _grainy(picture: Image.Image, n: int) -> Image.Image:
    grain = seeds.generator("benchmark grain", n).normal(0, GRAIN, (picture.height, picture.width, 1))
    return Image.fromarray((np.asarray(picture) + grain).clip(0, 255).astype(np.uint8))


def _mask(name: str) -> Image.Image:
    """A soft-edged blob somewhere near the middle, as clean as predicted masks are: not quite."""
    rng = seeds.generator("benchmark mask", name)
    mask = Image.new("L", PHOTO)
    centre = np.array(PHOTO) * rng.uniform(0.4, 0.6, 2)
    for _ in range(6):
        middle, radius = centre + rng.normal(0, 50, 2), rng.uniform(20, 90, 2)
        ImageDraw.Draw(mask).ellipse([*(middle - radius), *(middle + radius)], fill=255)
    blurred = np.asarray(mask.filter(ImageFilter.GaussianBlur(2)), np.float64)
    return Image.fromarray((blurred + rng.normal(0, 1, blurred.shape)).clip(0, 255).astype(np.uint8))


# The data path of the published code (docs/methods.md, sections 1 and 2), on the main process: every picture is opened, decoded
# and resized each time it is shown, and turned into normalised numbers before it is mixed.

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
        """Each draw is a pass of its own: original photos, and the same on random backgrounds."""
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
