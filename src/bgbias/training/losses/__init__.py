"""What training minimises: one file a loss, with its settings and its distance.

A loss is one file: ``class Params(Strict)``; ``IMAGES_PER_CLASS``, how many photos of a class a batch has; ``DISTANCE``, by which
the attribution score compares embeddings; ``CLASS_WEIGHTS = True`` if it is a cross-entropy over learned weights of classes; and
``build(params, n_classes, dim, generator)``. ``TITLE`` and ``PLACE``, its name and its rows' place in tables, may be left out.
Planning reads the facts of every loss, so these files take torch from ``compute.lazy``, which imports it when it is used.

Only this folder imports pytorch-metric-learning.
"""

from __future__ import annotations

from bgbias.compute.lazy import Tensor, nn

# Options that share a file.
SHARED = {
    "_margins": ("arcface", "cosface"),
    "_roth": ("roth_arcface", "roth_multi_similarity"),
    "triplet": ("quadruplet",),
}


def class_logits(loss: nn.Module, embeddings: Tensor, labels: Tensor) -> Tensor:
    """Logits [B, classes] of unit-length embeddings [B, d], with the loss's scale and, for the own class, its margin.

    They are taken where the loss itself uses them. A loss over pairs has none; that is a programming error.
    """
    (cross_entropy,) = (m for m in loss.modules() if isinstance(m, nn.CrossEntropyLoss))
    seen: list[Tensor] = []
    watch = cross_entropy.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        loss(embeddings, labels)
    finally:
        watch.remove()
    return seen[0]


def mean_of_violations(excess: Tensor, counts: Tensor | int = 1) -> Tensor:
    """The mean of those numbers that are above 0 and count, a scalar; 0 if none does."""
    violations = excess.relu() * counts
    return violations.sum() / (violations > 0).sum().clamp(min=1)
