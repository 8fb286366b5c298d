"""SAM: the base loss, and a mining loss on photos whose attended places were wiped out (Zheng et al. 2020;
docs/methods.md, section 7).

A model that has found all places by which it compares photos cannot compare them any more once these are wiped out (equations 3
to 5). Tuples are rows of the batch's photos, int64 [T, roles].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from bgbias import seeds
from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import SimilarityScore
from bgbias.compute.lazy import Tensor, torch
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod, Batch

NEEDS: frozenset[str] = frozenset()
TRAINS = True


class PairParams(Strict):
    """Weight and shape of similarity mining, which the paper leaves open; margins are the base loss's own."""

    gamma: float = Field(0.25, ge=0, description="weight of the mining loss; 0 is the base loss alone")
    a: float = Field(10.0, gt=0, description="how sharply attended places are told from others")
    b: float = Field(0.5, ge=0, le=1, description="attention from which a place is wiped out")
    score: SimilarityScore = Field("published", description="see attribution/similarity.py")
    w_detach: bool = Field(True, description="a dimension's weight counts as a constant")
    first_order: bool = Field(False, description="a channel's importance is a constant, too")
    anchors: int | None = Field(None, ge=1, description="tuples to draw; one a photo if null")


class TupleParams(PairParams):
    """Those of tuples with negatives."""

    only_satisfied: bool = Field(False, description="only tuples whose positive is closer")


class SimilarityMining(BaseMethod):
    """The base loss plus ``gamma`` times the mining loss of tuples with so many negatives.

    The trunk is passed twice: once for the batch, once for its masked photos, one for each role of each tuple.
    """

    NEGATIVES: int
    params: PairParams

    @classmethod
    def photos_a_step(cls, params: PairParams, batch_size: int) -> tuple[int, int]:
        tuples = min(params.anchors or batch_size, batch_size) if params.gamma else 0
        count = batch_size + tuples * (2 + cls.NEGATIVES)
        return count, count

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, and beside it its parts ``base_loss`` and ``mining``, which is 0 for a batch without a tuple."""
        photos = self.photos(batch)
        features = self.model.features(photos)
        embeddings = self.model.embed_features(features)
        base = self.base_loss(embeddings, batch.labels)
        if self.params.gamma == 0:
            return {"loss": base}
        # The photos of a batch are drawn by seed, epoch and step; they in turn say which tuples are.
        generator = seeds.torch_generator("similarity mining", *batch.index.tolist())
        tuples = self._choose_tuples(embeddings, batch.labels, generator)
        mining = self._compute_mining(photos, features, tuples) if len(tuples) else base.new_zeros(())
        return {"loss": base + self.params.gamma * mining, "base_loss": base, "mining": mining}

    def _choose_tuples(self, embeddings: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        chosen = pairs(labels, generator)
        for _ in range(self.NEGATIVES):
            chosen = with_negatives(chosen, embeddings, labels, generator)
        if getattr(self.params, "only_satisfied", False):
            chosen = satisfied(chosen, embeddings)
        order = torch.randperm(len(chosen), generator=generator)[: self.params.anchors]
        return chosen[order.to(chosen.device)]

    def _compute_mining(self, photos: Tensor, features: Tensor, tuples: Tensor) -> Tensor:
        from bgbias.models.norms import learning_nothing

        settings, kind = self.params, self.model.embedder.weight.dtype
        # Maps and importances are small; mixed precision would only blur them.
        with torch.autocast(photos.device.type, enabled=False):
            maps = [features[rows].to(kind) for rows in tuples.T]
            importances = attention.importances(
                self.model.projected,
                maps,
                score=settings.score,
                w_detach=settings.w_detach,
                create_graph=not settings.first_order,
            )
            masked = []
            for rows, importance, map_ in zip(tuples.T, importances, maps, strict=True):
                attended = attention.stretch(attention.weighted_map(importance, map_))
                whole = attention.enlarge(attended, (photos.shape[2], photos.shape[3]))
                masked.append(photos[rows] * attention.soft_erasure(whole, settings.a, settings.b)[:, None])
        # Photos with holes are not what batch norms that learn their statistics will see.
        with learning_nothing(self.model):
            embeddings = self.model(torch.cat(masked))
        return mining_loss(embeddings.chunk(len(masked)))


def pairs(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Each photo with a random other one of its class: [T, 2]. Photos without one are left out."""
    same = labels[:, None] == labels[None]
    candidates = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    anchors = candidates.any(1).nonzero()[:, 0]
    return torch.stack((anchors, _choose_random(candidates, generator)[anchors]), 1)


