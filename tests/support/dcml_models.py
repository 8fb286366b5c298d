"""DCML on a small model in double precision, and parts of its slow twin: docs/methods.md, section 5 by machine
differentiation."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.models import model as models
from bgbias.study import methods
from bgbias.study.training import around
from bgbias.training.methods import Batch, Task

KINDS = ("dcml_code", "dcml_paper")
LABELS = torch.arange(5).repeat_interleave(4)  # of the training photos
SCALE, MARGIN = 8.0, 0.2


def built(kind: str, **options: Any) -> Any:
    """The method on a small model in double precision, with a loss whose logits a test can write down."""
    params = plugins.load("backbones", "pixels").Params()
    model = models.build_model("pixels", params, 6, seeds.torch_generator("model"), False)
    loss = plugins.load("losses", "cosface")
    base = loss.build(
        loss.Params(margin=MARGIN, scale=SCALE, lr=0.1), 5, 6, seeds.torch_generator("class weights")
    )
    entries = {"chosen": {"kind": kind, **options}}
    method = around(methods.find(entries, "chosen"), model, base, Task(LABELS, ("squares", 0), loss_lr=0.1))
    for module in method.modules().values():
        module.double().eval()
    return method


def passes(purpose: str, size: int) -> Iterator[Batch]:
    """Every training photo once."""
    drawn = seeds.torch_generator("photos", purpose)
    order = torch.randperm(len(LABELS), generator=drawn)
    for rows in order.split(size):
        photos = 255 * torch.rand((len(rows), 3, 32, 32), generator=drawn, dtype=torch.float64)
        yield Batch(photos, LABELS[rows], rows)


def one_batch() -> Batch:
    return next(passes("one", 12))


def unlike(method: Any) -> Any:
    """Nets, class weights and environments that differ, as they do after some training."""
    generator = seeds.torch_generator("unlike")
    for module in method.modules().values():
        for weights in module.parameters():
            weights.data += 0.1 * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    method.environments.draw(generator)
    method.end_epoch()
    return method


def logits_by_hand(class_weights: Tensor, embeddings: Tensor, labels: Tensor) -> Tensor:
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(class_weights, dim=0)
    return SCALE * (cosines - MARGIN * F.one_hot(labels, 5).double())


def class_weights(method: Any) -> list[Tensor]:
    return list(method.base_loss.parameters())


def penalty_by_dummy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    dummy = torch.ones(1, 5, dtype=torch.float64, requires_grad=True)
    losses = F.cross_entropy(logits * dummy, labels, reduction="none")
    (slope,) = torch.autograd.grad((weights * losses).sum(), dummy, create_graph=True)
    return slope.square().sum()
