"""Euclidean distances whose gradient can be differentiated again, as a penalty on gradients has to."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning.distances import LpDistance
from torch import Tensor


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
