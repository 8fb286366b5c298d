"""DCML as its paper writes it, equations 9 to 11 and algorithm 1 (Deng & Zhang, ICML 2022; docs/methods.md, section 5).

All photos alike are one more environment, seen by the net with the mean weights and the class weights that all share. Attention
is held together by squared distances, attended maps by the distances of all pairs of a class.

The paper gives no weights, and those of the released code belong to other terms. The distances of whole maps are summed over
pairs and environments, B (n - 1) / 2 pairs in a batch of B photos with n of each class: 4e4 at the first step on toys (``tiny``,
B = 32, n = 4), where the released code's mean is 0.007; 6e5 with MobileNetV2 on groceries. At the released gamma of 0.1 the
gradient of this term by the trunk was 1,900 times as large as that of all cross-entropies together on toys, and training wiped
out what tells classes apart: within 80 steps the term fell to 0.4, and the cross-entropy stayed that of a guess. At 1e-5 the
gradient was a fifth as large as that of the cross-entropies on toys, a ninth with MobileNetV2, and toys were learned
(cross-entropy 11.1 to 0.6 in 200 steps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.training.methods import _dcml
from bgbias.training.methods._dcml import Dcml

if TYPE_CHECKING:
    from torch import Tensor

TITLE = "DCML (paper)"
PLACE = 10
NEEDS: frozenset[str] = frozenset()
TRAINS = True
CLASS_WEIGHTS = True


class Params(_dcml.Params):
    """As released for CUB-200-2011, but for ``gamma``, whose term is larger by orders of magnitude (see above)."""

    gamma: float = Field(
        1e-5, ge=0, description="of attended maps that differ within a class; 0: 'w/o inv task'"
    )


class Method(Dcml):
    """Terms summed over environments."""

    SUMS = True

    def attended_alike(self, features: Tensor) -> Tensor:
        """By the net of test time, whose gradients reach all nets."""
        from bgbias.models.necks._attention_net import mean_attention

        return mean_attention(self.nets, features)

    def distance_of_nets(self) -> Tensor:
        """Squared distances to the mean, summed."""
        from bgbias.training.methods._invariance import distance

        return distance(self.nets)

    def spread(self, attended: Tensor, projected: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Squared distances of attended maps, summed over the pairs of a class, whatever their weights."""
        from bgbias.training.methods._invariance import spread_between_pairs

        return spread_between_pairs(attended, labels)
