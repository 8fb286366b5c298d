"""Photos, masks and photos without their objects, as models of one look see them: made once for all of these models."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.auditing.resumable import ResumableRows, count_missing
from bgbias.images.inpainting import remove_object
from bgbias.masks import quality
from bgbias.masks.policy import Mask
from bgbias.models.look import Look
from bgbias.photos.picture_cache import Pictures, prepare
from bgbias.photos.table import ImageTable

MEASURED = ("area", "clarity", "agreement")
FAMILY = "pixels"
PHOTO, MASK, BACKGROUND, SECOND = slice(0, 3), 3, slice(4, 7), 7  # channels
PIXEL = 7  # bytes, and one of a second mask where there is one
Decoded = tuple[np.ndarray, Mask | None, Mask | None]  # a photo uint8 [H, W, 3], its mask and a second one


@dataclass(frozen=True)
class Channels:
    """Some channels of prepared pixels by image id: what ``EvaluationPhotos`` asks of pictures."""

    pixels: Pictures
    channels: slice | int
    ids: frozenset[str]

    def __contains__(self, image_id: str) -> bool:
        return image_id in self.ids

    def get(self, image_id: str) -> np.ndarray:
        """uint8 [S, S, 3] or [S, S]; an unknown id is a KeyError."""
        return self[self.row(image_id)]

    def row(self, image_id: str) -> int:
        """The row of its pixels; an unknown id is a KeyError."""
        if image_id not in self.ids:
            raise KeyError(image_id)
        return self.pixels.row(image_id)

    def __getitem__(self, row: int) -> np.ndarray:
        return np.ascontiguousarray(self.pixels[row][..., self.channels])

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each picture, row by row."""
        return [self[0].shape] * len(self.pixels)


class PreparedPhotos:
    """The photos of ``table`` as ``look`` shows them, pixels in ``folder``; ``decode`` gives a photo and its masks."""

    def __init__(
        self,
        folder: Path,
        table: ImageTable,
        look: Look,
        decode: Callable[[str], Decoded],
        has_second_masks: bool = False,
    ) -> None:
        self._has_second_masks = has_second_masks
        self._ids, self._look, self._decode = table.ids, look, decode
        self._row_of = {image_id: row for row, image_id in enumerate(table.ids)}
        self._measures = ResumableRows(folder, "measures", np.float64, (len(table), len(MEASURED)))
        shape = (look.size, look.size, PIXEL + has_second_masks)
        shapes: list[tuple[int, ...]] = [shape] * len(table)
        self._pixels = prepare(
            folder, FAMILY, str(shapes[:1]), "photos", table.ids, lambda: shapes, self._make
        )

    @staticmethod
    def count_missing(folder: Path, photos: int) -> int:
        """How many of the photos are missing; makes no file."""
        return 0 if any(folder.glob(f"{FAMILY}-*.npz")) else count_missing(folder, "measures", photos)

    def _make(self, image_id: str) -> np.ndarray:
        photo, mask, second = self._decode(image_id)
        look, view = self._look, self._look.resized(photo)
        pixels = np.zeros((look.size, look.size, PIXEL + self._has_second_masks), np.uint8)
        pixels[..., PHOTO] = look.cropped(view)
        values = [math.nan] * len(MEASURED)
        if mask is not None:
            # One that shows nothing or everything leaves nothing open: the first alone speaks.
            if second is None or quality.fault(second.alpha) in ("nothing", "everything"):
                second = mask
            measured = quality.measure(mask.alpha, mask.confidence, None, image_id)
            measured["agreement"] = quality.iou(mask.alpha, second.alpha)
            values = [measured[name] for name in MEASURED]
            alpha = look.resized(mask.alpha)
            pixels[..., MASK] = look.cropped(alpha)
            pixels[..., BACKGROUND] = look.cropped(remove_object(view, alpha))
            if self._has_second_masks:
                pixels[..., SECOND] = look.cropped(look.resized(second.alpha))
        self._measures[self._row_of[image_id]] = values
        return pixels

    @cached_property
    def qualities(self) -> pd.DataFrame:
        """A row a photo that has a mask: ``image_id``, the measures of ``masks.quality`` (``clarity`` is NaN of drawn ones),
        ``agreement`` with the second mask where there is one, ``empty`` and ``full``.
        """
        rows = pd.DataFrame(np.array(self._measures.values), columns=list(MEASURED))
        rows.insert(0, "image_id", np.array(self._ids, object))
        rows = rows[rows["area"].notna()].reset_index(drop=True)
        if not self._has_second_masks:
            rows = rows.drop(columns="agreement")
        if rows["clarity"].dropna().eq(1).all():  # as of a masker that knows no doubt: that says nothing
            rows["clarity"] = math.nan
        return rows.assign(empty=rows["area"] < quality.EMPTY_BELOW, full=rows["area"] > quality.FULL_ABOVE)

    @property
    def photos(self) -> Channels:
        """What the model sees of each photo, uint8 [S, S, 3]."""
        return Channels(self._pixels, PHOTO, frozenset(self._ids))

    @property
    def masks(self) -> Channels:
        """The mask of each, uint8 [S, S]."""
        return Channels(self._pixels, MASK, frozenset(self.qualities["image_id"]))

    @property
    def second_masks(self) -> Channels | None:
        """The second mask of each, uint8 [S, S]."""
        return replace(self.masks, channels=SECOND) if self._has_second_masks else None

    @property
    def backgrounds(self) -> Channels:
        """Each photo without its object, uint8 [S, S, 3]."""
        return replace(self.masks, channels=BACKGROUND)
