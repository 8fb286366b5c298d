"""What an audit finds: from embeddings of all views to a drop, what it is made of, and which classes lose most.

The verdict speaks of changed queries in an unchanged gallery, a shop's case; both settings are given.
"""

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.auditing import mask_range
from bgbias.evaluation import scores
from bgbias.evaluation.across_places import LENT
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import OTHERS
from bgbias.evaluation.whole_gallery import rank_among
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.results import conflict, decomposition, uncertainty
from bgbias.results.decomposition import PATH
from bgbias.results.places import AcrossPlaces
from bgbias.results.places import compare_places as across_places
from bgbias.results.rows import MAP_AT_R, Values, values_for_views, views_in
from bgbias.results.uncertainty import UNKNOWN, Estimate
from bgbias.study.cell import PRETRAINED

SETTINGS = (QUERY_ONLY, SYMMETRIC)
MODEL = ("photos", "model", "none", PRETRAINED)  # what has no training seeds
Rows = list[dict[str, Any]]  # values by the names of columns
MOST_SKIPPED = 0.5  # of the queries may lack what is told of all


@dataclass(frozen=True)
class Findings:
    """Numbers of one model on one collection; shares 0..1, as results are kept.

    ``levels``: a row for each setting, condition and metric, ``value`` with ``low`` and ``high``. ``steps``: a row for each
    setting and step, points of MAP@R lost, and their sum, ``decomposition.DROP``, of galleries that lack the same photos in each
    condition. ``drops``: a row a setting, ``points`` and ``relative``. ``classes`` and ``photos``:
    a row each, of the verdict's setting. ``conflict``: of queries on another class's background that find either
    class first, the share that follows the background. ``by_chance``: the MAP@R of the same queries in a random order.
    ``queries``: all of ``scores.score_queries``, which the rest is made of. ``places``: what another place costs, if any is
    known.
    """

    levels: Rows
    steps: Rows
    drops: Rows
    classes: pd.DataFrame
    photos: pd.DataFrame
    conflict: Estimate
    by_chance: float
    queries: pd.DataFrame
    places: AcrossPlaces | None = None


def compute_findings(
    embeddings: Embeddings, names: Mapping[int, str], unsure: Collection[str] = ()
) -> Findings:
    """The findings of photos with classes, whose names are ``names`` by number; ``unsure``: photos whose mask is."""
    queries = scores.score_queries(embeddings, {}).assign(seed=0)
    apart = (*LENT, *mask_range.CONDITIONS)
    conditions = [name for name in dict.fromkeys(name for name, _ in embeddings.views) if name not in apart]
    verdict = values_for_views(queries, MODEL, views_in(QUERY_ONLY, conditions))
    photos = _list_photos(verdict, names)
    chance = decomposition.chance_levels(embeddings.labels, embeddings.given)
    return Findings(
        _measure_levels(queries, conditions),
        _measure_steps(queries),
        _measure_drops(queries),
        _list_classes(photos, unsure),
        photos,
        conflict.estimate(queries, MODEL),
        float(np.nanmean([chance[int(label)] for label in verdict.classes])),
        queries,
        across_places(queries, MODEL),
    )


def shift(embeddings: Embeddings) -> pd.DataFrame:
    """The cosine of each usable photo's embedding to its clean one: a row a photo, a column a condition; needs no labels."""
    clean = np.asarray(embeddings.views[CLEAN, 0], np.float64)[embeddings.usable]
    cosines: dict[str, list[np.ndarray]] = {}
    for (condition, _), vectors in embeddings.views.items():
        if condition != CLEAN:
            moved = np.asarray(vectors, np.float64)[embeddings.usable]
            cosines.setdefault(condition, []).append(np.einsum("nd,nd->n", clean, moved))
    means = {condition: np.mean(of_draws, axis=0) for condition, of_draws in cosines.items()}
    ids = np.array(embeddings.ids, object)[embeddings.usable]
    return pd.DataFrame({"image_id": ids, **means})


