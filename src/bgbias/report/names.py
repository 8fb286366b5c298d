"""How names of params.yaml are printed, and in which order. A loss, a method or a dataset says so in its own file.

``TITLE``    its name in words (its name in params.yaml if it does not say);
``PLACE``    of losses and methods: where its rows stand, as in the paper, and which colour a method has; without one, rows stand
             below the others in the grid's order;
``ENTRIES``  titles of params.yaml's entries that are the method with other options, if the general rule does not serve or their
             names do not begin with the method's; by their order each has a shade of its colour, and a new one stands last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bgbias import plugins
from bgbias.photos.folds import FOLDS
from bgbias.segmentation.episodes import CENTRE
from bgbias.study import plan
from bgbias.study.cell import NO_LOSS, PLAIN, PRETRAINED, UNTRAINED, side_by_side
from bgbias.study.methods import ON_REPLACED
from bgbias.study.params import Study
from bgbias.study.variants import OF_TRAINING, Value, parse_name

if TYPE_CHECKING:
    import pandas as pd  # which commands that print no table do without

# These stand above what is compared with them.
NOT_TRAINED = (CENTRE, PRETRAINED, UNTRAINED)
FIRST = (*NOT_TRAINED, PLAIN)
BGAUGMENT = ON_REPLACED.removeprefix("+")


def settings(study: Study) -> dict[str, Any]:
    """Settings of whatever prints names: what the grid's datasets, losses and methods are called, and their order."""
    cells = plan.cells(study)
    titles = {
        "datasets": {c.dataset: dataset(c.dataset) for c in cells},
        "losses": {c.loss: (loss(c.loss), str(find_rank("losses", c.loss))) for c in cells},
        "methods": {c.method: (method(c.method), str(find_rank("methods", family(c.method)))) for c in cells},
    }
    return {"names": titles}


def table(name: str) -> str:
    """A table as the paper calls it: ``Table 1``."""
    return name.replace("table", "Table ")


def dataset(name: str) -> str:
    """A dataset as the paper prints it, a part of it likewise (``CUB50``); others keep the name their owner gave them."""
    titles = _titles("datasets")
    whole = {re.sub(r"\d+$", "", file): re.sub(r"\d+$", "", title) for file, title in titles.items()}
    part = re.fullmatch(r"(\D+)(\d+)", name)
    return titles.get(name) or (whole.get(part[1], part[1]) + part[2] if part else name)


def loss(name: str) -> str:
    """A loss in words, e.g. ``Multi Similarity``; with another setting ``Contrastive, neg margin 0.3``."""
    titles = {NO_LOSS: "No training"} | _titles("losses")
    alone, changed = parse_name(name)
    return _append_settings(titles.get(alone, alone.replace("_", " ").capitalize()), changed)


def method(name: str) -> str:
    """A method in words; ``x+bgaugment`` is a method on top of another, ``x+grey`` one with a cure without training,
    ``x+stax@0.01`` one under an attack, ``x+512d`` that of four folds side by side.
    """
    alone, length = side_by_side(name)
    if length:
        return f"{method(alone)}, {length}-d, {FOLDS} folds"
    whole, changed = parse_name(name)
    first, *on_top = (_method(part) for part in whole.split("+"))
    return " + ".join([_append_settings(first, changed), *on_top])


def attack(name: str) -> str:
    """An attack in words: STAX, MTAX-5."""
    variant = plugins.variant(name)
    return plugins.load("attacks", name).TITLE + (f"-{variant}" if variant else "")


def _append_settings(title: str, changed: Mapping[str, Value]) -> str:
    """A title and the settings of a variant, as words: ``train.lr=0.001`` is ``lr 0.001``."""
    words = (f"{key.removeprefix(OF_TRAINING).replace('_', ' ')} {value}" for key, value in changed.items())
    return ", ".join([title, *words])


