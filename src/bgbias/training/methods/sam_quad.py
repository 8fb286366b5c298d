"""SAM on quadruplets: two triplets that share anchor and positive (Zheng et al. 2020; docs/methods.md, section 7)."""

from __future__ import annotations

from bgbias.training.methods._sam import SimilarityMining, TupleParams

TITLE = "SAM, quadruplets"
PLACE = 5
ENTRIES = {"sam_quad_8": "SAM, 8 quadruplets"}
NEEDS: frozenset[str] = frozenset()
TRAINS = True
NEGATIVES = 2
Params = TupleParams


class Method(SimilarityMining):
    """Every photo with a random one of its class and semi-hard negatives of two other classes."""

    NEGATIVES = NEGATIVES
