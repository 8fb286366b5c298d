"""How names of params.yaml are printed, and in which order: one place, so that tables and figures agree with the paper."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from bgbias.photos.folds import FOLDS
from bgbias.segmentation.episodes import CENTRE
from bgbias.study.cell import PLAIN, PRETRAINED, side_by_side

DATASETS = {"cub200": "CUB200", "cars196": "Cars196", "sop": "SOP", "cub50": "CUB50"}
LOSSES = {
    "none": "No training",
    "contrastive": "Contrastive",
    "triplet": "Triplet",
    "quadruplet": "Quadruplet",
    "multi_similarity": "Multi Similarity",
    "arcface": "ArcFace",
    "normalized_softmax": "Normalized Softmax",
    "cosface": "CosFace",
}
# Files of methods/ and entries of the shipped params.yaml; other entries are printed by their own names.
METHODS = {
    CENTRE: "Centre prior",
    PRETRAINED: "Pretrained",
    PLAIN: "Plain",
    "bgaugment": "BGAugment",
    "plain_4": "4 photos a class",
    "sam_siamese": "SAM, pairs",
    "sam_siamese_magnitude": "SAM, pairs, by magnitudes",
    "sam_triplet": "SAM, triplets",
    "sam_quad": "SAM, quadruplets",
    "sam_siamese_8": "SAM, 8 pairs",
    "sam_siamese_magnitude_8": "SAM, 8 pairs, by magnitudes",
    "sam_triplet_8": "SAM, 8 triplets",
    "sam_quad_8": "SAM, 8 quadruplets",
    "attr_loss": "Attribution of loss",
    "attr_frac": "Attribution fraction",
    "attr_emb": "Attribution of embedding",
    "attr_loss_8": "Attribution of loss, 8 photos",
    "attr_frac_8": "Attribution fraction, 8 photos",
    "attr_emb_8": "Attribution of embedding, 8 photos",
    "dcml_code": "DCML",
    "dcml_paper": "DCML (paper)",
}
ACRONYMS = {"dcml": "DCML", "sam": "SAM"}


def table(name: str) -> str:
    """A table as the paper calls it: ``Table 1``."""
    return name.replace("table", "Table ")


def dataset(name: str) -> str:
    """A dataset as the paper prints it; others keep the name their owner gave them."""
    return DATASETS.get(name, name)


def loss(name: str) -> str:
    """A loss in words, e.g. ``Multi Similarity``."""
    return LOSSES.get(name, name.replace("_", " ").capitalize())


def method(name: str) -> str:
    """A method in words; ``x+bgaugment`` is a method on top of another, ``x+512d`` that of four folds side by side."""
    alone, length = side_by_side(name)
    if length:
        return f"{method(alone)}, {length}-d, {FOLDS} folds"
    return " + ".join(METHODS.get(part) or _entry(part) for part in name.split("+"))


def _entry(name: str) -> str:
    """An entry of params.yaml: ``DCML no inv emb``."""
    first, *rest = name.split("_")
    return " ".join([ACRONYMS.get(first, first.capitalize()), *rest])


def row(loss_name: str, method_name: str, below_plain: bool = True) -> str:
    """A model's name as in the paper's tables: the loss alone, and ``+ BGAugment`` in the row below it."""
    alone, length = side_by_side(method_name)
    if length:
        return f"{row(loss_name, alone, below_plain)}, {length}-d, {FOLDS} folds"
    if method_name in (CENTRE, PRETRAINED):
        return METHODS[method_name]
    if method_name == PLAIN:
        return loss(loss_name)
    added = f"+ {method(method_name)}"
    return added if below_plain else f"{loss(loss_name)} {added}"


def count(number: int, noun: str) -> str:
    """``1 seed``, ``1,487 queries``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def how_many(table: pd.DataFrame, column: str, noun: str) -> str:
    """``3 seeds``, or ``1–3 seeds`` where rows differ. A backbone's own features have no seeds to speak
    of.
    """
    trained = table[~table["method"].isin((CENTRE, PRETRAINED))]
    numbers = (table if trained.empty else trained)[column]
    low, high = int(numbers.min()), int(numbers.max())
    return count(high, noun) if low == high else f"{low:,}–{count(high, noun)}"


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as the paper orders them: datasets and backbones as they come, losses as in Table 1, plain before
    its cures.
    """
    ranks = {
        "dataset": _ranks(rows["dataset"]),
        "backbone": _ranks(rows["backbone"]),
        "loss": _ranks(rows["loss"], LOSSES),
        "method": _method_ranks(rows["method"]),
    }
    return rows.sort_values(
        list(ranks), key=lambda names: names.map(ranks[str(names.name)]), ignore_index=True
    )


def _method_ranks(names: Iterable[str]) -> dict[str, int]:
    """Models of several folds stand below those of one."""
    split = {name: side_by_side(name) for name in names}
    ranks = _ranks((alone for alone, _ in split.values()), METHODS)
    return {name: 2 * ranks[alone] + bool(length) for name, (alone, length) in split.items()}


def _ranks(names: Iterable[str], first: Iterable[str] = ()) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys([*first, *names]))}
