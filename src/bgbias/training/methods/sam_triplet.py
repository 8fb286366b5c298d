"""SAM on triplets: wiped out, positive and negative shall be equally far (Zheng et al. 2020; docs/methods.md, section 7)."""

from __future__ import annotations

from bgbias.training.methods._sam import SimilarityMining, TupleParams

TITLE = "SAM, triplets"
PLACE = 4
ENTRIES = {"sam_triplet_8": "SAM, 8 triplets"}
NEEDS: frozenset[str] = frozenset()
TRAINS = True
NEGATIVES = 1
Params = TupleParams


class Method(SimilarityMining):
    """Every photo with a random one of its class and a semi-hard negative."""

    NEGATIVES = NEGATIVES
