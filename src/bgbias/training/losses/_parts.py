"""What the losses are made of: torch and pytorch-metric-learning, which planning must not import."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from pytorch_metric_learning import losses
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.reducers import AvgNonZeroReducer, MeanReducer
from torch import Tensor, nn


class FullPrecision(nn.Module):
    """A loss that is computed in float32 (float64 stays) even inside an autocast region.

    Scales and exponents of up to several hundred stand on cosines: bfloat16's three digits would decide which
    pairs count. pytorch-metric-learning also recasts class weights to the embeddings' type, so bfloat16 must
    never get there.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit-length embeddings [B, d] with labels [B]."""
        if embeddings.dtype != torch.float64:
            embeddings = embeddings.float()
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.loss(embeddings, labels)


class EuclideanDistance(LpDistance):
    """Distances of unit vectors: values and gradients are torch's own, bit for bit, and have a second derivative.

    torch has none for up to 25 vectors, and NaN for more of them wherever a distance is exactly 0.
    """

    def __init__(self) -> None:
        super().__init__(normalize_embeddings=True, p=2, power=1)

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor | None) -> Tensor:
        """[N, M] distances of [N, d] and [M, d]."""
        return _Distances.apply(query_emb, query_emb if ref_emb is None else ref_emb)


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return torch.cdist(a, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        if not torch.is_grad_enabled():  # nobody will differentiate again
            with torch.enable_grad():
                ends = a.detach().requires_grad_(), b.detach().requires_grad_()
                # Not as `grad_outputs`, for which torch loads its symbolic algebra.
                first, second = torch.autograd.grad((torch.cdist(*ends) * grads[0]).sum(), ends)
            return first, second
        away = a[:, None] - b[None]
        squares = away.square().sum(2)
        apart = squares > 0
        # The distance has no derivative at 0: it counts as 0 there, and the root must not see it.
        pull = torch.where(apart, grads[0] / torch.where(apart, squares, 1).sqrt(), 0)[..., None] * away
        return pull.sum(1), -pull.sum(0)


def of_library(name: str, distance: str, **options: Any) -> nn.Module:
    """The loss of pytorch-metric-learning of this name. By distances (``l2``) it is the mean of the terms that are not 0, by
    cosines the mean over photos.
    """
    by_distance = {"distance": EuclideanDistance(), "reducer": AvgNonZeroReducer()}
    by_cosine = {"distance": CosineSimilarity(), "reducer": MeanReducer()}
    means = by_distance if distance == "l2" else by_cosine
    return FullPrecision(getattr(losses, name)(**means, **options))


# Cosines are kept off 1, where an angle has no slope.
NEARLY_ONE = 1 - 1e-6


class ClampedArcFace(nn.Module):
    """ArcFace on cosines that are not below 0. Class weights [dim, n_classes] come from N(0, 1)."""

    def __init__(
        self, margin: float, scale: float, bug: bool, n_classes: int, dim: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.margin, self.scale, self.bug = margin, scale, bug
        self.W = nn.Parameter(torch.empty(dim, n_classes).normal_(generator=generator))
        self.cross_entropy = nn.CrossEntropyLoss()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit vectors [B, d] with labels [B]."""
        weights = F.normalize(self.W, dim=0).to(embeddings.dtype)
        cosines = (embeddings @ weights).clamp(1e-10, NEARLY_ONE)
        target = cosines.gather(1, labels[:, None])
        moved = (target.acos() + self.margin).cos() - target
        is_target = F.one_hot(labels, cosines.shape[1]).bool()
        # The bug: all logits of a photo move alike, which cross-entropy does not see.
        moves = moved.expand_as(cosines) if self.bug else torch.where(is_target, moved, 0)
        return self.cross_entropy(self.scale * (cosines + moves), labels)  # type: ignore[no-any-return]
