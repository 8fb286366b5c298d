"""How many test photos take no part for their masks, which captions tell."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def excluded(mask_report: Path) -> dict[str, int]:
    """Of each dataset, how many test photos have a mask too empty or too full to replace their background."""
    report = pd.read_csv(mask_report, keep_default_na=False, na_values=[""])
    counts = report["test_photos_without_trusted_mask"].astype(int).tolist()
    return dict(zip(report["dataset"], counts, strict=True))
