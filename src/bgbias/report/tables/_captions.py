"""Sentences that captions share: selection, repetitions, exclusions, intervals, and whose numbers stand beside ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bgbias.report import names
from bgbias.report.columns import MARK, Column, explained
from bgbias.results import published, uncertainty
from bgbias.results.uncertainty import (
    FEWEST_CLASSES,
    FEWEST_HARD,
    FEWEST_SEEDS,
    SIGNIFICANT,
    STARRED_CLASSES,
    STARRED_SEEDS,
)
from bgbias.study.params import Study

SELECTIONS = {
    "published": "on validation MAP@R, clean for plain training and corrupted for BGAugment, as published",
    "clean": "on clean validation MAP@R, for every method alike",
    "corrupted": "on corrupted validation MAP@R, for every method alike",
}
# By their heads.
SPREADS = {
    "± draws": "± draws: sample sd over background draws for one model, the paper's ±",
    "± images": "± images: sd over photos (ddof 0), the paper's ±",
    "± seeds": "± seeds: sample sd over training seeds, – for one",
}
SAME_GALLERY = "Other classes are classes of queries: the gallery stays as it is."
BOLD = f"Bold: the highest of a loss, and what is not below it by more than chance (paired, Holm-corrected p ≥ {SIGNIFICANT:g})."
# What folds are to a table's means and spreads.
COUNTED = (
    "Rows are means over them, ± seeds counts them too; where a length is named, the models' embeddings stand side by side"
    " as one."
)


def selection(study: Study) -> dict[str, Any]:
    """Settings: the rule of selection, which every caption tells."""
    return {"selection": study.train.selection}


def protocol(study: Study) -> dict[str, Any]:
    """Settings: the papers' numbers beside ours, and the rule of selection."""
    return {"published": published.checksums()} | selection(study)


def selected(study: Study) -> str:
    """How models were chosen."""
    return f" Models were selected {SELECTIONS[study.train.selection]}."


def seeds(table: pd.DataFrame) -> str:
    """``3 training seeds``."""
    return names.how_many(table, "seeds", "training seed")


def folds(table: pd.DataFrame, counted: str = COUNTED) -> str:
    """What the folds are, where there are some, and how they are counted."""
    if "folds" not in table:
        return ""
    return (
        f" {names.how_many(table, 'folds', 'fold').capitalize()}: as many models, each validated on other classes of the"
        f" training half. {counted}"
    )


def trained(study: Study, table: pd.DataFrame, counted: str = COUNTED) -> str:
    """How models were chosen, and how often each was trained."""
    return f"{selected(study)} {seeds(table)}.{folds(table, counted)}"


def title(what: str, table: pd.DataFrame) -> str:
    """The first sentence, which says so if too few seeds were trained to speak of methods."""
    trained = table[names.trained(table["method"])]
    fewest = int(trained["seeds"].min()) if len(trained) else FEWEST_SEEDS
    if fewest >= FEWEST_SEEDS:
        return f"**{what}.**"
    some = "" if trained["seeds"].max() < FEWEST_SEEDS else "some rows are of "
    number = {1: "one training seed", 2: "two training seeds"}[fewest]
    return f"**{what}: {some}{number}, which speak{'s' * (fewest == 1)} of these models and not of the methods.**"


def intervals(table: pd.DataFrame, of: str = "classes") -> str:
    """What an interval in brackets is and speaks of; ``of``: whose classes."""
    said = []
    percent = f"{100 * uncertainty.CONFIDENCE:.0f} %"
    if (table["seeds"] >= FEWEST_SEEDS).any():
        said.append(
            f"over {of} and training seeds, for the method trained again and other classes of this kind"
        )
    if (table["seeds"] < FEWEST_SEEDS).any():
        fewer = "" if not said else f" (rows of fewer than {FEWEST_SEEDS} seeds)"
        said.append(f"over {of} alone, for these models and other classes of this kind{fewer}")
    text = f"[low, high]: {percent} {'; '.join(said)}."
    if (table["classes"] < FEWEST_CLASSES).any():
        text += f" Fewer than {FEWEST_CLASSES} classes have none."
    return text + (
        f" Too narrow, and p too small, if fewer than {FEWEST_HARD} {of} hold most of an effect"
        " (docs/methods.md, section 12)."
    )


