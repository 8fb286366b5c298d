"""Masks that somebody drew or exported: PNGs in a folder or zip under their photos' names, or a COCO-style JSON of outlines."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bgbias.files.store import ImageStore
from bgbias.settings import Strict

PREDICTS = False
SPEED: tuple[str, ...] = ()
FILES = ("folder", "zip", "coco")


class Params(Strict):
    """Exactly one place."""

    folder: str | None = Field(None, description="of <photo's path>.png or <photo's path>_mask.png")
    zip: str | None = Field(None, description="zip (or tar) of such a folder")
    coco: str | None = Field(None, description="JSON in COCO's format: polygons or run lengths")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(getattr(self, name) is not None for name in FILES) != 1:
            raise ValueError("masks from files need exactly one of `folder`, `zip` and `coco`")
        return self


def given(params: Params, truth: ImageStore, ids: Sequence[str]) -> Callable[[str], NDArray[np.uint8] | None]:
    """The masks of the photos ``ids``; None for a photo without one. See ``masks.files`` for how they are found."""
    from bgbias.files.places import source
    from bgbias.masks import files

    if params.coco is not None:
        return files.from_coco(source(params.coco), ids)
    return files.from_pictures(source(str(params.folder or params.zip)), ids)
