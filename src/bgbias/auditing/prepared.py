"""Photos, masks and what stands behind objects, as one model looks at them: made photo by photo, once, and kept while it runs.

Three files of pixels [N, S, S] are mapped into memory (``mapped``): an audit that was killed goes on after the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.auditing.resumable import mapped, zeros
from bgbias.compute.device import threads
from bgbias.images.inpainting import without_object
from bgbias.masks import quality
from bgbias.masks.policy import Mask, usable
from bgbias.masks.settings import MaskPolicy
from bgbias.models.look import Look
from bgbias.photos.table import ImageTable

MEASURED = ("area", "clarity")
STATE = "state.npy"
ABSENT, DONE, WITHOUT_MASK = 0, 1, 2
PER_CHUNK = 64  # photos of all threads between two lines of progress
PIXEL = 7  # bytes: three of the photo, one of the mask, three of what stands behind


@dataclass(frozen=True)
class MappedPictures:
    """Pictures by image id, views of a mapped file: what ``EvaluationPhotos`` asks of pictures."""

    pixels: np.ndarray
    row_of: dict[str, int]
    ids: tuple[str, ...]

    def __contains__(self, image_id: str) -> bool:
        return image_id in self.row_of

    def get(self, image_id: str) -> np.ndarray:
        """uint8 [S, S, 3] or [S, S]; an unknown id is a KeyError."""
        return np.asarray(self.pixels[self.row_of[image_id]])


class Prepared:
    """The photos of ``table`` as ``look`` shows them, in ``folder``."""

    def __init__(self, folder: Path, table: ImageTable, look: Look) -> None:
        self._table, self._look = table, look
        count, side = len(table), look.size
        folder.mkdir(parents=True, exist_ok=True)
        self._photos = mapped(folder / "photos.npy", np.uint8, (count, side, side, 3))
        self._masks = mapped(folder / "masks.npy", np.uint8, (count, side, side))
        self._behind = mapped(folder / "behind.npy", np.uint8, (count, side, side, 3))
        self._measures = mapped(folder / "measures.npy", np.float64, (count, len(MEASURED)))
        self._state = mapped(folder / STATE, np.uint8, (count,))

    @staticmethod
    def left(folder: Path, photos: int) -> int:
        """How many of the photos are missing; makes no file."""
        return len(zeros(folder / STATE, photos))

    @property
    def missing(self) -> list[int]:
        """Rows that are to be made."""
        return np.flatnonzero(self._state == ABSENT).tolist()

    def make(
        self,
        row: int,
        photo: np.ndarray,
        mask: Mask | None,
    ) -> None:
        """Fill a row from a decoded photo uint8 [H, W, 3], and its mask; the row counts when all of it is there."""
        look, image_id = self._look, self._table.ids[row]
        shown = look.resized(photo)
        self._photos[row] = look.cropped(shown)
        if mask is not None:
            measured = quality.measure(mask.alpha, mask.confidence, None, image_id)
            values = [measured[name] for name in MEASURED]  # type: ignore[literal-required]
            self._measures[row] = [math.nan if value is None else value for value in values]
            alpha = look.resized(mask.alpha)
            self._masks[row] = look.cropped(alpha)
            self._behind[row] = look.cropped(without_object(shown, alpha))
        self._state[row] = WITHOUT_MASK if mask is None else DONE

    def make_all(self, rows: list[int], make: Callable[[int], None], done: Callable[[int], object]) -> None:
        """``make`` each of the rows, several at once; ``done`` is told how many more are there."""
        with ThreadPoolExecutor(threads()) as pool:
            for start in range(0, len(rows), PER_CHUNK):
                some = rows[start : start + PER_CHUNK]
                list(pool.map(make, some))
                done(len(some))

    @cached_property
    def qualities(self) -> pd.DataFrame:
        """A row a photo that has a mask: ``image_id``, the measures of ``masks.quality`` (``clarity`` is NaN of drawn
        ones), ``empty`` and ``full``."""
        there = np.asarray(self._state) == DONE
        made = pd.DataFrame(np.asarray(self._measures)[there], columns=list(MEASURED))
        if made["clarity"].dropna().eq(1).all():  # as of a masker that knows no doubt: that says nothing
            made["clarity"] = math.nan
        made.insert(0, "image_id", np.array(self._table.ids, object)[there])
        return made.assign(empty=made["area"] < quality.EMPTY_BELOW, full=made["area"] > quality.FULL_ABOVE)

    def usable(self, policy: MaskPolicy) -> frozenset[str]:
        """Photos whose background can be replaced."""
        return usable(self.qualities, policy)

    @property
    def photos(self) -> MappedPictures:
        """What the model sees of each photo, uint8 [S, S, 3]."""
        return self._rows(self._photos)

    @property
    def masks(self) -> MappedPictures:
        """The mask of each, uint8 [S, S]."""
        return self._rows(self._masks, set(self.qualities["image_id"]))

    @property
    def behind(self) -> MappedPictures:
        """Each photo without its object, uint8 [S, S, 3]."""
        return self._rows(self._behind, set(self.qualities["image_id"]))

    def _rows(self, pixels: np.ndarray, ids: set[str] | None = None) -> MappedPictures:
        named = {name: row for row, name in enumerate(self._table.ids) if ids is None or name in ids}
        return MappedPictures(pixels, named, tuple(named))
