"""Who loses more: queries in thirds, by how large, central and bright they are and how clear their mask is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.auditing.prepared_photos import PreparedPhotos
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.report.queries import UNSURE
from bgbias.results import uncertainty
from bgbias.results.thirds import in_thirds
from bgbias.results.uncertainty import Estimate, Statistic
from bgbias.settings import read_yaml

LUMA = np.array([0.299, 0.587, 0.114])
PROPERTIES: dict[str, str] = read_yaml(Path(__file__).with_name("titles.yaml"))["properties"]
THIRDS = ("lowest third", "middle third", "highest third")


@dataclass(frozen=True)
class Third:
    """Queries whose ``prop`` lies in ``least``..``most``: their number, clean MAP@R and the points of it that are lost, 0..1."""

    prop: str
    name: str
    least: float
    most: float
    queries: int
    clean: float
    lost: Estimate


@dataclass(frozen=True)
class SurelyMasked:
    """The drop, a share, of ``queries``, ``drawn`` by hand or clear, without ``others`` of a clarity below ``UNSURE``."""

    queries: int
    others: int
    drop: Estimate
    drawn: int = 0


@dataclass(frozen=True)
class BetterMasked:
    """The drop, a share, of ``queries`` whose mask's ``prop`` (``area``) is ``least`` or more, or is one of the ``drawn``."""

    prop: str
    queries: int
    least: float
    drop: Estimate
    drawn: int = 0


def measure_masks(prepared: PreparedPhotos) -> pd.DataFrame:
    """A row a photo with a mask: ``image_id`` and ``PROPERTIES``, of what the model sees, but for ``clarity``."""
    of, masks, photos = prepared.qualities.set_index("image_id"), prepared.masks, prepared.photos
    lines = [
        {
            "image_id": i,
            **_measure_mask(masks.get(i)),
            "brightness": float((photos.get(i).mean((0, 1)) @ LUMA) / 255),
            "clarity": float(clarity),
        }
        for i, clarity in zip(of.index, of["clarity"], strict=True)
    ]
    return pd.DataFrame(lines, columns=["image_id", *PROPERTIES])


def _measure_mask(mask: np.ndarray) -> dict[str, float]:
    total = float(mask.sum(dtype=np.int64))
    if not total:
        return {"area": 0.0, "off_centre": float("nan")}
    rows, columns = ((np.arange(n) + 0.5) / n - 0.5 for n in mask.shape)
    up, across = mask.sum(1, dtype=np.int64) @ rows / total, mask.sum(0, dtype=np.int64) @ columns / total
    return {"area": total / 255 / mask.size, "off_centre": float(np.hypot(up, across) / np.hypot(0.5, 0.5))}


def thirds(queries: pd.DataFrame, properties: pd.DataFrame) -> Iterator[Third]:
    """Thirds of the queries (``Findings.photos``) by each of ``PROPERTIES`` that differs among them; none of few queries."""
    known = queries[queries["lost"].notna()].merge(properties, on="image_id")
    for name in PROPERTIES:
        own = known[known[name].notna()]
        third = in_thirds(own[name])
        if third is None:
            continue
        for number, title in enumerate(THIRDS):
            part = own[third == number].sort_values(name)
            least, most, clean = part[name].iloc[0], part[name].iloc[-1], part[CLEAN].mean()
            lost = _estimate_drop(part, uncertainty.difference)
            yield Third(name, title, float(least), float(most), len(part), float(clean), lost)


def surely_masked(queries: pd.DataFrame, properties: pd.DataFrame) -> SurelyMasked | None:
    """What is lost without the queries of unsure masks; None if there are none of these."""
    known = queries[queries["lost"].notna()].merge(properties, on="image_id")
    unsure = known["clarity"] < UNSURE
    own, others = known[~unsure], int(unsure.sum())
    if not others:
        return None
    if own.empty:
        return SurelyMasked(0, others, Estimate(float("nan")))
    drawn = int(own["clarity"].isna().sum())
    return SurelyMasked(len(own), others, _estimate_drop(own, uncertainty.relative_drop), drawn)


def better_masked(
    queries: pd.DataFrame, properties: pd.DataFrame, found: Sequence[Third]
) -> Iterator[BetterMasked]:
    """What is lost without the third of the queries whose masks are smallest, where that third (of ``found``: ``thirds``) loses
    more than the one at the other end beyond chance: such a mask may have taken a part of the object for the whole.
    """
    parts = [third for third in found if third.prop == "area"]
    if parts and parts[0].lost.low > parts[-1].lost.high:
        known = queries[queries["lost"].notna()].merge(properties, on="image_id")
        larger = known["area"] > parts[0].most
        # Drawn masks, whose clarity nobody asks, are the objects, however small.
        drawn = known["clarity"].isna() & bool(known["clarity"].notna().any())
        own, least = known[larger | drawn], float(known.loc[larger, "area"].min())
        yield BetterMasked(
            "area", len(own), least, _estimate_drop(own, uncertainty.relative_drop), int(drawn.sum())
        )


def _estimate_drop(queries: pd.DataFrame, of: Statistic) -> Estimate:
    """What ``queries`` lose on other backgrounds, with its interval over their classes."""
    classes = queries["class_name"].astype("category").cat.codes.to_numpy()
    ends = [queries[c].to_numpy() for c in (CLEAN, RANDOM_BACKGROUND)]
    return uncertainty.estimate(ends, classes, of)
