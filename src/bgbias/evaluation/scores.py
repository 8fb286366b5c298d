"""From embeddings to metrics: one value a query for every view, and their means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.evaluation import across_places, metrics
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.exclusion import change_for_others, deep_enough, drop_shared
from bgbias.evaluation.metrics import MATCHED, MATCHED_OTHERS, OF_DONOR, OTHERS, map_at_r
from bgbias.evaluation.retrieval import DEEPEST_FIXED_RANK, Neighbours, neighbours
from bgbias.evaluation.whole_gallery import rank_photos
from bgbias.photos.places import PLACE, weights

VIEW = ("setting", "condition", "draw")
# Conditions on borrowed backgrounds, whose lenders are left out of all that is compared with them, and what that is.
LENDING = {SYMMETRIC: ("mixed_same",), QUERY_ONLY: ("mixed_same", "mixed_rand")}
COMPARED = (CLEAN, "own_inpainted", RANDOM_BACKGROUND)


def score_queries(
    embeddings: Embeddings,
    model: Mapping[str, object],
    index: np.ndarray | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """Every metric of every usable query, view by view, in each setting of its condition; ``model``: columns that name it;
    ``device``: what ranks, with the same result.

    ``index`` [N, D] is a gallery of the same photos that is there already: every view's queries are ranked in it, too, and not in
    the clean view. ``OTHERS`` is what the query's class means for others (``exclusion.change_for_others``). Where queries
    are on other photos' backgrounds, photos on the very same one are left out of their gallery (``drop_shared``); in a clean
    gallery, ``OF_DONOR`` is whether the nearest photo is of the background's class and not of the object's: the background's cue
    beat the object's. ``MATCHED`` leaves out the same photos in every condition that ``COMPARED`` and ``LENDING`` name, so that
    differences between conditions say nothing of the photos left out. Where the dataset gives queries and gallery, rankings are
    of ``whole_gallery``, and the metrics of whole ones are there, too. Where it says where photos were taken, there are the
    settings of ``across_places``.
    """
    labels, tables = embeddings.labels, []
    counted: dict[str, np.ndarray] = {}
    clean = embeddings.views[CLEAN, 0] if index is None else index
    # The clean view is the first, whatever a grid names first: it tells which queries the others' ``matched`` count.
    for (condition, draw), queries in sorted(embeddings.views.items(), key=lambda item: item[0][0] != CLEAN):
        settings = (
            plugins.load("conditions", condition).SETTINGS if index is None else (SYMMETRIC, QUERY_ONLY)
        )
        for setting in settings:
            ranking = _Ranking(embeddings, queries, queries if setting == SYMMETRIC else clean, device)
            lenders = [embeddings.donors[condition, draw]] if (condition, draw) in embeddings.donors else []
            ranked, of_whole = ranking.without(lenders, setting)
            values = _score_first_ranks(ranked, labels, embeddings.is_query) | of_whole
            if lenders and setting == QUERY_ONLY:
                nearest, lent = ranked.indices[:, 0], labels[lenders[0]]
                follows = (nearest >= 0) & (labels[nearest] == lent) & (lent != labels)
                values[OF_DONOR] = follows.astype(np.float64)
            # Clean queries in the clean gallery belong to both settings.
            for matched in (SYMMETRIC, QUERY_ONLY) if condition == CLEAN else (setting,):
                if condition in (*COMPARED, *LENDING[matched]):
                    values |= ranking.matched(condition, draw, matched, counted)
            view = {**model, "setting": setting, "condition": condition, "draw": draw}
            tables.append(_tabulate(embeddings, view, values))
    return pd.concat(
        [*tables, *score_places(embeddings, model, embeddings.views[CLEAN, 0])], ignore_index=True
    )


def score_places(
    embeddings: Embeddings, model: Mapping[str, object], gallery: np.ndarray
) -> Iterator[pd.DataFrame]:
    """The same in ``gallery`` [N, D] of the same photos, within their places and across places (``across_places``)."""
    labels = embeddings.labels
    for setting, (condition, draw), ranked_by_draw in across_places.rankings(embeddings, gallery):
        places = embeddings.places.own  # type: ignore[union-attr]
        # As in ``matched``: a query with nobody to find in one of the draws has no mean over them.
        counted = embeddings.is_query & np.all([ranked.relevant > 0 for ranked in ranked_by_draw], axis=0)
        by_draw = [_score_first_ranks(ranked, labels, counted, places) for ranked in ranked_by_draw]
        values = {name: np.mean([values[name] for values in by_draw], axis=0) for name in by_draw[0]}
        view = {**model, "setting": setting, "condition": condition, "draw": draw}
        yield _tabulate(embeddings, view | {PLACE: places.astype(np.float64)}, values)


def _tabulate(
    embeddings: Embeddings, view: Mapping[str, object], values: Mapping[str, np.ndarray]
) -> pd.DataFrame:
    """The rows of the queries, of values [N] in one view."""
    table = pd.DataFrame({**view, "image_id": embeddings.ids, "label": embeddings.labels, **values})
    return table[embeddings.is_query]


def _score_first_ranks(
    ranked: Neighbours, labels: np.ndarray, is_query: np.ndarray, places: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The metrics of first ranks, and ``OTHERS``, float64 [N] each; of ``places`` [N] all those of a class count alike."""
    values = {name: plugins.load("metrics", name).per_query(ranked) for name in metrics.names()}
    counted = is_query & (ranked.relevant > 0)
    weight = counted.astype(np.float64)
    if places is not None:
        weight[counted] = weights(labels[counted], places[counted])
    return values | {OTHERS: change_for_others(ranked, labels, weight)}


