"""Who loses more: queries in thirds, by how large, central and bright they are and how clear their mask is."""

import math
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
from bgbias.results.uncertainty import UNKNOWN, Estimate, Statistic
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
class LeftOut:
    """The drop, a share, of ``queries``, of which ``drawn`` have drawn masks, without ``others``: those of unsure masks or of an
    area below ``least``.
    """

    queries: int
    others: int
    drop: Estimate
    drawn: int = 0
    least: float = math.nan


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


def surely_masked(queries: pd.DataFrame, properties: pd.DataFrame) -> LeftOut | None:
    """What is lost without the queries of a clarity below ``UNSURE``; None if there are none of these."""
    known = queries[queries["lost"].notna()].merge(properties, on="image_id")
    is_unsure = known["clarity"] < UNSURE
    return _leave_out(known, is_unsure) if is_unsure.any() else None


def better_masked(
    queries: pd.DataFrame, properties: pd.DataFrame, found: Sequence[Third]
) -> Iterator[LeftOut]:
    """What is lost without the third of the queries whose masks are smallest, where that third (of ``found``: ``thirds``) loses
    more than the one at the other end beyond chance: such a mask may have taken a part of the object for the whole.
    """
    parts = [third for third in found if third.prop == "area"]
    if parts and parts[0].lost.low > parts[-1].lost.high:
        known = queries[queries["lost"].notna()].merge(properties, on="image_id")
        is_small = known["area"] <= parts[0].most
        # Drawn masks are the objects, however small.
        yield _leave_out(known, is_small & ~_is_drawn(known), float(known.loc[~is_small, "area"].min()))


def _leave_out(known: pd.DataFrame, gone: pd.Series, least: float = math.nan) -> LeftOut:
    own = known[~gone]
    drop = UNKNOWN if own.empty else _estimate_drop(own, uncertainty.relative_drop)
    return LeftOut(len(own), int(gone.sum()), drop, int(_is_drawn(known)[~gone].sum()), least)


def _is_drawn(known: pd.DataFrame) -> pd.Series:
    """Nobody asks the clarity of drawn masks, while a network's has one."""
    return known["clarity"].isna() & bool(known["clarity"].notna().any())


def _estimate_drop(queries: pd.DataFrame, of: Statistic) -> Estimate:
    """What ``queries`` lose on other backgrounds, with its interval over their classes."""
    classes = queries["class_name"].astype("category").cat.codes.to_numpy()
    ends = [queries[c].to_numpy() for c in (CLEAN, RANDOM_BACKGROUND)]
    return uncertainty.estimate(ends, classes, of)
