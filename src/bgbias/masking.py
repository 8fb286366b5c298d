"""Masks of a dataset: which ones can be trusted, and what is known about their quality."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bgbias.errors import UserError
from bgbias.params import MaskPolicy

COLUMNS = ("image_id", "area", "confidence", "empty", "full", "overlap", "iou")


def read(path: Path) -> pd.DataFrame:
    """The mask table that ``masks`` wrote: one row a photo with the columns of ``COLUMNS``."""
    if not path.exists():
        raise UserError(f"{path} is missing; `snakemake --cores all` makes it.")
    return pd.read_csv(path, dtype={"image_id": str})


def usable(table: pd.DataFrame, policy: MaskPolicy) -> frozenset[str]:
    """Ids of the photos whose background can be replaced: the mask's area lies within the policy's bounds."""
    if policy.keep_all:
        return frozenset(table["image_id"])
    trusted = table["area"].between(policy.min_area, policy.max_area)
    return frozenset(table["image_id"][trusted])
