"""Classifiers on a model's embeddings: linear and nearest-neighbour evaluation (docs/methods.md, section 6)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import progress, seeds
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.photos.table import read_table

# How many of the nearest ones vote, and how their votes are weighted (Wu et al. 2018; Caron et al. 2021).
NEIGHBOURS, TEMPERATURE = 20, 0.07
AT_ONCE = 1024  # queries that are compared with all embeddings; bounds memory
STRENGTHS = tuple(10.0**power for power in range(-1, 5))  # inverse ones of the linear layer's penalty
WITHIN = 3  # parts of what a linear layer is fitted on, by which its penalty is chosen
ITERATIONS = 20_000
# Of the gradient: with scikit-learn's own 1e-4 weak penalties end up to 17 % of the predictions away from the minimum.
TOLERANCE = 1e-7

Classifier = Callable[[np.ndarray], np.ndarray]
"""From embeddings [N, D] to classes, int64 [N]."""
Round = tuple[np.ndarray, np.ndarray, np.ndarray]
"""What probes are fitted on, [M, D] with classes [M], and whom they are asked about, bool [N]."""


def nearest(embeddings: np.ndarray, labels: np.ndarray) -> Classifier:
    """The class that the nearest embeddings vote for, each with ``exp(cosine / TEMPERATURE)``; of unit vectors [N, D]."""
    classes, class_of = np.unique(labels, return_inverse=True)
    count = min(NEIGHBOURS, len(labels))

    def votes(queries: np.ndarray) -> np.ndarray:
        cosines = queries.astype(np.float64) @ embeddings.astype(np.float64).T
        last = np.partition(cosines, -count, axis=1)[:, -count, None]
        query, voter = np.nonzero(cosines >= last)  # whoever is as near as the last one votes, too
        weights = np.exp((cosines[query, voter] - 1) / TEMPERATURE)
        cells = query * len(classes) + class_of[voter]
        return np.bincount(cells, weights, len(queries) * len(classes)).reshape(len(queries), -1)

    def classify(queries: np.ndarray) -> np.ndarray:
        parts = [queries[first : first + AT_ONCE] for first in range(0, len(queries), AT_ONCE)]
        return np.concatenate([classes[votes(part).argmax(1)] for part in parts])

    return classify


def linear(embeddings: np.ndarray, labels: np.ndarray) -> Classifier:
    """Multinomial logistic regression on unit vectors [N, D], penalised by the squares of its weights; how much, is chosen by
    cross-validation within them. Where a class has one photo alone it is not, and the inverse strength is 1.
    """
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import PredefinedSplit

    number = min(WITHIN, int(np.unique(labels, return_counts=True)[1].min()))
    if number < 2:
        layer = LogisticRegression(tol=TOLERANCE, max_iter=ITERATIONS)
    else:
        fold_of = parts([str(row) for row in range(len(labels))], labels, number)
        layer = LogisticRegressionCV(
            Cs=STRENGTHS,
            l1_ratios=(0.0,),
            cv=PredefinedSplit(fold_of),
            tol=TOLERANCE,
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
    part_of = np.empty(len(labels), dtype=np.int64)
    part_of[order] = (np.arange(len(labels)) - np.repeat(first, sizes)) % number
    part_of[order[np.repeat(sizes < number, sizes)]] = -1
    return part_of


def score_queries(embedded: Embeddings, number: int) -> pd.DataFrame:
    """Whether each probe is right about a query's class, 0 or 1, in every view: ``image_id``, ``label``, ``condition``, ``draw``
    and a column a probe.

    Photos are divided into ``number`` ``parts``; those of one part are classified by what was fitted on the clean photos of all
    others. Raises UserError where fewer than two classes have so many photos, or trusted masks.
    """
    part_of = parts(embedded.ids, embedded.labels, number)
    is_query = embedded.is_query & (part_of >= 0)
    if len(set(embedded.labels[part_of >= 0].tolist())) >= 2 > len(set(embedded.labels[is_query].tolist())):
        raise UserError(
            "Fewer than two classes have photos with a trusted mask, and no others can be put on other backgrounds. Look"
            " at the masks (docs/masks.md)."
        )
    if len(set(embedded.labels[is_query].tolist())) < 2:
        raise UserError(
            f"Of {len(set(embedded.labels.tolist()))} classes fewer than two have {number} photos or more, as many as parts that"
            " probes divide a class into. Lower probes.folds, or set it to null."
        )
    clean, labels = embedded.views[CLEAN, 0], embedded.labels

    def rounds() -> Iterator[Round]:
        asked = np.unique(part_of[is_query])  # a part may have no photo with a trusted mask
        for part in progress.track(asked, len(asked), "probes"):
            fitted = (part_of >= 0) & (part_of != part)
            yield clean[fitted], labels[fitted], is_query & (part_of == part)

    return _judge(embedded, rounds(), labels, is_query)


def of_others(embedded: Embeddings, training: Embeddings, classes: np.ndarray) -> pd.DataFrame:
    """The same of classifiers that are fitted on clean ``training`` photos of the same classes, and asked about every query;
    ``classes``: the numbers of the queries' classes there, int64 [N]. Raises UserError where there are fewer than two to tell
    apart, or no query.
    """
    if len(set(training.labels.tolist())) < 2 or not embedded.is_query.any():
        raise UserError(
            f"Probes need training photos of two classes and test photos to ask about; there are {len(training.ids)} and"
            f" {int(embedded.is_query.sum())} whose mask is trusted. Look at probe_photos of their dataset in params.yaml, and"
            " at the masks (docs/masks.md)."
        )
    if absent := set(classes[embedded.is_query].tolist()) - set(training.labels.tolist()):
        raise UserError(
            f"{len(absent)} classes of the test photos have none among the {len(training.ids)} training photos that probes are"
            " fitted on; raise or drop probe_photos of their dataset in params.yaml."
        )
    alone = [(training.views[CLEAN, 0], training.labels, embedded.is_query)]
    return _judge(embedded, iter(alone), classes, embedded.is_query)


def _judge(
    embedded: Embeddings, rounds: Iterator[Round], classes: np.ndarray, is_query: np.ndarray
) -> pd.DataFrame:
    """Whether the probes of each round name the ``classes`` of those whom it asks, in every view; of all queries."""
    right = {view: np.full((len(PROBES), len(classes)), np.nan) for view in embedded.views}
    for fitted, labels, whom in rounds:
        for row, fit in enumerate(PROBES.values()):
            classify = fit(fitted, labels)
            for view, vectors in embedded.views.items():
                right[view][row, whom] = classify(vectors[whom]) == classes[whom]
    tables = [
        pd.DataFrame(
            {"image_id": embedded.ids, "label": embedded.labels, "condition": condition, "draw": draw}
            | dict(zip(PROBES, values, strict=True))
        )[is_query]
        for (condition, draw), values in right.items()
    ]
    return pd.concat(tables, ignore_index=True)


def class_numbers(table: Path, dataset: str, fitted_table: Path, fitted: str) -> dict[int, int]:
    """From the labels of a dataset's test classes to those that the training classes of the same names have in the dataset that
    probes are fitted on; a class of which that has no training photos is an error. Both by their tables' files and names.
    """
    test, train = (
        read_table(path).split(split).frame.drop_duplicates("label")
        for path, split in ((table, "test"), (fitted_table, "train"))
    )
    number_of = dict(zip(train["class_name"], train["label"], strict=True))
    if strange := sorted(set(test["class_name"]) - set(number_of)):
        raise UserError(
            f"{fitted} has no training photos of {len(strange)} classes of {dataset}'s test photos, e.g. '{strange[0]}';"
            f" name another dataset as datasets.{dataset}.fit_probes_on in params.yaml, or leave it out."
        )
    pairs = zip(test["label"], test["class_name"], strict=True)
    return {int(label): int(number_of[name]) for label, name in pairs}
