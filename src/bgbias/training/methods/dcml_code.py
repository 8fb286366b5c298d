"""DCML as its released code has it, with three slips mended (Deng & Zhang, ICML 2022; docs/methods.md, section 5).

The base loss has class weights and an attention net of its own, which test time does not use. Attention is held together by
relative distances, embeddings (before they get unit length) by their distance to class means, which take no gradient. Mended: an
update of the environments takes five passes instead of the one after which the code returns; nets start alike; and the margin is
what params.yaml says (for cars the code leaves it at .6182).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from bgbias.training.methods import _dcml
from bgbias.training.methods._dcml import Dcml

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bgbias.models.model import EmbeddingModel
    from bgbias.settings import Strict
    from bgbias.training.methods import Task

TITLE = "DCML"
PLACE = 9
ENTRIES = {
    "dcml_released": "DCML, as released",
    "dcml_no_inv_emb": "DCML w/o inv emb",
    "dcml_no_inv_at": "DCML w/o inv at",
    "dcml_no_inv_task": "DCML w/o inv task",
    "dcml_random": "DCML w random",
    "dcml_no_envs": "DCML w/o envs",
    "dcml_no_at": "DCML w/o at",
    "dcml_e1": "DCML, e = 1",
    "dcml_e3": "DCML, e = 3",
    "dcml_e10": "DCML, e = 10",
    "dcml_k5": "DCML, k = 5",
    "dcml_k10": "DCML, k = 10",
    "dcml_k15": "DCML, k = 15",
    "dcml_cars": "DCML, for cars",
    "dcml_sop": "DCML, for SOP",
}
NEEDS: frozenset[str] = frozenset()
TRAINS = True
CLASS_WEIGHTS = True


class Params(_dcml.Params):
    """As released for CUB-200-2011; cars: alpha 1e-5, gamma 1e-4; SOP: gamma 1e-6."""


class Method(Dcml):
    """Terms averaged over environments, and an ERM branch beside them that shares the trunk and the embedding layer."""

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Strict | None, task: Task | None
    ) -> None:
        from torch import nn

        super().__init__(model, base_loss, params, task)
        if self.params.environments:
            self.environment_loss = deepcopy(base_loss)
            # As one loss, so that both start alike and have its learning rate and its place in a checkpoint.
            self.base_loss = nn.ModuleList([self.empirical_loss, self.environment_loss])
        if self.nets:
            self._empirical_net = self.fresh_net(len(self.nets))
            self._own["empirical_net"] = self._empirical_net

    def attended_alike(self, features: Tensor) -> Tensor:
        """By a net of its own."""
        return self._empirical_net(features)

    def distance_of_nets(self) -> Tensor:
        """Mean over nets and matrices of squared relative distances to the mean."""
        from bgbias.training.methods._invariance import relative_distance

        return relative_distance(self.nets)

    def spread(self, attended: Tensor, projected: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Weighted squared distances to class means."""
        from bgbias.training.methods._invariance import spread_around_class_means

        return spread_around_class_means(projected, labels, weights)
