"""DCML's environments, what it penalises in one, and what they are sought by (Deng & Zhang, ICML 2022;
docs/methods.md, section 5).

An environment is a re-weighted training set, which changes which backgrounds go with which class: a
weight for every photo, of which ``weights`` [B] of a batch add up to 1. Learned environments are those
in which the present class weights and attention are farthest from the best (eq. 11). Logits [B, C] are
what a classification loss hands to its cross-entropy, with scale and margin.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bgbias.compute import optimizers
from bgbias.models.necks._attention_net import AttentionNet, mean_weights

# A batch's rows in the training table [B] and, an environment, its photos' gradients, [B, any size] each.
Gradients = tuple[Tensor, list[list[Tensor]]]


def batch_weights(logits: Tensor) -> Tensor:
    """Weights [B, k] that add up to 1 over the batch in each environment, of logits [B, k].

    Before that, a photo's weights w add up to 1 over environments; w / sum of w is the softmax of log w, which cannot be 0 / 0.
    """
    return logits.log_softmax(1).softmax(0)


class Environments(nn.Module):
    """One logit a training photo and environment: state of the training, but changed by ``learn`` alone."""

    logits: Tensor

    def __init__(self, photos: int, count: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(photos, count))

    def weights(self, index: Tensor) -> Tensor:
        """The weights [B, k] of the photos in rows ``index`` of the training table, within their batch."""
        return batch_weights(self.logits[index])

    def draw(self, generator: torch.Generator) -> None:
        """Forget what was learned: logits from N(0, 1), by a CPU generator."""
        self.logits.copy_(torch.randn(self.logits.shape, generator=generator))

    def learn(self, passes: Iterable[Callable[[], Iterator[Gradients]]], lr: float) -> list[float]:
        """Climb, by Adam, from where the logits are; the objective's mean over each pass.

        The objective is the mean over environments of the squared norms of their gradients, which are those of the photos,
        weighted. What stands after the pass with the highest mean is kept, as the released code means to.
        """
        logits = self.logits.clone().requires_grad_()
        optimizer = optimizers.Adam([logits], lr=lr, maximize=True)
        means: list[float] = []
        for batches in passes:
            values = []
            for index, gradients in batches():
                value = objective(batch_weights(logits[index]), gradients)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                values.append(value.item())
            means.append(math.fsum(values) / len(values))
            if means[-1] == max(means):
                self.logits.copy_(logits.detach())
        return means


def objective(weights: Tensor, gradients: list[list[Tensor]]) -> Tensor:
    """Mean over environments of the squared norms of their gradients, a scalar; ``weights`` [B, k]."""
    norms = [
        sum((weights[:, j] @ rows).square().sum() for rows in of_environment)
        for j, of_environment in enumerate(gradients)
    ]
    return torch.stack([torch.as_tensor(norm) for norm in norms]).mean()


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The environment's loss, a scalar: the photos' cross-entropies, weighted."""
    return weights @ F.cross_entropy(logits, labels, reduction="none")


def proxy_gradients(logits: Tensor, labels: Tensor) -> Tensor:
    """Each photo's gradient [B, C] of the cross-entropy of ``logits * u`` by ``u``, at ones: (p - [y = c]) * logit, p = softmax.

    In closed form, so that no second backward pass is needed.
    """
    return (logits.softmax(1) - F.one_hot(labels, logits.shape[1])) * logits


def irm_penalty(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """How far the class weights are from the environment's best, a scalar: the squared norm of its gradient by dummy ones.

    The dummy is a vector over classes, as in the released code; invariant risk minimisation in general takes one number
    (Arjovsky et al. 2019).
    """
    return (weights @ proxy_gradients(logits, labels)).square().sum()


def attention_gradients(attended: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
    """Each photo's gradients of its loss by dummy ones over channels [B, c] and over positions [B, h * w].

    ``losses`` [B]: computed from the attended maps [B, c, h, w], which require a gradient, photo by photo. The dummies are
    multiplied onto the map, so that their gradient is that of the map times the map.
    """
    (gradients,) = torch.autograd.grad(losses.sum(), attended)
    products = (gradients * attended).detach()
    return products.sum((2, 3)), products.sum(1).flatten(1)


def spread_around_class_means(embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The released code's task term, a scalar: weighted squared distances of embeddings [B, d] to their class's mean.

    The means are those of the batch, without weights, and take no gradient.
    """
    means, _ = _average_classes(embeddings, labels)
    return weights @ (embeddings - means.detach()).square().sum(1)


def spread_between_pairs(features: Tensor, labels: Tensor) -> Tensor:
    """The paper's task term, a scalar: squared distances of attended maps [B, ...], summed over all pairs of a class.

    Each pair counts once. Per class of n photos that is n times the sum of squared distances to the class's mean.
    """
    flat = features.flatten(1)
    means, sizes = _average_classes(flat, labels)
    return sizes @ (flat - means).square().sum(1)


def distance(nets: Sequence[AttentionNet]) -> Tensor:
    """The paper's attention penalty, a scalar: squared distance of each net's weights to the nets' mean, summed over nets."""
    return torch.stack([(w - mean).square().sum() for w, mean in _pair_with_mean(nets)]).sum()


def relative_distance(nets: Sequence[AttentionNet]) -> Tensor:
    """The released code's, a scalar: mean over nets and matrices of (|W - mean|_2 / sum of |entries of W|)^2.

    About 1.4e-4 for two nets with random weights, where the paper's is about 545: practically off.
    """
    ratios = [(w - mean).square().sum() / w.abs().sum().square() for w, mean in _pair_with_mean(nets)]
    return torch.stack(ratios).mean()


def _pair_with_mean(nets: Sequence[AttentionNet]) -> list[tuple[Tensor, Tensor]]:
    means = mean_weights(nets)
    return [(weights, means[name]) for net in nets for name, weights in net.named_parameters()]


def _average_classes(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """For each row [B, d] the mean of its class's rows, and how many those are [B]."""
    same = (labels[:, None] == labels[None, :]).to(rows.dtype)
    sizes = same.sum(1)
    return same @ rows / sizes[:, None], sizes
