"""Photos, masks and backgrounds as the published study had them on its disk, and prepared as this project keeps them.

Sizes are those of CUB200 (500 x 375 pixels and 98 kB in the mean) and of the published backgrounds (1,000 pixels wide). The
photos are real ones where the shared data are at hand, else drawn; those that had been reduced are enlarged again, with grain, so
that they take as long to decode as the originals.
"""

from __future__ import annotations

import io
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFilter

from benchmarks._scratch import scratch_folder
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
