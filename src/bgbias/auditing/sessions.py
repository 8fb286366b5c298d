"""Photos of one session: taken at one time, they find each other whatever stands in them (docs/methods.md, section 16)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bgbias.auditing.findings import MODEL
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.whole_gallery import rank_among
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.results import uncertainty
from bgbias.results.rows import values_for_views, views_in
from bgbias.results.uncertainty import Estimate


@dataclass(frozen=True)
class AcrossSessions:
    """``sessions``: how many there are. ``own``: of queries whose first match is right, the share whose match is of their own
    session, 0..1. Without matches of their own session: ``queries`` that have others, their MAP@R on original photos (``clean``)
    and its relative ``drop`` on other backgrounds.
    """

    sessions: int
    own: float
    queries: int
    clean: Estimate
    drop: Estimate


def compare(embeddings: Embeddings, session_of: Mapping[str, str]) -> AcrossSessions | None:
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
        values.estimate([CLEAN, RANDOM_BACKGROUND], uncertainty.relative_drop),
    )
