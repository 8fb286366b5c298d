"""How a model's run looks in MLflow: a name as the tables print it, its method's colour, and a description that can be read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bgbias.report import html, look, names
from bgbias.report.columns import NOTHING

NOTE, COLOUR = "mlflow.note.content", "mlflow.runColor"
# The mark of a description of ours: one that somebody has edited is left alone.
WRITTEN = "bgbias.note"
# What a description tells: head, metric, factor, digits.
TOLD = (
    ("MAP@R, other backgrounds, %", "map_at_r_corrupted", 100, 1),
    ("MAP@R, clean, %", "map_at_r_clean", 100, 1),
    ("drop, %", "relative_drop", 100, 1),
    ("attribution score", "attribution_ref", 1, 3),
    ("minutes", "seconds", 1 / 60, 1),
)


def name(cell: Mapping[str, Any]) -> str:
    """``Contrastive + BGAugment, demo_90, seed 0 (tiny)``: the backbone last, since tables cut long names at the end, and most
    grids have one backbone a dataset.
    """
    row = names.row(cell["loss"], cell["method"], below_plain=False)
    return f"{row}, {names.dataset(cell['dataset'])}, seed {cell['seed']} ({cell['backbone']})"


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
        " *Artifacts*; a run of its own for each step has the command that repeats it.",
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
