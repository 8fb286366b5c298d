"""All that an audit measured, before anybody writes or reads it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from bgbias.auditing.asked import Asked
from bgbias.auditing.backgrounds import BackgroundPhotos
from bgbias.auditing.findings import Findings
from bgbias.auditing.looks import Looks
from bgbias.auditing.photos import PhotoCollection
from bgbias.auditing.shown import DoubtfulMask
from bgbias.auditing.slices import BetterMasked, SurelyMasked, Third
from bgbias.evaluation.variance import Shares
from bgbias.models.adapters import Adapted
from bgbias.report.queries import ShownQuery
from bgbias.results.leak import Leak


@dataclass(frozen=True)
class Measured:
    """What was found. ``findings`` and ``leak`` are None without labels; ``shift`` and ``shares`` need none. ``qualities``: a row
    a mask. ``remarks``: of masks. ``command``: what a person typed to ask, if she did. For a person: ``queries``, a photo of each
    class that loses most (``portraits``), masks that are least sure. ``ties``: photos whose clean embedding is also another's.
    """

    collection: PhotoCollection
    model: Adapted
    masker: str
    backgrounds: BackgroundPhotos
    asked: Asked
    findings: Findings | None
    shift: pd.DataFrame
    shares: Shares | None
    looks: Looks
    qualities: pd.DataFrame
    usable: frozenset[str]
    queries: dict[str, list[ShownQuery]]
    thirds: tuple[Third, ...]
    surely: SurelyMasked | None
    better: tuple[BetterMasked, ...]
    leak: Leak | None
    portraits: dict[str, str]
    doubtful: tuple[DoubtfulMask, ...]
    remarks: tuple[str, ...]
    ties: int
    took: dict[str, float]
    command: str