def stars(table: pd.DataFrame, corrected_for: str, by_the_same: bool = False) -> str:
    """What a star is, and that stars may be too rare, where a method is judged by so few classes and seeds; ``by_the_same``: by
    what makes intervals.
    """
    test = f"{MARK}: p < {SIGNIFICANT:g}" + " by the same" * by_the_same
    return f"{test}, Holm-corrected for {corrected_for}.{rare_stars(table)}"


def rare_stars(table: pd.DataFrame) -> str:
    """That stars may be too rare; nothing where they are not."""
    few_classes = table["classes"].between(FEWEST_CLASSES, STARRED_CLASSES, inclusive="left")
    few_seeds = table["seeds"].between(FEWEST_SEEDS, STARRED_SEEDS, inclusive="left")
    if not (few_classes & few_seeds).any():
        return ""
    return (
        f" With fewer than {STARRED_CLASSES} classes and fewer than {STARRED_SEEDS} seeds, stars can be too rare where classes"
        " differ symmetrically (docs/methods.md, section 12)."
    )


def correlated(table: pd.DataFrame) -> str:
    """What ``correlation.beside`` found, of each dataset and backbone: ``toy · tiny rho .52, 24 models in 6 rows``, or that there
    are too few models; and why no interval stands beside it.
    """
    said = []
    for (dataset, backbone), part in table.groupby(["dataset", "backbone"], sort=False):
        row = part.iloc[0]
        of = 0 if math.isnan(row["rho_models"]) else int(row["rho_models"])
        known = f"not told, of {of} models"
        if not math.isnan(row["rho"]):
            known = f"rho {row['rho']:.2f}, {of} models in {names.count(len(part), 'row')}"
        said.append(f"{names.dataset(str(dataset))} · {backbone} {known.replace('-', '−')}")
    alike = (
        " Rho describes these models only: models of one row differ by their seed alone, and there are too few rows for an"
        " interval."
    )
    return f"{'; '.join(said)}.{alike if table['rho'].notna().any() else ''}"


def spreads(table: pd.DataFrame, columns: Sequence[Column]) -> str:
    """What stands behind ± in the columns that are printed."""
    said = explained(table, columns, SPREADS, "; ")
    return said and f"{said}."


def exclusions(without: Mapping[str, int], what: str) -> str:
    """How many photos of each dataset were left out for their masks, and ``what`` they are for that."""
    counts = [f"{names.dataset(d)} {n:,}" for d, n in without.items() if n]
    if not counts:
        return " No photo was excluded for its mask."
    return f" Photos with an empty or a full mask keep their background and {what}: {', '.join(counts)}."


def paper(table: pd.DataFrame) -> str:
    """Whose numbers stand beside ours, and what was done in another way there."""
    alike: dict[str, None] = {}
    others: dict[tuple[str, str], dict[str, None]] = {}
    for name in (str(c).removesuffix("_source") for c in table.columns if str(c).endswith("_source")):
        for source, differs in table[[f"{name}_source", f"{name}_differs"]].dropna(how="all").to_numpy():
            if isinstance(differs, str):
                printed, _, number = source.rpartition(" ")
                others.setdefault((printed, differs), {})[number] = None
            else:
                alike[re.sub(r" (\d{4}) .*", r" (\1)", source)] = None
    said = f" Paper: {', '.join(alike)}, Δ: ours minus theirs." if alike else ""
    told = "; ".join(
        f"{printed} {', '.join(numbers)}: {differs}" for (printed, differs), numbers in others.items()
    )
    return said + (f" Paper, in brackets: found in another way ({told})." if told else "")
