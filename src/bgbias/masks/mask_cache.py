"""Masks by their photos' bytes: a photo is masked once, in whatever folder it lies.

A folder is of one ``MaskPredictor.key``. A study deletes the folders of a masker's other keys when new masks are finished
(``delete_others``); a person's cache keeps all until she deletes them.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, PngImagePlugin

from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.files.store import ImageStore
from bgbias.masks.policy import Mask

CONFIDENCE = "confidence"
AT_ONCE = 16  # photos in memory, decoded


class KeptMasks:
    """The masks of one masker, a PNG a photo; processes that add to it side by side do not harm each other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __contains__(self, key: str) -> bool:
        return self._file(key).is_file()

    def read(self, key: str) -> Mask:
        """The mask of the photo whose bytes have this checksum; a damaged file is deleted, and an error that says so."""
        path = self._file(key)
        try:
            with Image.open(path) as picture:
                alpha = np.asarray(picture.convert("L"))
                return Mask(alpha, float(picture.info[CONFIDENCE]))
        except (OSError, SyntaxError, KeyError, ValueError) as error:
            path.unlink(missing_ok=True)
            raise UserError(
                f"The mask {path} was damaged ({error}) and is deleted; run the same command again."
            ) from error

    def keep(self, key: str, mask: Mask) -> None:
        """Add a mask; what is there already is replaced."""
        text = PngImagePlugin.PngInfo()
        text.add_text(CONFIDENCE, repr(float(mask.confidence)))
        with replacing(self._file(key)) as temporary:
            Image.fromarray(mask.alpha).save(temporary, "PNG", compress_level=1, pnginfo=text)

    def make(
        self,
        predict: Any,
        photos: Mapping[str, str],
        decode: Callable[[str], np.ndarray],
        at_once: int = AT_ONCE,
    ) -> Iterator[str]:
        """Mask ``photos`` (key to image id) by what ``MaskPredictor.build`` gave; yields a key when its mask is kept."""
        keys = list(photos)
        for start in range(0, len(keys), at_once):
            some = keys[start : start + at_once]
            decoded = [decode(photos[key]) for key in some]
            # As they are made, if the masker can: less is lost by an interruption.
            for key, mask in zip(some, getattr(predict, "one_by_one", predict)(decoded), strict=True):
                self.keep(key, mask)
                yield key

    def adopt(self, masks: ImageStore, table: pd.DataFrame) -> None:
        """Add a dataset's finished masks; ``table`` says whose each is (``image_id``, ``sha256``, ``confidence``)."""
        for image_id, key, confidence in table[["image_id", "sha256", CONFIDENCE]].itertuples(index=False):
            if key not in self and image_id in masks:
                self.keep(key, Mask(masks.array(image_id, "L"), float(confidence)))

    def delete_others(self) -> None:
        """Delete the folders beside this one: the same masker's with other options, weights or code."""
        for other in self._folder.parent.glob("*"):
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)  # another dataset's step may be at it, too

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.png"