def _method(name: str) -> str:
    """A file of methods/ or an entry of params.yaml; an entry's first word is spelled as in the titles: ``DCML no inv emb``."""
    under, at, epsilon = name.partition("@")
    if at:
        return f"{attack(under)} at {epsilon}"
    titles = {CENTRE: "Centre prior"} | _titles("methods") | _titles("cures")
    kind = family(name)
    words = [title.split()[0].strip(",") for title in titles.values()]
    first, *rest = name.split("_")
    spelled = {word.lower(): word for word in words}.get(first, first.capitalize())
    return titles.get(name) or entries(kind).get(name) or " ".join([spelled, *rest])


def entries(file: str) -> dict[str, str]:
    """Titles of the entries of params.yaml that a file of methods/ knows by name; none of no file."""
    return getattr(plugins.load("methods", file), "ENTRIES", {}) if file else {}


def family(method_name: str) -> str:
    """The file of methods/ behind a method (``sam_triplet`` of ``sam_triplet_8``), or nothing."""
    files = [file for file in plugins.names("methods") if re.match(rf"{file}([_+]|$)", method_name)]
    naming = (file for file in plugins.names("methods") if method_name.partition("+")[0] in entries(file))
    return max(files, key=len, default="") or next(naming, "")


def find_rank(kind: str, file: str) -> float:
    """Where a file of the losses or methods says that its rows stand; behind all others if it does not, or is not there."""
    return getattr(plugins.load(kind, file), "PLACE", math.inf) if plugins.known(kind, file) else math.inf


def _titles(kind: str) -> dict[str, str]:
    files = {name: plugins.load(kind, name) for name in plugins.names(kind)}
    return {name: file.TITLE for name, file in files.items() if hasattr(file, "TITLE")}


def row(loss_name: str, method_name: str, below_plain: bool = True) -> str:
    """A model's name as in the paper's tables: the loss alone, and ``+ BGAugment`` in the row below it."""
    alone, length = side_by_side(method_name)
    if length:
        return f"{row(loss_name, alone, below_plain)}, {length}-d, {FOLDS} folds"
    if method_name.partition("+")[0] in NOT_TRAINED:
        return method(method_name)
    whole, changed = parse_name(method_name)
    if whole == PLAIN:
        return _append_settings(loss(loss_name), changed)
    added = f"+ {method(method_name if changed else whole.removeprefix(f'{PLAIN}+'))}"
    return added if below_plain else f"{loss(loss_name)} {added}"


def is_trained(methods: pd.Series) -> pd.Series:
    """Which of these were trained, whatever cure without training is on top of them."""
    return ~methods.str.partition("+")[0].isin(NOT_TRAINED)


def count(number: int, noun: str) -> str:
    """``1 seed``, ``1,487 queries``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def join_words(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def how_many(table: pd.DataFrame, column: str, noun: str) -> str:
    """``3 seeds``, or ``1–3 seeds`` where rows differ; backbones' own features have none."""
    counted = is_trained(table["method"])
    numbers = table.loc[counted if counted.any() else ~counted, column]
    low, high = int(numbers.min()), int(numbers.max())
    return count(high, noun) if low == high else f"{low:,}–{count(high, noun)}"


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in the paper's order: datasets and backbones as they come, plain before its cures."""
    losses = sorted(rows["loss"].unique(), key=lambda name: find_rank("losses", name))
    ranks = {
        "dataset": _ranks(rows["dataset"]),
        "backbone": _ranks(rows["backbone"]),
        "loss": _ranks([NO_LOSS, *losses]),
        "method": _method_ranks(rows["method"]),
    }
    return rows.sort_values(
        list(ranks), key=lambda names: names.map(ranks[str(names.name)]), ignore_index=True
    )


def _method_ranks(names: Iterable[str]) -> dict[str, int]:
    """Entries stand below their file's own row, models of several folds below those of one."""

    def where(name: str) -> float:
        return math.inf if "+" in name else find_rank("methods", family(name)) + 0.5 * (family(name) != name)

    split = {name: side_by_side(name) for name in names}
    ranks = _ranks([*FIRST, *sorted((alone for alone, _ in split.values()), key=where)])
    return {name: 2 * ranks[alone] + bool(length) for name, (alone, length) in split.items()}


def _ranks(names: Iterable[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}