@dataclass(frozen=True)
class _Ranking:
    """All photos as ``queries`` [N, D] among each other as ``gallery`` [N, D]."""

    embeddings: Embeddings
    queries: np.ndarray
    gallery: np.ndarray
    device: str

    def without(self, donors: Sequence[np.ndarray], setting: str) -> tuple[Neighbours, dict[str, np.ndarray]]:
        """The neighbours without photos that share a background (``drop_shared``), and the metrics of whole rankings, float64
        [N], where the dataset gives queries and gallery.
        """
        labels, split, originals = self.embeddings.labels, self.embeddings.given, self.embeddings.first_copies
        lenders = [originals[rows] for rows in donors]
        backgrounds = [(lender, lender if setting == SYMMETRIC else originals) for lender in lenders]
        if split is None:
            return drop_shared(self._neighbours, labels, backgrounds, self._depth), {}
        return rank_photos(self.queries, self.gallery, labels, split, self.embeddings.is_query, backgrounds)

    def matched(
        self, condition: str, draw: int, setting: str, counted: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """``MATCHED`` and ``MATCHED_OTHERS``, means over the draws of backgrounds that photos lent; empty if none did.

        A query with nobody to find in one of the draws has no mean over them, nor a value in any condition: ``counted``, by
        setting, is filled in by the clean view, the first that is asked.
        """
        lent = self.embeddings.donors
        lending = [name for name in LENDING[setting] if (name, 0) in lent]
        if LENDING[setting][0] not in lending:
            return {}
        draws = [draw for name, draw in lent if name == lending[0]]
        numbers = [draw] if plugins.load("conditions", condition).DRAWS else draws
        drawn = [self.without([lent[name, number] for name in lending], setting)[0] for number in numbers]
        values = [map_at_r.per_query(ranked) for ranked in drawn]
        counts = counted.setdefault(setting, self.embeddings.is_query & ~np.isnan(values).any(axis=0))
        of_others = [change_for_others(ranked, self.embeddings.labels, counts) for ranked in drawn]
        return {
            MATCHED[setting]: np.where(counts, np.mean(values, axis=0), np.nan),
            MATCHED_OTHERS[setting]: np.mean(of_others, axis=0),
        }

    @property
    def _depth(self) -> int:
        return max(deep_enough(self.embeddings.labels), DEEPEST_FIXED_RANK)

    @cached_property
    def _neighbours(self) -> Neighbours:
        """Deep enough for whatever is left out."""
        labels, originals = self.embeddings.labels, self.embeddings.first_copies
        galleries = [originals, *(originals[rows] for rows in self.embeddings.donors.values())]
        most = max(int(np.unique(rows, return_counts=True)[1].max()) for rows in galleries)
        spare = len(LENDING[QUERY_ONLY]) * most
        deep = self._depth + spare
        return neighbours(self.queries, labels, self.gallery, labels, deep, device=self.device)


def means(queries: pd.DataFrame, model: Mapping[str, object]) -> pd.DataFrame:
    """Tidy means of what ``score_queries`` gave: view and metric, ``value``, and ``n``, the queries that have one."""
    keys = [*model, *VIEW]
    views = queries.groupby(keys, sort=False)
    of_metrics = {m: views[m].agg(value="mean", n="count") for m in plugins.names("metrics") if m in queries}
    return pd.concat(of_metrics, names=["metric"]).reset_index()[[*keys, "metric", "value", "n"]]
