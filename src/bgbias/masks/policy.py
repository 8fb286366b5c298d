"""Masks of a dataset: which ones can be trusted, and what is known about their quality."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bgbias.errors import UserError
from bgbias.settings import Strict

# Of the mask table; ``sha256`` is the first 16 hex digits of that of the photo's bytes, the rest is ``quality``'s.
QUALITY = ("area", "confidence", "half", "empty", "full", "overlap", "iou", "off_object")
COLUMNS = ("image_id", "sha256", *QUALITY)


@dataclass(frozen=True, slots=True)
class Mask:
    """A soft mask of the photo's own height and width (uint8, 255 = object), and its maker's confidence in 0..1."""

    alpha: NDArray[np.uint8]
    confidence: float


def read_mask_table(path: Path) -> pd.DataFrame:
    """The mask table that ``masks`` wrote: one row a photo with the columns of ``COLUMNS``."""
    if not path.exists():
        raise UserError(f"{path} is missing; `snakemake --cores all` makes it.")
    table = pd.read_csv(path, dtype={"image_id": str, "sha256": str})
    return table.reindex(columns=list(COLUMNS))  # earlier tables know fewer measures


def usable(table: pd.DataFrame, policy: MaskPolicy) -> frozenset[str]:
    """Ids of the photos whose background can be replaced: the mask's area lies within the policy's bounds."""
    if policy.keep_all:
        return frozenset(table["image_id"])
    trusted = table["area"].between(policy.min_area, policy.max_area)
    return frozenset(table["image_id"][trusted])


def as_used(alpha: NDArray[np.uint8], policy: MaskPolicy) -> NDArray[np.uint8]:
    """A mask as it blends photo and background: as it is, or 255 from the policy's threshold on and 0 below."""
    if policy.kind == "soft":
        return alpha
    return np.where(alpha >= policy.threshold, np.uint8(255), np.uint8(0))


class MaskPolicy(Strict):
    """How masks are used, and which are trusted: a photo whose mask is not keeps its own background and is no query; it is
    counted in every table. Areas are those of the soft mask, whatever its use."""

    kind: Literal["soft", "threshold"] = Field(
        "soft",
        description="blend photo and background by the mask as it is (as published), or by 0 and 255 alone",
    )
    threshold: int = Field(128, ge=1, le=255, description="grey level from which a pixel is object")
    min_area: float = Field(0.01, ge=0, le=1)
    max_area: float = Field(0.95, ge=0, le=1)
    keep_all: bool = Field(
        False, description="replace backgrounds behind empty and full masks too (as published)"
    )

    @model_validator(mode="after")
    def _threshold_is_used(self) -> MaskPolicy:
        if self.kind == "soft" and "threshold" in self.model_fields_set:
            raise ValueError("soft masks have no threshold; set `kind: threshold`, or leave `threshold` out")
        if self.min_area >= self.max_area:
            raise ValueError("min_area must lie below max_area")
        return self
