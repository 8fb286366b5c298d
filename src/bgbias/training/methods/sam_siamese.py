"""SAM on pairs: photos of one class shall differ once what they share is wiped out (Zheng et al. 2020;
docs/methods.md, section 7)."""

from __future__ import annotations

from bgbias.training.methods._sam import PairParams, SimilarityMining

TITLE = "SAM, pairs"
PLACE = 3
ENTRIES = {
    "sam_siamese_magnitude_8": "SAM, 8 pairs, by magnitudes",
    "sam_siamese_8": "SAM, 8 pairs",
    "sam_siamese_magnitude": "SAM, pairs, by magnitudes",
}
NEEDS: frozenset[str] = frozenset()
TRAINS = True
NEGATIVES = 0
Params = PairParams


class Method(SimilarityMining):
    """Every photo with a random one of its class."""

    NEGATIVES = NEGATIVES
