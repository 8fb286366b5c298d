"""What the printed tables show: each table's columns, from its numbers to words, and a terminal's legend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bgbias.results.tests import SIGNIFICANT
from bgbias.segmentation.episodes import TASKS

NOTHING = "–"
# A difference from plain that holds for other queries, and one that holds for other training seeds.
OVER_QUERIES, OVER_SEEDS = "*", "†"
TASK_HEADS = dict(
    zip(TASKS, (("1-way 1-shot", "1-1"), ("2-way 1-shot", "2-1"), ("2-way 5-shot", "2-5")), strict=True)
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A printed column: its head, a row's text, its shorter head on a terminal (none: no room there).

    ``best`` names the table's column whose highest number among a loss's methods is set in bold, as in the
    paper.
    """

    head: str
    text: Callable[[Row], str]
    terminal: str = ""
    best: str = ""


def columns_of(table: pd.DataFrame, name: str) -> list[Column]:
    """The columns of the table that is called ``name``; those about which it has nothing to say are left out."""
    return _TABLES[name][0](table)


def legend(name: str) -> tuple[str, ...]:
    """Two lines or three below the table on a terminal."""
    return _TABLES[name][1]


def _retrieval(table: pd.DataFrame) -> list[Column]:
    columns = [
        Column("Clean", _number("clean", 2), "Clean", best="clean"),
        Column("± seeds", _number("clean_sd_seeds", 2)),
        Column("Corrupted", _number("corrupted", 2), "Corr.", best="corrupted"),
        Column("± draws", _number("corrupted_sd_draws", 2), "± draws"),
        Column("± seeds", _number("corrupted_sd_seeds", 2), "± seeds"),
        Column("Drop, points", _interval("drop", 1)),
        Column("Drop, %", _interval("relative_drop", 1), "Drop, % [95 %]"),
        Column("Cure, points", _interval("cure", 1), "Cure, points [95 %]"),
        Column("Query only", _number("query_only", 2)),
        Column("Query-only drop, %", _number("query_only_relative_drop", 1), "Query only, %"),
        Column("P@1, clean", _number("p_at_1_clean", 1)),
        Column("P@1, corrupted", _number("p_at_1_corrupted", 1)),
    ]
    if table[["published_clean", "published_corrupted"]].notna().any(axis=None):
        columns += [
            Column("Paper, clean", _published("clean", 2)),
            Column("Δ, clean", _number("difference_clean", 2, sign=True)),
            Column("Paper, corrupted", _published("corrupted", 2)),
            Column("Δ, corrupted", _number("difference_corrupted", 2, sign=True)),
        ]
    if table["published_p_at_1_clean"].notna().any():
        columns.append(Column("Paper, P@1", _published("p_at_1_clean", 1)))
    return columns


def _attribution(table: pd.DataFrame) -> list[Column]:
    columns = []
    variants = {"ref": "Score", "robust": "Robust", "similarity": "Similarity"}
    for variant, name in ((v, n) for v, n in variants.items() if v in table):
        columns += [
            Column(name, _number(variant, 3), name, best=variant),
            Column("± images", _number(f"{variant}_sd_images", 3), "± img"),
            Column("± seeds", _number(f"{variant}_sd_seeds", 3)),
            Column("< 0, %", _number(f"{variant}_negative", 1), "< 0, %"),
            Column("Gain", _interval(f"{variant}_gain", 3), "Gain [95 %]"),
        ]
    columns += [
        Column("Images", lambda row: f"{row['images']:,}"),
        Column("Skipped", _skipped),
    ]
    if table["published_ref"].notna().any():
        columns += [
            Column("Paper", _published("ref", 2)),
            Column("Δ", _number("difference_ref", 3, sign=True)),
        ]
    return columns


def _rivals(table: pd.DataFrame) -> list[Column]:
    columns = [
        Column("Clean", _number("clean", 2), "Clean", best="clean"),
        Column("vs plain, clean", _tested("clean_difference", 1, sign=True, interval=True)),
        Column("Corrupted", _number("corrupted", 2), "Corr.", best="corrupted"),
        Column("vs plain, corrupted", _tested("corrupted_difference", 1, sign=True, interval=True)),
        Column("Drop, %", _number("relative_drop", 1), "Drop, %"),
        Column("Cure, points", _tested("cure", 1, interval=True), "Cure, points [95 %]"),
        Column("Cure, over seeds", _interval_alone("cure_seeds", 1)),
        Column("Score", _number("ref", 3), "Score", best="ref"),
        Column("Gain", _tested("ref_gain", 3, sign=True), "Gain"),
        Column("Step, s", _significant("cost_seconds_a_step"), "Step, s"),
        Column("Training, min", _number("cost_training_minutes", 1)),
        Column("Memory, GB", _number("cost_memory_gb", 1), "GB"),
        Column("GPU, GB", _number("cost_gpu_memory_gb", 1)),
    ]
    optional = {"Cure, over seeds": "cure_seeds_low", "GPU, GB": "cost_gpu_memory_gb"}
    return [c for c in columns if c.head not in optional or table[optional[c.head]].notna().any()]


