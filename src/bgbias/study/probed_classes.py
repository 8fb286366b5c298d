"""Test classes as the photos number them that probes are fitted on."""

from __future__ import annotations

from bgbias.errors import UserError
from bgbias.photos.table import read_table
from bgbias.study.params import Study


def numbers(study: Study, dataset: str) -> dict[int, int]:
    """From the labels of a dataset's test classes to those that the dataset of its ``fit_probes_on`` gives to the classes of the
    same names; a class of which that has no training photos is an error.
    """
    fitted = study.datasets[dataset].fit_probes_on
    own, theirs = (
        read_table(study.files.at("table", dataset=name)).split(split).frame.drop_duplicates("label")
        for name, split in ((dataset, "test"), (str(fitted), "train"))
    )
    number_of = dict(zip(theirs["class_name"], theirs["label"], strict=True))
    if strange := sorted(set(own["class_name"]) - set(number_of)):
        raise UserError(
            f"{fitted} has no training photos of {len(strange)} classes of {dataset}'s test photos, e.g. '{strange[0]}';"
            f" name another dataset as datasets.{dataset}.fit_probes_on in params.yaml, or leave it out."
        )
    return {
        int(label): int(number_of[name]) for label, name in zip(own["label"], own["class_name"], strict=True)
    }
