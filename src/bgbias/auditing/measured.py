"""All that an audit measured, before anybody writes or reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.auditing.asked import Asked
from bgbias.auditing.backgrounds import BackgroundPhotos
from bgbias.auditing.findings import Findings
from bgbias.auditing.photos import PhotoCollection
from bgbias.evaluation.variance import Shares
from bgbias.models.adapters import Adapted
from bgbias.results.uncertainty import Estimate


@dataclass(frozen=True)
class Measured:
    """What was found. ``findings`` is None without labels; ``shift`` and ``shares`` need none. ``qualities``: a row a mask."""

    collection: PhotoCollection
    model: Adapted
    masker: str
    backgrounds: BackgroundPhotos
    asked: Asked
    findings: Findings | None
    shift: pd.DataFrame
    shares: Shares | None
    attribution: pd.DataFrame
    attribution_mean: Estimate
    attribution_how: str
    qualities: pd.DataFrame
    usable: frozenset[str]
    sheets: dict[str, list[tuple[str, np.ndarray]]]
    remarks: tuple[str, ...]
    took: dict[str, float]
