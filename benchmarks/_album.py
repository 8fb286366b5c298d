"""Photos with masks and backgrounds, as files hold them and as this project prepares them."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks._models import PER_CLASS
from benchmarks._project import scratch_folder
from bgbias import seeds
from bgbias.backgrounds import draws, generated
from bgbias.backgrounds.draws import Pool
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import View
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import writing
from bgbias.images.inpainting import remove_object
from bgbias.photos import picture_cache
from bgbias.photos.picture_cache import Pictures
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.toy.render import specimens
from bgbias.training.batches import Epochs, TrainingPhotos
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

# Sizes are those of CUB200 and of the published backgrounds in the mean. With grain, in grey levels, enlarged toys take
# as long to decode as photos, and their masks as long as predicted ones.
PHOTO, BACKGROUND, SIDE = (500, 375), (1000, 1200), 256
GRAIN, GRAIN_OF_MASKS = 3.5, 1.0


class Album:
    """Encoded photos, masks and backgrounds, and the same in stores; photos come so many ``times``, under names of their own."""

    def __init__(self, photos: int, backgrounds: int, times: int = 1) -> None:
        self.folder = scratch_folder()
        toys, masks = specimens(photos, SIDE)
        walls = generated.pictures("textures", backgrounds, "benchmark", SIDE)
        photo, wall = {"format": "JPEG", "quality": 92}, {"format": "JPEG", "quality": 80}
        self.photos = times * [encode(_enlarge(toy, PHOTO, GRAIN), **photo) for toy in toys]
        self.masks = times * [encode(_enlarge(mask, PHOTO, GRAIN_OF_MASKS), format="PNG") for mask in masks]
        self.backgrounds = [encode(_enlarge(picture, BACKGROUND, GRAIN), **wall) for _, picture in walls]
        for name in ("photos", "masks", "backgrounds"):
            with writing(self.folder / f"{name}.zip") as store:
                for number, data in enumerate(getattr(self, name)):
                    store.add(f"{number:05d}", data)

    def table(self, count: int | None = None) -> ImageTable:
        """The first ``count`` photos, or all."""
        ids = [f"{number:05d}" for number in range(len(self.photos))][:count]
        rows = [[i, n // PER_CLASS, "class", "test", "bench|test", i] for n, i in enumerate(ids)]
        return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))

    def pictures(self, name: str, mode: str = "RGB") -> Pictures:
        """``photos``, ``masks`` or ``backgrounds``, prepared as this project keeps them."""
        return picture_cache.pictures(self.folder / f"{name}.zip", SIDE, self.folder, mode)

    def training(self, size: int, replaced: bool = True, device: str = "cpu") -> TrainingPhotos:
        """Training photos cropped to ``size``, with masks and backgrounds if these are to be ``replaced``."""
        table, photos = self.table(), self.pictures("photos")
        if not replaced:
            return TrainingPhotos(table, photos, size, device=device)
        masks, pool = self.pictures("masks", "L"), self.pictures("backgrounds")
        return TrainingPhotos(table, photos, size, masks, frozenset(table.ids), pool, device)

    def evaluation(self, size: int, count: int | None = None) -> EvaluationPhotos:
        """The first ``count`` photos, or all, as a test set with what replaces its backgrounds."""
        table, photos, masks = self.table(count), self.pictures("photos"), self.pictures("masks", "L")
        inpainted = picture_cache.combined("inpainted", self.folder, photos, masks, remove_object)
        return EvaluationPhotos(table, photos, size, masks, frozenset(table.ids), self.pool(), inpainted)

    def pool(self) -> Pool:
        """The backgrounds that test photos are put before."""
        return Pool(self.pictures("backgrounds"), draws.sizes(self.folder / "backgrounds.zip"))


def _enlarge(picture: np.ndarray, size: tuple[int, int], grain: float) -> np.ndarray:
    enlarged = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC))
    noise = seeds.generator("benchmark grain", size).normal(0, grain, enlarged.shape[:2])
    grainy = enlarged + (noise if enlarged.ndim == 2 else noise[..., None])
    return grainy.clip(0, 255).astype(np.uint8)


def encode(picture: np.ndarray, **options: Any) -> bytes:
    """A picture uint8 [H, W, 3] or [H, W] in a format of Pillow's."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, **options)
    return buffer.getvalue()


def views(draws: int) -> tuple[View, ...]:
    """A photo as it is and before ``draws`` other backgrounds."""
    return conditions.views((conditions.CLEAN, conditions.RANDOM_BACKGROUND), draws)


def epoch(photos: TrainingPhotos, batch: int, steps: int) -> Iterator[Batch]:
    """The batches of an epoch."""
    settings = Train(batch_size=batch, iterations_per_epoch=steps)
    return Epochs(photos, ("bench", 0), settings, PER_CLASS).batches(1)
