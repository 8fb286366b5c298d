"""Embeddings in memory, and rankings and MAP@R as their definitions have them, query by query."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bgbias.evaluation.conditions import View
from bgbias.evaluation.embeddings import Embeddings


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def random_unit(seed: int, *shape: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=shape))


def embedded(labels: Sequence[int], views: Mapping[View, np.ndarray], **more: Any) -> Embeddings:
    """Photos 000, 001, ..., all of them usable if nothing else is said."""
    ids = [f"{n:03d}" for n in range(len(labels))]
    usable = more.pop("usable", np.ones(len(labels), bool))
    return Embeddings(ids, np.asarray(labels), usable, views, **more)


def order(query: np.ndarray, gallery: np.ndarray, gone: Collection[int] = ()) -> list[int]:
    """Rows of the gallery without those that are ``gone``, the most similar first, equal ones in their order."""
    asked, known = (np.rint(vectors.astype(np.float64) * 2**24) / 2**24 for vectors in (query, gallery))
    return [int(row) for row in np.argsort(-(known @ asked), kind="stable") if row not in gone]


def map_at_r(hits: Sequence[bool]) -> float:
    """Of a whole ranking, in which all that is relevant is found at some rank; NaN where nothing is."""
    relevant = sum(hits)
    precisions = [sum(hits[: k + 1]) / (k + 1) for k in range(relevant) if hits[k]]
    return sum(precisions) / relevant if relevant else float("nan")


def angles(*degrees: float) -> np.ndarray:
    """Unit vectors float32 [N, 2]."""
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)