def _segmentation(table: pd.DataFrame) -> list[Column]:
    columns = []
    for task, (name, short) in TASK_HEADS.items():
        columns += [
            Column(name, _interval(task, 1), short, best=task),
            Column("± seeds", _number(f"{task}_sd_seeds", 1)),
            Column("Map alone", _number(f"{task}_map", 1)),
            Column("Over plain", _interval(f"{task}_gain", 1)),
            Column("Over centre", _interval(f"{task}_over_centre", 1), "Over centre" * (task == TASKS[-1])),
        ]
    return columns


_TABLES: dict[str, tuple[Callable[[pd.DataFrame], list[Column]], tuple[str, ...]]] = {
    "table1": (
        _retrieval,
        (
            "MAP@R in %. Corr.: random backgrounds in query and gallery; query only: in the query alone.",
            "Drop: relative. Cure: plain's drop minus this one. [95 %]: paired bootstrap over queries.",
        ),
    ),
    "table2": (
        _attribution,
        (
            "Attribution on the object, corrected for its size: 1 all of it, 0 no more than chance. Score: the",
            "paper's; robust: ours. < 0: share of photos. Gain: over plain, with paired bootstrap over photos.",
        ),
    ),
    "table3": (
        _rivals,
        (
            "Each method against plain. Drop: relative. Cure: plain's drop minus this one, [95 %] over queries.",
            f"Score: of attribution. Marks: p < {SIGNIFICANT:g}, {OVER_QUERIES} over queries or photos, {OVER_SEEDS} over seeds;"
            " Holm-corrected.",
            "Step and memory: of training, as measured. Differences on clean and corrupted photos: table3.md.",
        ),
    ),
    "table4": (
        _segmentation,
        (
            "Mean IoU in % of GrabCut from similarity attention; 1-1, 2-1, 2-5: ways and shots. Over centre: over",
            "the centre prior's. [95 %]: paired bootstrap over episodes.",
        ),
    ),
}


def _number(column: str, digits: int, sign: bool = False) -> Callable[[Row], str]:
    return lambda row: _rounded(row[column], digits, sign)


def _published(name: str, digits: int) -> Callable[[Row], str]:
    """A paper's number; in brackets where it was found in another way than ours."""

    def text(row: Row) -> str:
        value, spread = row[f"published_{name}"], row[f"published_{name}_sd"]
        shown = _rounded(value, digits) + ("" if math.isnan(spread) else f" ± {spread:.{digits}f}")
        return f"({shown})" if isinstance(row[f"published_{name}_differs"], str) else shown

    return text


def _interval(column: str, digits: int) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        if math.isnan(row[column]):
            return NOTHING
        return f"{_rounded(row[column], digits)} {_ends(row, column, digits)}"

    return text


def _interval_alone(column: str, digits: int) -> Callable[[Row], str]:
    return lambda row: NOTHING if math.isnan(row[f"{column}_low"]) else _ends(row, column, digits)


def _tested(column: str, digits: int, sign: bool = False, interval: bool = False) -> Callable[[Row], str]:
    """A difference from plain, with marks where it is more than chance."""

    def text(row: Row) -> str:
        if math.isnan(row[column]):
            return NOTHING
        marks = ((OVER_QUERIES, f"{column}_p_holm"), (OVER_SEEDS, f"{column}_seeds_p_holm"))
        marked = "".join(mark for mark, p in marks if row[p] < SIGNIFICANT)
        shown = _rounded(row[column], digits, sign)
        return (
            shown + (f" {_ends(row, column, digits)}" if interval else "") + (f" {marked}" if marked else "")
        )

    return text


def _significant(column: str) -> Callable[[Row], str]:
    """Two significant digits: steps take milliseconds here and seconds there."""

    def text(row: Row) -> str:
        value = row[column]
        # A curve's seconds are rounded: of a very short epoch nothing is left.
        digits = 1 - math.floor(math.log10(value)) if value > 0 else 3
        return _rounded(value, max(0, digits))

    return text


def _ends(row: Row, column: str, digits: int) -> str:
    low, high = (_rounded(row[f"{column}_{end}"], digits) for end in ("low", "high"))
    return f"[{low}, {high}]"


def _skipped(row: Row) -> str:
    # A table read back from its CSV has NaN where nothing was skipped.
    return row["skipped"] if isinstance(row["skipped"], str) and row["skipped"] else "none"


def _rounded(value: float, digits: int, sign: bool = False) -> str:
    """A number with a true minus sign; a dash where there is none."""
    if math.isnan(value):
        return NOTHING
    # Adding 0 turns a rounded -0.00 into 0.00.
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}".replace("-", "−")
