"""How a loss keeps its anchors away from further negatives, pictures of no class; of the loss's name.

A file has ``ALPHA``, whether similarities to such negatives are weighed by ``alpha``, and ``loss(base, embeddings, labels,
further)``: the scalar that the module ``base``, built by the loss's own file, becomes with them, of anchors' embeddings [B, d] of
unit length and their classes, int64 [B]. It is called outside of autocast regions.

A loss without one does not say what such negatives are to it, and is refused with methods that have them.
"""

from dataclasses import dataclass

from bgbias.compute.lazy import Tensor

# What they are to our own losses stands in one file.
SHARED = {"_ours": ("arcface", "contrastive", "cosface", "multi_similarity", "normalized_softmax", "triplet")}


@dataclass(frozen=True)
class Further:
    """Further negatives, N for each of B anchors (docs/methods.md, section 6)."""

    embeddings: Tensor
    """[B, N, d], of unit length."""
    counts: Tensor
    """Which of them count, bool [B, N]."""
    kappa: float = 1.0
    """Their weight, above 0."""
    alpha: float = 1.0
    """By which similarities to them are multiplied where they stand in an exponent."""

    def similarities(self, anchors: Tensor) -> Tensor:
        """Cosines [B, N] with anchors [B, d]."""
        return (anchors[:, None] * self.embeddings).sum(2)

    def distances(self, anchors: Tensor) -> Tensor:
        """Euclidean distances [B, N] from anchors [B, d]."""
        return (anchors[:, None] - self.embeddings).norm(dim=2)
