"""Classifiers on a model's embeddings: linear and nearest-neighbour evaluation (docs/methods.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from bgbias import progress, seeds
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings

NEIGHBOURS, TEMPERATURE = (
    20,
    0.07,
)  # of the nearest ones, and of their votes (Wu et al. 2018; Caron et al. 2021)
STRENGTHS = tuple(10.0**power for power in range(-1, 5))  # inverse ones of the linear layer's penalty
WITHIN = 3  # parts of what a linear layer is fitted on, by which its penalty is chosen
ITERATIONS = 5000

Classifier = Callable[[np.ndarray], np.ndarray]
"""From embeddings [N, D] to classes, int64 [N]."""


def nearest(embeddings: np.ndarray, labels: np.ndarray) -> Classifier:
    """The class that the nearest embeddings vote for, each with ``exp(cosine / TEMPERATURE)``; of unit vectors [N, D]."""
    classes, place = np.unique(labels, return_inverse=True)
    is_of = np.eye(len(classes))[place]
    count = min(NEIGHBOURS, len(labels))

    def classify(queries: np.ndarray) -> np.ndarray:
        cosines = queries.astype(np.float64) @ embeddings.astype(np.float64).T
        last = np.partition(cosines, -count, axis=1)[
            :, -count, None
        ]  # whoever is as near as that one votes, too
        votes = np.where(cosines >= last, np.exp((cosines - 1) / TEMPERATURE), 0) @ is_of
        return classes[votes.argmax(1)]  # type: ignore[no-any-return]

    return classify


def linear(embeddings: np.ndarray, labels: np.ndarray) -> Classifier:
    """Multinomial logistic regression on unit vectors [N, D], penalised by the squares of its weights; how much, is chosen by
    cross-validation within them.
    """
    from sklearn.linear_model import LogisticRegressionCV

    place = parts([str(row) for row in range(len(labels))], labels, WITHIN)
    within = [(np.flatnonzero(place != part), np.flatnonzero(place == part)) for part in range(WITHIN)]
    layer = LogisticRegressionCV(
        Cs=STRENGTHS,
        l1_ratios=(0.0,),
        cv=within,
        max_iter=ITERATIONS,
        scoring="neg_log_loss",
        use_legacy_attributes=False,
    )
    layer.fit(embeddings.astype(np.float64), labels)
    return lambda queries: layer.predict(queries.astype(np.float64))  # type: ignore[no-any-return]


PROBES = {"linear": linear, "nearest": nearest}


def parts(names: list[str], labels: np.ndarray, number: int) -> np.ndarray:
    """Which of so many parts each photo is in, int64 [N]: parts have as many of a class, but for one. In a class photos come in
    the order of the numbers of "probe|<name>". Those of classes with fewer photos than parts are in none: -1.
    """
    drawn = np.array([seeds.number(seeds.key("probe", name)) for name in names], dtype=np.uint64)
    order = np.lexsort((drawn, labels))
    _, first, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = (np.arange(len(labels)) - np.repeat(first, sizes)) % number
    place[order[np.repeat(sizes < number, sizes)]] = -1
    return place


def of_queries(embedded: Embeddings, number: int) -> pd.DataFrame:
    """Whether each probe names a query's class, 0 or 1, in every view: ``image_id``, ``label``, ``condition``, ``draw`` and a
    column a probe.

    Photos are divided into ``number`` ``parts``; what names those of one part was fitted on the clean photos of all others.
    Raises UserError where fewer than two classes have so many photos.
    """
    place = parts(embedded.ids, embedded.labels, number)
    asked = embedded.asked & (place >= 0)
    if len(set(embedded.labels[asked].tolist())) < 2:
        raise UserError(
            f"Of {len(set(embedded.labels.tolist()))} classes fewer than two have {number} photos or more, as many as parts that"
            " probes divide a class into. Lower probes.folds, or set it to null."
        )
    clean, labels = embedded.views[CLEAN, 0], embedded.labels
    right = {view: np.full((len(PROBES), len(labels)), np.nan) for view in embedded.views}
    for part in progress.track(range(number), number, "probes"):
        fitted, whom = (place >= 0) & (place != part), asked & (place == part)
        for row, fit in enumerate(PROBES.values()):
            classify = fit(clean[fitted], labels[fitted])
            for view, vectors in embedded.views.items():
                right[view][row, whom] = classify(vectors[whom]) == labels[whom]
    tables = [
        pd.DataFrame(
            {"image_id": embedded.ids, "label": labels, "condition": condition, "draw": draw}
            | dict(zip(PROBES, values, strict=True))
        )[asked]
        for (condition, draw), values in right.items()
    ]
    return pd.concat(tables, ignore_index=True)
