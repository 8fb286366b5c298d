"""DCML as its paper writes it, equations 9 to 11 and algorithm 1 (Deng & Zhang, ICML 2022; METHODS section 5).

All photos alike are one more environment, seen by the net with the mean weights and the class weights that all share. Attention
is held together by squared distances, attended maps by the distances of all pairs of a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.methods import _dcml
from bgbias.methods._dcml import Dcml

if TYPE_CHECKING:
    from torch import Tensor

NEEDS: frozenset[str] = frozenset()
TRAINS = True
CLASS_WEIGHTS = True


class Params(_dcml.Params):
    """As released for CUB-200-2011: the paper has no values of its own, but its terms are larger by orders of magnitude."""


class Method(Dcml):
    """Terms summed over environments."""

    SUMS = True

    def attended_alike(self, features: Tensor) -> Tensor:
        """By the net of test time, whose gradients reach all nets."""
        from bgbias.necks._attention_net import mean_attention

        return mean_attention(self.nets, features)

    def distance_of_nets(self) -> Tensor:
        """Squared distances to the mean, summed."""
        from bgbias.methods._invariance import distance

        return distance(self.nets)

    def spread(self, attended: Tensor, projected: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Squared distances of attended maps, summed over the pairs of a class, whatever their weights."""
        from bgbias.methods._invariance import spread_between_pairs

        return spread_between_pairs(attended, labels)
