"""How a model's run looks in MLflow: names as the tables print them, shares in per cent as there, its method's colour, and a
description that can be read. The runs of its nodes say what their records say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bgbias.report import html, look, names
from bgbias.report.columns import NOTHING

NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"
# The mark of a description of ours: one that somebody has edited is left alone.
WRITTEN = "bgbias.note"
# A record's metric, how the model's run calls it, and by what it is multiplied. MLflow takes no @ and no %.
NAMED = {
    "map_at_r_corrupted": ("MAP at R corrupted", 100),
    "map_at_r_clean": ("MAP at R clean", 100),
    "map_at_r_query_corrupted": ("MAP at R query only", 100),
    "relative_drop": ("Drop percent", 100),
    "precision_at_1_corrupted": ("P at 1 corrupted", 100),
    "precision_at_1_clean": ("P at 1 clean", 100),
    "attribution_ref": ("Score", 1),
    "attribution_robust": ("Score robust", 1),
    "best_val_map_at_r": ("Best validation MAP at R", 100),
    "best_val_corrupted_map_at_r": ("Best validation MAP at R corrupted", 100),
}
# Columns of a training's history, likewise.
CURVES = {
    "epoch/val_map_at_r": ("epoch/validation MAP at R", 100),
    "epoch/val_corrupted_map_at_r": ("epoch/validation MAP at R corrupted", 100),
    "epoch/val_precision_at_1": ("epoch/validation P at 1", 100),
    "epoch/val_corrupted_precision_at_1": ("epoch/validation P at 1 corrupted", 100),
}
# What a description tells: head, the run's metric, factor, digits.
TOLD = (
    ("MAP@R, other backgrounds, %", "MAP at R corrupted", 1, 1),
    ("MAP@R, clean, %", "MAP at R clean", 1, 1),
    ("drop, %", "Drop percent", 1, 1),
    ("attribution score", "Score", 1, 3),
    ("minutes", "seconds", 1 / 60, 1),
)


def name(cell: Mapping[str, Any]) -> str:
    """``Contrastive + BGAugment, demo_90, seed 0 (tiny)``: the backbone last, since tables cut long names at the end, and most
    grids have one backbone a dataset.
    """
    row = names.row(cell["loss"], cell["method"], below_plain=False)
    return f"{row}, {names.dataset(cell['dataset'])}, seed {cell['seed']} ({cell['backbone']})"


def named(values: Mapping[str, float], names: Mapping[str, tuple[str, int]] = NAMED) -> dict[str, float]:
    """Values by the names that a model's run has, in the tables' units, as long as a column is wide; what has no such name stays
    as it is.
    """
    ours = {names[key][0]: round(names[key][1] * value, 4) for key, value in values.items() if key in names}
    return ours | {key: value for key, value in values.items() if key not in names}


def of_method(method: str) -> dict[str, str]:
    """The tag by which charts draw a model's run in the colour that the figures give its method."""
    return {COLOUR: look.colour(method)}


def described(title: str, metrics: Mapping[str, float], grid: str) -> dict[str, str]:
    """The tags of a model's description: what was found so far, in the units of the tables."""
    found = [
        (head, html.number(factor * metrics[key], digits))
        for head, key, factor, digits in TOLD
        if key in metrics
    ]
    heads, values = zip(*found, strict=True) if found else ((NOTHING,), (NOTHING,))
    lines = (
        f"**{title}**",
        "",
        *(f"| {' | '.join(line)} |" for line in (heads, ["---:"] * len(heads), values)),
        "",
        f"One training; the tables have means over seeds: `bgbias show --grid {grid}`. Its training curve and scores are below"
        " *Artifacts*; a run of its own for each step has the command that repeats it, and those called *figure* and *table* hold"
        f" the grid's; all on one page: `bgbias report {grid}`.",
    )
    note = "\n".join(lines)
    return {NOTE: note, WRITTEN: mark(note)}


def mark(note: str) -> str:
    """By which a description is known to be ours."""
    return hashlib.sha256(note.encode()).hexdigest()[:16]


def kept(tags: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """The tags to set on a run that has these already: people edit descriptions and colours in the UI."""
    theirs = {COLOUR} & before.keys()
    if NOTE in before and before.get(WRITTEN) != mark(before[NOTE]):
        theirs |= {NOTE, WRITTEN}
    return {key: value for key, value in tags.items() if key not in theirs}
