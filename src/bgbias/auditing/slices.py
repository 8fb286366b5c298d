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
from bgbias.results.uncertainty import UNKNOWN, Estimate, Statistic, at_most_all
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
    qualities, masks, photos = prepared.qualities.set_index("image_id"), prepared.masks, prepared.photos
    lines = [
        {
            "image_id": i,
            **_measure_mask(masks.get(i)),
            "brightness": float((photos.get(i).mean((0, 1)) @ LUMA) / 255),
            "clarity": float(clarity),
        }
        for i, clarity in zip(qualities.index, qualities["clarity"], strict=True)
    ]
    return pd.DataFrame(lines, columns=["image_id", *PROPERTIES])


def _measure_mask(mask: np.ndarray) -> dict[str, float]:
    total = float(mask.sum(dtype=np.int64))
    if not total:
        return {"area": 0.0, "off_centre": float("nan")}
    rows, columns = ((np.arange(n) + 0.5) / n - 0.5 for n in mask.shape)
    up, across = mask.sum(1, dtype=np.int64) @ rows / total, mask.sum(0, dtype=np.int64) @ columns / total
    return {"area": total / 255 / mask.size, "off_centre": float(np.hypot(up, across) / np.hypot(0.5, 0.5))}


def make_thirds(queries: pd.DataFrame) -> Iterator[Third]:
    """Thirds of the queries (``Findings.photos`` with ``PROPERTIES``) by each property that differs among them; none of few."""
    for name in PROPERTIES:
        rows = queries[queries[name].notna()]
        third = in_thirds(rows[name])
        if third is None:
            continue
        for number, title in enumerate(THIRDS):
            part = rows[third == number].sort_values(name)
            least, most, clean = part[name].iloc[0], part[name].iloc[-1], part[CLEAN].mean()
            lost = _estimate_drop(part, uncertainty.difference)
            yield Third(name, title, float(least), float(most), len(part), float(clean), lost)


def leave_out_unsure(queries: pd.DataFrame) -> LeftOut | None:
    """What is lost without the queries of a clarity below ``UNSURE``; None if there are none of these."""
    is_unsure = queries["clarity"] < UNSURE
    return _leave_out(queries, is_unsure) if is_unsure.any() else None


def leave_out_small(queries: pd.DataFrame, thirds: Sequence[Third]) -> Iterator[LeftOut]:
    """What is lost without the third of the queries whose masks are smallest, where that third (of ``thirds``) loses more than
    the one at the other end significantly: such a mask may have taken a part of the object for the whole.
    """
    parts = [third for third in thirds if third.prop == "area"]
    if parts and parts[0].lost.low > parts[-1].lost.high:
        is_small = queries["area"] <= parts[0].most
        # Drawn masks are the objects, however small.
        yield _leave_out(queries, is_small & ~_is_drawn(queries), float(queries.loc[~is_small, "area"].min()))


def _leave_out(queries: pd.DataFrame, is_out: pd.Series, least: float = math.nan) -> LeftOut:
    rest = queries[~is_out]
    drop = UNKNOWN if rest.empty else at_most_all(_estimate_drop(rest, uncertainty.relative_drop))
    return LeftOut(len(rest), int(is_out.sum()), drop, int(_is_drawn(queries)[~is_out].sum()), least)


def _is_drawn(queries: pd.DataFrame) -> pd.Series:
    """Nobody asks the clarity of drawn masks, while a network's has one."""
    return queries["clarity"].isna() & bool(queries["clarity"].notna().any())


def _estimate_drop(queries: pd.DataFrame, statistic: Statistic) -> Estimate:
    classes = queries["class_name"].astype("category").cat.codes.to_numpy()
    ends = [queries[c].to_numpy() for c in (CLEAN, RANDOM_BACKGROUND)]
    return uncertainty.estimate(ends, classes, statistic)
