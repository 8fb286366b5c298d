"""Whether datasets have the photos that a grid asks of them, as far as that is known before anything runs: of public datasets how
many they have, of all that are indexed also of which classes.
"""

from __future__ import annotations

from bgbias import plugins
from bgbias.engine import forecast, records
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.evaluation import probed_classes
from bgbias.study import plan
from bgbias.study.params import Study

# What photos of each split are for, by the node that needs some.
USES = {
    "train": {"train": "to train on", "val": "to validate with"},
    "pretrain": {"train": "to learn from without labels"},
    "embed_training": {"train": "to fit probes on"},
    "embed": {"test": "to ask about"},
}


class AskedPhotos:
    """The photos that a grid asks for; each dataset, and each pair of datasets that probes match, is looked at once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._known: dict[str, dict[str, int]] = {}
        self._matched: set[tuple[str, str]] = set()

    def check(self, node: Node) -> None:
        """Refuse a node that has to run where its dataset has no photos for it, or its probes are fitted on other classes. Of a
        dataset that params.yaml lacks others tell.
        """
        study = self._study
        dataset = node.cell.dataset if node.cell else str(node.keywords.get("dataset", ""))
        if dataset not in study.datasets:
            return
        where, fitted = f"grids.{study.grid}", study.datasets[dataset].fit_probes_on
        if node.name == "pretrain" and (named := plan.pretraining(study, node.keywords["backbone"])):
            where = f"pretrainings.{named.name}.dataset" if named.params().dataset else where
        if node.name == "embed_training" and fitted:
            where, dataset = f"datasets.{dataset}.fit_probes_on", fitted
        # A fold's validation classes are some of the training classes.
        folds = bool(node.cell and node.cell.fold)
        for split, use in USES.get(node.name, {}).items():
            if self._photos(dataset).get(split) == 0 and not (folds and split == "val"):
                raise UserError(
                    f"{dataset} has no photos {use}. Choose another dataset for {where} in params.yaml, or an option of it"
                    f" that gives some (docs/data.md says which; datasets.{dataset}.options)."
                )
        if node.name == "probe" and fitted and (dataset, fitted) not in self._matched:
            self._match(dataset, fitted)

    def _match(self, dataset: str, fitted: str) -> None:
        """Refuse test classes without training photos, once both datasets are indexed."""
        self._matched.add((dataset, fitted))
        indexed = [step("index", dataset=name) for name in (dataset, fitted)]
        if all(records.of_now(self._study, node) for node in indexed):
            table, fitted_table = (node.file(self._study, "table") for node in indexed)
            probed_classes.numbers(table, dataset, fitted_table, fitted)

    def _photos(self, dataset: str) -> dict[str, int]:
        """Photos of each split, as far as they are known."""
        if dataset not in self._known:
            module = plugins.load("datasets", self._study.datasets[dataset].kind)
            none = {"train": 0, "val": 0} if getattr(module, "TESTS_ALONE", False) else {}
            self._known[dataset] = forecast.photos(self._study, dataset) or none
        return self._known[dataset]
