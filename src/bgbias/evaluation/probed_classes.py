"""Test classes as the photos number them that probes are fitted on."""

from __future__ import annotations

from pathlib import Path

from bgbias.errors import UserError
from bgbias.photos.table import read_table


def numbers(table: Path, dataset: str, fitted_table: Path, fitted: str) -> dict[int, int]:
    """From the labels of a dataset's test classes to those that the training classes of the same names have in the dataset that
    probes are fitted on; a class of which that has no training photos is an error. Both by their tables' files and names.
    """
    own, theirs = (
        read_table(path).split(split).frame.drop_duplicates("label")
        for path, split in ((table, "test"), (fitted_table, "train"))
    )
    number_of = dict(zip(theirs["class_name"], theirs["label"], strict=True))
    if strange := sorted(set(own["class_name"]) - set(number_of)):
        raise UserError(
            f"{fitted} has no training photos of {len(strange)} classes of {dataset}'s test photos, e.g. '{strange[0]}';"
            f" name another dataset as datasets.{dataset}.fit_probes_on in params.yaml, or leave it out."
        )
    named = zip(own["label"], own["class_name"], strict=True)
    return {int(label): int(number_of[name]) for label, name in named}
