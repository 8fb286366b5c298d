"""Masks of a dataset: which ones can be trusted, and what is known about their quality."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bgbias.errors import UserError
from bgbias.masks.settings import MaskPolicy

# Of the mask table; ``sha256`` is the first 16 hex digits of that of the photo's bytes, the rest is ``quality``'s.
QUALITY = ("area", "confidence", "clarity", "empty", "full", "overlap", "iou", "off_object")
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
    table = pd.read_csv(path, dtype={"image_id": str, "sha256": str}, keep_default_na=False, na_values=[""])
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
