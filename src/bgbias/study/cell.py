"""One model of the study, by name."""

import re
from dataclasses import dataclass
from typing import Any, Self

from bgbias.photos import folds

PLAIN = "plain"
# Not trained: the backbone's pooled features, and the same under the random embedding layer that a seed's training starts from.
PRETRAINED, UNTRAINED = "pretrained", "untrained"
NO_LOSS = "none"  # what stands for the loss of models that nobody trained
# A cell as a part of paths.
CELL = "{dataset}/{backbone}/{loss}/{method}/seed{seed}"
_SIDE_BY_SIDE = re.compile(r"\+(\d+)d$", re.ASCII)


@dataclass(frozen=True, order=True)
class Cell:
    """One model of the study. The rows of a backbone as it comes have loss ``none`` and the method ``pretrained`` or
    ``untrained``; the four folds' models side by side have the method's name and behind it how long their embeddings are
    together, ``dcml_code+512d``.
    """

    dataset: str
    backbone: str
    loss: str
    method: str
    seed: int
    fold: int = 0

    @classmethod
    def from_wildcards(cls, seed: str, **parts: str) -> Self:
        """The cell that has these wildcards."""
        number, fold = folds.seed_and_fold(seed)
        return cls(**parts, seed=number, fold=fold)

    @property
    def run(self) -> int | str:
        """Seed and fold: what the randomness of its training is keyed by."""
        return folds.run(self.seed, self.fold)

    @property
    def wildcards(self) -> dict[str, Any]:
        """The cell as the wildcards of its paths."""
        parts = {name: getattr(self, name) for name in ("dataset", "backbone", "loss", "method")}
        return parts | {"seed": self.run}

    @property
    def name(self) -> str:
        """The cell as one readable string, e.g. ``cub50/mobilenet_v2_tf/contrastive/plain/seed0``."""
        return CELL.format(**self.wildcards)


def side_by_side(method_name: str) -> tuple[str, str]:
    """``dcml_code+512d``, folds side by side, as ``dcml_code`` and 512; no length for one model."""
    match = _SIDE_BY_SIDE.search(method_name)
    return (method_name[: match.start()], match[1]) if match else (method_name, "")
