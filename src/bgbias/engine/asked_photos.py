"""Whether datasets have the photos that a grid asks of them, as far as that is known before anything runs: of public datasets how
many they have, of all that are indexed also of which classes.
"""

from __future__ import annotations

from bgbias import plugins
from bgbias.engine import forecast, records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.evaluation import probed_classes
from bgbias.study.params import Study

# What photos of each split are for, by the node that needs some.
USES = {
    "train": {"train": "to train on", "val": "to validate with"},
    "pretrain": {"train": "to learn from without labels"},
    "embed_training": {"train": "to fit probes on"},
    "embed": {"test": "to ask about"},
}


class AskedPhotos:
    """The photos that a grid asks for; each dataset is looked at once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._known: dict[str, dict[str, int]] = {}

    def check(self, node: Node) -> None:
        """Refuse a node that has to run where its dataset has no photos for it, or its probes are fitted on other classes."""
        study, uses = self._study, USES.get(node.name, {})
        dataset = node.cell.dataset if node.cell else str(node.keywords.get("dataset", ""))
        # A fold's validation classes are some of the training classes.
        folds = bool(node.cell and node.cell.fold)
        fitted = study.datasets[dataset].fit_probes_on if dataset in study.datasets else None
        if node.name == "embed_training" and fitted:
            dataset = fitted
        for split, use in uses.items():
            if self._photos(dataset).get(split) == 0 and not (folds and split == "val"):
                raise UserError(
                    f"{dataset} has no photos {use}. Choose another dataset for grids.{study.grid} in params.yaml, or"
                    f" an option of it that gives some (docs/data.md says which; datasets.{dataset}.options)."
                )
        if node.name == "probe" and fitted:
            indexed = [step("index", dataset=name) for name in (dataset, fitted)]
            if all(records.of_now(study, node) for node in indexed):
                table, fitted_table = (node.file(study, "table") for node in indexed)
                probed_classes.numbers(table, dataset, fitted_table, fitted)

    def _photos(self, dataset: str) -> dict[str, int]:
        """Photos of each split, as far as they are known."""
        if dataset not in self._known:
            module = plugins.load("datasets", self._study.datasets[dataset].kind)
            none = {"train": 0, "val": 0} if getattr(module, "TESTS_ALONE", False) else {}
            self._known[dataset] = forecast.photos(self._study, dataset) or none
        return self._known[dataset]
