"""Exported pictures as a retrieval task of MTEB: its users see the drop beside their other scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.auditing import workdir
from bgbias.errors import UserError
from bgbias.models.adapters._library import import_extra
from bgbias.results.rows import read_csv

CLEAN, CORRUPTED = "clean-0", "random_background-0"


def task(folder: Path | str, views: Sequence[str] = (CLEAN, CORRUPTED), name: str = "BgBias") -> Any:
    """An ``AbsTaskRetrieval`` from what ``bgbias audit --export`` wrote: a split for each view, whose
    photos are the queries. The gallery is the clean photos, each query's own left out; photos of its
    class are right. The main score is MAP@R, 0..1. A folder that lacks a view is a UserError.
    """
    exported = Path(folder)
    for file in (exported / workdir.PHOTOS, *(exported / view for view in (CLEAN, *views))):
        if not file.exists():
            raise UserError(f"{file} is missing; write it by: bgbias audit PHOTOS --export {folder}")
    labels = read_csv(exported / workdir.PHOTOS, {"class_name": str})["class_name"]
    if labels.hasnans:
        raise UserError(f"{folder} is of photos without classes, so that nobody knows what should be found.")
    retrieval = import_extra("mteb.abstasks.retrieval", "mteb").AbsTaskRetrieval
    described = import_extra("mteb.abstasks.task_metadata", "mteb").TaskMetadata

    class Task(retrieval):  # type: ignore[misc, valid-type]
        metadata = described(
            name=name,
            description="Does a query find its class on another background?",
            dataset={"path": str(folder), "revision": "exported"},
            type="Any2AnyRetrieval",
            category="i2i",
            modalities=["image"],
            eval_splits=list(views),
            eval_langs=["zxx-Zxxx"],
            main_score="map_at_r",
        )
        ignore_identical_ids = True

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset = {"default": {view: _split(exported, view, labels) for view in views}}
            self.data_loaded = True

        def task_specific_scores(
            self, scores: Any, qrels: Any, results: Any, *_: Any, **__: Any
        ) -> dict[str, float]:
            return {"map_at_r": float(np.mean([_map_at_r(q, qrels[q], results[q]) for q in qrels]))}

    return Task()


def _split(folder: Path, view: str, labels: pd.Series) -> dict[str, Any]:
    datasets = import_extra("datasets", "mteb")
    ids = [str(row) for row in labels.index]

    def pictures(name: str) -> Any:
        files = [str(folder / name / f"{row:06}.png") for row in labels.index]
        return datasets.Dataset.from_dict({"id": ids, "image": files}).cast_column("image", datasets.Image())

    by_class = labels.groupby(labels).groups
    right = {
        query: {str(row): 1 for row in by_class[label] if str(row) != query}
        for query, label in zip(ids, labels, strict=True)
    }
    return {
        "corpus": pictures(CLEAN),
        "queries": pictures(view),
        "relevant_docs": right,
        "top_ranked": None,
    }


def _map_at_r(query: str, right: dict[str, int], scores: dict[str, float]) -> float:
    """Of the first R others, R as many as are right: the mean over places of the precision there."""
    ranked = sorted((doc for doc in scores if doc != query), key=scores.__getitem__, reverse=True)
    hits = np.array([doc in right for doc in ranked[: len(right)]], float)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / len(right))
