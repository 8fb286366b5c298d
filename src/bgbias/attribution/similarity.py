"""Similarity attention: which places of two, three or four photos a model compares them by (docs/methods.md, section 7).

Grad-CAM needs a class to ask about; here the question is a weight for each dimension of the embedding, large where the
photos agree or differ as their roles say (Zheng et al. 2020, "Towards Visually Explaining Similarity Models"). All that is
asked of a network is a feature map and what makes an embedding of it.

Two scores are told apart, which are one for embeddings that have no negative numbers and no fixed length:

``published``  wᵀf of the unit-length embedding f, as the paper writes it;
``magnitude``  wᵀ|g| of the vector g before it is brought to unit length, by that length. Where an embedding has both signs, half
               of what photos share counts against wᵀf; and f cannot grow along itself, so that the derivative of wᵀf is blind
               to whatever makes most of the embedding.

Photos stand in the order of their roles: a pair; anchor, positive, negative; or anchor, positive and two negatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from bgbias.attribution.settings import SimilarityScore
from bgbias.compute.lazy import F, Tensor, torch


def dimension_weights(embeddings: Sequence[Tensor], same: bool = True) -> Tensor:
    """The weight [T, d] of each dimension for T tuples, given as the embeddings [T, d] of each role.

    1 - |a - p| is large where anchor and positive agree, |a - n| where anchor and negative differ; the product asks for both.
    ``same`` is for pairs: whether the two are of one class.
    """
    anchor, *others = embeddings
    apart = [(anchor - other).abs() for other in others]
    if len(others) == 1 and not same:
        return apart[0]
    return prod(apart[1:], start=1 - apart[0])


def importances(
    head: Callable[[Tensor], Tensor],
    features: Sequence[Tensor],
    same: bool = True,
    score: SimilarityScore = "published",
    w_detach: bool = True,
    create_graph: bool = False,
) -> list[Tensor]:
    """How much each channel counts for its photo's score, [T, c] for each role: the mean over places of ds/dA.

    ``features``: maps A [T, c, h, w] of each role; ``head`` makes vectors [T, d] of a map, which are brought to unit length
    here. The score of a photo is its embedding times the weights; these are constants if ``w_detach``, else the derivative goes
    through them too. With ``create_graph`` the result can be trained through: a second backward pass, but of the head alone.
    """
    with torch.enable_grad():
        maps = [a if a.requires_grad else a.detach().requires_grad_() for a in features]
        vectors = [head(a) for a in maps]
        embeddings = [F.normalize(g, dim=1) for g in vectors]
        weights = dimension_weights(embeddings, same)
        if w_detach:
            weights = weights.detach()
        if score == "magnitude":
            embeddings = [g.abs() / g.detach().norm(dim=1, keepdim=True).clamp(min=1e-12) for g in vectors]
        # One derivative a role: the weights tie the roles together, and each score is for its own photo alone.
        return [
            importance((weights * f).sum(1), a, create_graph) for f, a in zip(embeddings, maps, strict=True)
        ]


def importance(scores: Tensor, features: Tensor, create_graph: bool = False) -> Tensor:
    """The mean over places of the derivative of scores [T] with respect to the maps [T, c, h, w] they come from: [T, c]."""
    (gradient,) = torch.autograd.grad(scores.sum(), features, create_graph=create_graph, retain_graph=True)
    return gradient.mean(dim=(2, 3))


def weighted_map(importance: Tensor, features: Tensor) -> Tensor:
    """ReLU of the sum of channels A [T, c, h, w], each times its importance [T, c]: the attention map [T, h, w]."""
    return torch.einsum("tc,tchw->thw", importance, features).relu()


def stretch(attention: Tensor) -> Tensor:
    """Maps [T, h, w] with their least value at 0 and their greatest (nearly) at 1; a constant one becomes 0."""
    low, high = attention.amin(dim=(1, 2), keepdim=True), attention.amax(dim=(1, 2), keepdim=True)
    return (attention - low) / (high - low + 1e-6)


def enlarge(attention: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps [T, h, w] at a photo's size (height, width), bilinearly."""
    return F.interpolate(attention[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def soft_erasure(attention: Tensor, a: float, b: float) -> Tensor:
    """What is left of each pixel when the attended ones are wiped out: 1 - sigmoid(a (m - b)) of maps m in 0..1."""
    return torch.sigmoid(-a * (attention - b))
