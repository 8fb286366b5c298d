"""Masks under the bytes of their photos: whoever asks again, of whatever folder, waits for none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin

from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.masks.policy import Mask

CONFIDENCE = "confidence"


class KeptMasks:
    """What one masker made, a PNG a photo; processes that add to it side by side do not harm each other."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is this masker's own, by what its masks depend on."""
        self._folder = folder

    def __contains__(self, sha256: str) -> bool:
        return self._file(sha256).is_file()

    def read(self, sha256: str) -> Mask:
        """The mask of the photo with these bytes; a damaged file is deleted, and an error that says so."""
        path = self._file(sha256)
        try:
            with Image.open(path) as picture:
                alpha = np.asarray(picture.convert("L"))
                return Mask(alpha, float(picture.info[CONFIDENCE]))
        except (OSError, SyntaxError, KeyError, ValueError) as error:
            path.unlink(missing_ok=True)
            raise UserError(
                f"The mask {path} was damaged ({error}) and is deleted; run the same command again."
            ) from error

    def keep(self, sha256: str, mask: Mask) -> None:
        """Add a mask; what is there already is replaced."""
        told = PngImagePlugin.PngInfo()
        told.add_text(CONFIDENCE, repr(float(mask.confidence)))
        with replacing(self._file(sha256)) as temporary:
            Image.fromarray(mask.alpha).save(temporary, "PNG", compress_level=1, pnginfo=told)

    def _file(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / f"{sha256[2:]}.png"
