"""Audits written by hand, for tests of what is said of them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pandas as pd

from bgbias.auditing import findings, result
from bgbias.auditing.preparations import PreparationTrial
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.results.places import AcrossPlaces
from bgbias.results.uncertainty import UNKNOWN, Estimate

DROP = Estimate(0.2, 0.1, 0.3)
POINTS = Estimate(0.1, 0.05, 0.15)
LEVEL = Estimate(0.5, 0.4, 0.6)


def labelled(
    drop: Estimate = DROP,
    points: Estimate = POINTS,
    clean: Estimate = LEVEL,
    grey: float = 0.1,
    sizes: tuple[int, ...] = (20, 20, 20, 20, 20),
    first: tuple[float, float] = (0.84, 0.69),
    pasting: Estimate = UNKNOWN,
    by_chance: float = 0.1,
    without_a_lender: int = 0,
    places: AcrossPlaces | None = None,
) -> Any:
    """What an audit of photos with classes found: the first of two classes loses more than half of their MAP@R."""
    levels = [
        {"setting": setting, "condition": condition, "metric": metric} | vars(value)
        for setting in ("query", "symmetric")
        for condition, of, hits in (
            (CLEAN, clean, first[0]),
            (RANDOM_BACKGROUND, Estimate(0.3, 0.2, 0.4), first[1]),
            ("only_fg", Estimate(grey, 0.0, 0.9), 0.5),
        )
        for metric, value in (("map_at_r", of), ("precision_at_1", Estimate(hits)))
    ]
    drops = [
        {"setting": setting, "unit": unit} | vars(value)
        for setting in ("query", "symmetric")
        for unit, value in (("relative", drop), ("points", points))
    ]
    steps = [
        {"setting": setting, "step": step} | vars(pasting if step == "pasting" else POINTS)
        for setting in ("query", "symmetric")
        for step in result.TITLES["steps"]
    ]
    classes = {
        "class_name": [f"shop/{n}" for n in "abcdefghi"[: len(sizes)]],
        "queries": sizes,
        "unsure_masks": 0,
        "clean": 0.5,
        "corrupted": 0.1,
        "lost": 0.4,
        "sd": 0.15,
        "relative": [0.8, *[0.1] * (len(sizes) - 1)],
    }
    count = sum(sizes)
    lender = [math.nan] * without_a_lender + [0.4] * (count - without_a_lender)
    ids = [f"{n:03}" for n in range(count)]
    return SimpleNamespace(
        levels=levels,
        drops=drops,
        steps=[] if math.isnan(pasting.value) else steps,
        classes=pd.DataFrame(classes),
        places=places,
        photos=pd.DataFrame({"image_id": ids, "lost": [0.1] * count, findings.PATH[2]: lender}),
        by_chance=by_chance,
    )


class Photos(SimpleNamespace):
    def __len__(self) -> int:
        return 100

    def describe(self) -> list[str]:
        return ["shop: 1 photo left out"]


def an_audit(found: Any = None, **changes: Any) -> Any:
    """An audit of masks that give no reason to doubt."""
    collection = changes.pop("collection", Photos(near_duplicates=0))
    walls = SimpleNamespace(summary="20 photos of walls", photographed=True)
    backgrounds = changes.pop("backgrounds", walls)
    parts: dict[str, Any] = {
        "findings": found,
        "question": SimpleNamespace(collection=collection, backgrounds=backgrounds),
        "model": SimpleNamespace(guesses=(), name="/models/mine.py", look="a crop", notes=("a line",)),
        "preparations": PreparationTrial(),
        "masker": "u2netp",
        "remarks": ("one is empty",),
        "qualities": pd.DataFrame({"clarity": [0.95, 0.95]}),
        "usable": frozenset(map(str, range(100))),
        "shift": pd.DataFrame({RANDOM_BACKGROUND: [0.8, 0.9]}),
        "shares": None,
        "looks": SimpleNamespace(mean=UNKNOWN, how="gradients"),
        "surely": None,
        "better": (),
        "ties": 0,
        "doubtful": (),
    }
    return result.AuditResult(**parts | changes)
