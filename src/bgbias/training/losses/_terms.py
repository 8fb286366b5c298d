"""Terms of losses that need torch alone, and that what goes beyond the losses takes, too."""

from __future__ import annotations

from bgbias.compute.lazy import Tensor, nn


def class_logits(loss: nn.Module, embeddings: Tensor, labels: Tensor) -> Tensor:
    """Logits [B, classes] of unit-length embeddings [B, d], with the loss's scale and, for the own class, its margin.

    They are taken where the loss itself uses them. A loss over pairs has none; that is a programming error.
    """
    (cross_entropy,) = (m for m in loss.modules() if isinstance(m, nn.CrossEntropyLoss))
    logits: list[Tensor] = []
    with cross_entropy.register_forward_pre_hook(lambda _, inputs: logits.append(inputs[0])):
        loss(embeddings, labels)
    return logits[0]


def mean_of_violations(excess: Tensor, counts: Tensor | int = 1) -> Tensor:
    """The mean of those numbers that are above 0 and count, a scalar; 0 if none does."""
    violations = excess.relu() * counts
    return violations.sum() / (violations > 0).sum().clamp(min=1)