def with_negatives(chosen: Tensor, embeddings: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Tuples [T, r] of anchor, positive and negatives, each with one more negative, of a class that is not in it: [T, r + 1].

    It is the semi-hard one, the closest to the anchor among those that are farther than the positive; where there is none, a
    random one. A tuple for which no class is left is left out.
    """
    anchors, positives = chosen[:, 0], chosen[:, 1]
    # Not by way of a matrix product, in whose rounding close neighbours drown.
    z = embeddings.detach()
    distances = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    foreign = ~(labels[:, None] == labels[None])[chosen].any(1)
    from_anchor = distances[anchors]
    semi_hard = foreign & (from_anchor > distances[anchors, positives][:, None])
    nearest = from_anchor.masked_fill(~semi_hard, torch.inf).argmin(1)
    negatives = torch.where(semi_hard.any(1), nearest, _choose_random(foreign, generator))
    return torch.cat((chosen, negatives[:, None]), 1)[foreign.any(1)]


def satisfied(chosen: Tensor, embeddings: Tensor) -> Tensor:
    """The tuples in which the positive is closer to the anchor than every negative."""
    apart = (embeddings[chosen[:, :1]] - embeddings[chosen[:, 1:]]).norm(dim=2)
    return chosen[(apart[:, :1] < apart[:, 1:]).all(1)]


def mining_loss(masked: Sequence[Tensor]) -> Tensor:
    """The mean over T tuples, given as the embeddings [T, d] of each role's masked photos.

    A pair shall be far apart; in a triplet positive and negative shall be equally far from the anchor; a quadruplet counts as
    the triplets of its two negatives.
    """
    anchor, positive, *negatives = masked
    to_positive = (anchor - positive).norm(dim=1)
    if not negatives:
        return -to_positive.mean()
    return torch.stack([(to_positive - (anchor - n).norm(dim=1)).abs().mean() for n in negatives]).sum()


def _choose_random(candidates: Tensor, generator: torch.Generator) -> Tensor:
    """One of each row's candidates (bool [T, B]), all alike; drawn on the CPU, so that every device draws the same."""
    numbers = torch.rand(candidates.shape, generator=generator).to(candidates.device)
    return numbers.masked_fill(~candidates, -1.0).argmax(1)


def _define(negatives: int) -> dict[str, Any]:
    """Every photo with a random one of its class and semi-hard negatives of so many other classes."""

    class Method(SimilarityMining):
        NEGATIVES = negatives

    return {"NEGATIVES": negatives, "Params": TupleParams if negatives else PairParams, "Method": Method}


MEMBERS: dict[str, dict[str, Any]] = {
    "sam_siamese": {
        "__doc__": "SAM on pairs: photos of one class shall differ once what they share is wiped out.",
        "TITLE": "SAM, pairs",
        "PLACE": 3,
        "ENTRIES": {
            "sam_siamese_magnitude_8": "SAM, 8 pairs, by magnitudes",
            "sam_siamese_8": "SAM, 8 pairs",
            "sam_siamese_magnitude": "SAM, pairs, by magnitudes",
        },
        **_define(0),
    },
    "sam_triplet": {
        "__doc__": "SAM on triplets: wiped out, positive and negative shall be equally far.",
        "TITLE": "SAM, triplets",
        "PLACE": 4,
        "ENTRIES": {"sam_triplet_8": "SAM, 8 triplets"},
        **_define(1),
    },
    "sam_quad": {
        "__doc__": "SAM on quadruplets: two triplets that share anchor and positive.",
        "TITLE": "SAM, quadruplets",
        "PLACE": 5,
        "ENTRIES": {"sam_quad_8": "SAM, 8 quadruplets"},
        **_define(2),
    },
}
