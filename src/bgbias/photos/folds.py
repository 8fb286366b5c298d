"""Four-fold training: each fold's model is validated on other classes of the training half (Musgrave et al., ECCV 2020;
docs/methods.md, section 1). Test classes are the same in all folds.
"""

import re
from collections.abc import Sequence

from bgbias.errors import UserError

FOLDS = 4
_RUN = re.compile(rf"(\d+)(?:-fold([1-{FOLDS - 1}]))?", re.ASCII)


def run(seed: int, fold: int) -> int | str:
    """Seed and fold as one name, of folders and in tables: ``2-fold3``; the seed alone in fold 0, the dataset's own split."""
    return f"{seed}-fold{fold}" if fold else seed


def seed_and_fold(name: object) -> tuple[int, int]:
    """What ``run`` gave a name to."""
    match = _RUN.fullmatch(str(name))
    if match is None:
        raise UserError(
            f"'{name}' names no seed and fold: these are like 2, or 2-fold3 (folds 0 to {FOLDS - 1})."
        )
    return int(match[1]), int(match[2] or 0)


def validating(train: Sequence[int], val: Sequence[int], fold: int) -> list[int]:
    """The classes that validate in a fold, of those that ``train`` and ``val`` in fold 0, each in order; all others train.

    Among all of them, the n validation classes last, fold 1 takes the n before these, fold 2 the n before those, and fold 3 the
    first n: 75-99, 50-74, 25-49 and 0-24 of CUB-200-2011. Where n is not a quarter, some classes train in every fold. Folds that
    would overlap, and classes that do both, are errors.
    """
    ordered, n = [*train, *val], len(val)
    if set(train) & set(val):
        raise UserError(
            "Folds are made of whole classes, but some of this dataset's train and validate both; remove `folds` from its cells"
            " in params.yaml."
        )
    if FOLDS * n > len(ordered):
        raise UserError(
            f"{FOLDS} folds of {n} validation classes would overlap among {len(ordered)} classes: let at most a quarter validate"
            " (the dataset's options in params.yaml), or remove `folds` from its cells."
        )
    first = 0 if fold == FOLDS - 1 else len(ordered) - (fold + 1) * n
    return ordered[first : first + n]