def interval(estimate: Estimate) -> dict[str, float]:
    """An estimate's value and the ends of its interval by name, as tables and files have them."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _screen(values: Values, names: Sequence[str], estimate: Estimate) -> Estimate:
    """Unknown if fewer than half of the queries are left, in too few classes for an interval: a class of two photos has no
    background of its own to borrow, and the few others are no level of all.
    """
    skipped = np.isnan(np.stack([values.columns[name] for name in names])).any(axis=0)
    return UNKNOWN if math.isnan(estimate.low) and skipped.mean() > MOST_SKIPPED else estimate


def _measure_levels(queries: pd.DataFrame, conditions: Sequence[str]) -> Rows:
    lines = []
    for setting in SETTINGS:
        for metric in (m for m in plugins.names("metrics") if m in queries):
            others = OTHERS if metric == MAP_AT_R else ""
            values = values_for_views(queries, MODEL, views_in(setting, conditions), metric, others)
            for condition in conditions:
                row = {"setting": setting, "condition": condition, "metric": metric}
                estimate = interval(_screen(values, [condition], values.estimate([condition])))
                # A share; Student's t does not know its ends.
                lines.append(
                    row | estimate | {end: float(np.clip(estimate[end], 0, 1)) for end in ("low", "high")}
                )
    return lines


def _measure_steps(queries: pd.DataFrame) -> Rows:
    lines = []
    for setting in SETTINGS:
        values = decomposition.matched_values(queries, MODEL, setting, PATH)
        for name, estimate in decomposition.steps(values).items():
            lines.append({"setting": setting, "step": name} | interval(_screen(values, PATH, estimate)))
    return lines


def _measure_drops(queries: pd.DataFrame) -> Rows:
    lines, ends = [], [CLEAN, RANDOM_BACKGROUND]
    for setting in SETTINGS:
        values = values_for_views(queries, MODEL, views_in(setting, ends))
        for unit, statistic in (("points", uncertainty.difference), ("relative", uncertainty.relative_drop)):
            estimate = values.estimate(ends, statistic)
            estimate = uncertainty.at_most_all(estimate) if unit == "relative" else estimate
            lines.append({"setting": setting, "unit": unit} | interval(estimate) | {"p": estimate.p})
    return lines


def _list_photos(verdict: Values, names: Mapping[int, str]) -> pd.DataFrame:
    """A row a query: ``image_id``, ``class_name``, and MAP@R in each condition, means over draws."""
    class_names = [names[int(label)] for label in verdict.classes]
    columns = {name: values[0] for name, values in verdict.columns.items()}
    frame = pd.DataFrame({"image_id": verdict.queries, "class_name": class_names, **columns})
    return frame.assign(lost=frame[CLEAN] - frame[RANDOM_BACKGROUND])


def _list_classes(photos: pd.DataFrame, unsure: Collection[str]) -> pd.DataFrame:
    """A row a class, the greatest loss first: queries, of how many the mask is unsure, MAP@R clean and corrupted, what is lost,
    and the standard deviation of that over its photos: these search for one another, so that it makes no interval.
    """
    queries = photos[photos["lost"].notna()]
    of_classes = queries.assign(unsure=queries["image_id"].isin(list(unsure))).groupby("class_name")
    classes = of_classes.agg(
        queries=("lost", "size"),
        unsure_masks=("unsure", "sum"),
        clean=(CLEAN, "mean"),
        corrupted=(RANDOM_BACKGROUND, "mean"),
        lost=("lost", "mean"),
        sd=("lost", "std"),
    ).reset_index()
    classes["relative"] = (1 - classes["corrupted"] / classes["clean"]).where(classes["clean"] > 0)
    return classes.sort_values(["lost", "class_name"], ascending=[False, True], ignore_index=True)


def strip_common_folder(names: Iterable[str]) -> dict[str, str]:
    """Names of classes as people are shown them: without the folders that are around all of them."""
    parts = {name: name.split("/") for name in names}
    around = len(os.path.commonprefix([folders[:-1] for folders in parts.values()]))  # noqa: RUF071
    return {name: "/".join(folders[around:]) for name, folders in parts.items()}


@dataclass(frozen=True)
class AcrossSessions:
    """Photos that were taken at one time find each other whatever stands in them (docs/methods.md, section 16).

    ``sessions``: how many there are. ``own``: of queries whose first match is right, the share whose match is of their own
    session, 0..1. Without matches of their own session: ``queries`` that have others, their MAP@R on original photos (``clean``)
    and its relative ``drop`` on other backgrounds.
    """

    sessions: int
    own: float
    queries: int
    clean: Estimate
    drop: Estimate


def compare_sessions(embeddings: Embeddings, session_of: Mapping[str, str]) -> AcrossSessions | None:
    """By the sessions of photos, by image id; None where no query has a match of its own session, or none has another one."""
    numbers = {name: number for number, name in enumerate(sorted(set(session_of.values())))}
    session = np.array([numbers.get(session_of.get(i, ""), -1) for i in embeddings.ids], np.int64)
    clean, labels = np.asarray(embeddings.views[CLEAN, 0]), embeddings.labels
    split = embeddings.given or QueryGallerySplit.all_among_all(len(labels))
    # Matches of the query's own session are left out as re-identification leaves out those by its own camera.
    apart = replace(split, camera=session)
    has_own = (split.relevant(labels) > apart.relevant(labels)) & embeddings.is_query
    if not has_own.any():
        return None
    ranking = rank_among(clean, clean, labels, split)
    right = ranking.same_label[:, 0] & embeddings.is_query
    is_own = (session[ranking.indices[:, 0]] == session) & (session >= 0)
    views = {view: array for view, array in embeddings.views.items() if view[0] in (CLEAN, RANDOM_BACKGROUND)}
    others = replace(embeddings, views=views, donors={}, given=apart, places=None)
    queries = scores.score_queries(others, {}).assign(seed=0)
    values = values_for_views(queries, MODEL, views_in(QUERY_ONLY, [CLEAN, RANDOM_BACKGROUND]))
    has_others = ~np.isnan(values.columns[CLEAN][0])
    if not has_others.any():
        return None
    return AcrossSessions(
        len(numbers),
        float(is_own[right].mean()) if right.any() else float("nan"),
        int(has_others.sum()),
        values.estimate([CLEAN]),
        uncertainty.at_most_all(values.estimate([CLEAN, RANDOM_BACKGROUND], uncertainty.relative_drop)),
    )
