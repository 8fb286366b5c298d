"""Several batch norms for the same convolutions: one for original photos, and one for each other distribution of photos.

Attacked photos have other statistics than clean ones; a norm of their own keeps these apart (Xie et al., CVPR 2020, for
classification; MDProp for metric learning; docs/methods.md, section 8). The model itself keeps the first norms and nothing else:
what is saved, validated and shipped is a network like any other, which has seen the other photos in training alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.models.model import EmbeddingModel
from bgbias.settings import Strict


class AuxiliaryNorms(nn.Module):
    """Copies of a model's batch norms, gains, offsets and running statistics: one set for each distribution.

    Inside ``using(name)`` the model normalises with that set, which then learns in training mode as the model's own norms do
    outside: not at all where the model keeps its statistics (``freeze_batch_norm``). One behind pooling stays the only one.
    """

    def __init__(self, model: EmbeddingModel, names: Sequence[str]) -> None:
        """``names``: of the distributions, no two alike; the model's file tells them. A model without batch norm is an error."""
        super().__init__()
        self._frozen = model.freeze_batch_norm
        self._model_norms = batch_norms(model)
        numbers = {id(norm): number for number, norm in enumerate(self._model_norms)}
        # A norm may stand in several places.
        self._places = [
            (parent, name, numbers[id(child)])
            for parent in model.modules()
            for name, child in parent._modules.items()
            if id(child) in numbers
        ]
        self.names = tuple(names)
        self.sets = nn.ModuleList(nn.ModuleList(deepcopy(norm) for norm in self._model_norms) for _ in names)
        model.auxiliary_norms = self.names

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """The model normalises with the norms of this distribution. Do not save or move it meanwhile."""
        norms: Sequence[nn.Module] = self.sets[self.names.index(name)]  # type: ignore[assignment]
        try:
            self._put(norms)
            yield
        finally:
            self._put(self._model_norms)

    def list_trained(self) -> list[nn.Parameter]:
        """The parameters that are trained: those whose like in the model is, when it is asked."""
        likes = [like for norm in self._model_norms for like in norm.parameters()]
        for norms in self.sets:
            for like, parameter in zip(likes, norms.parameters(), strict=True):
                parameter.requires_grad_(like.requires_grad)
        return [parameter for parameter in self.sets.parameters() if parameter.requires_grad]

    def train(self, mode: bool = True) -> AuxiliaryNorms:
        """Training or evaluation mode; frozen norms stay in evaluation mode."""
        super().train(mode and not self._frozen)
        return self

    def _put(self, norms: Sequence[nn.Module]) -> None:
        for parent, name, number in self._places:
            parent._modules[name] = norms[number]


def batch_norms(model: EmbeddingModel) -> list[nn.Module]:
    """Those before pooling, in the model's order. A model without any is an error."""
    norms = [m for m in _list_norms(model) if m is not model.head_norm]
    if not norms:
        raise UserError(lacking(model.backbone))
    return norms


@cache
def known_to_lack(backbone: str, params: Strict) -> bool:
    """Whether a backbone has no batch norm, by a look at the network without its weights; False if it cannot be built so."""
    try:
        with torch.device("meta"):
            return not _list_norms(backbones.build(backbone, params))
    except (NotImplementedError, RuntimeError):  # what reads its own numbers
        return False


def lacking(backbone: str) -> str:
    """What people are told of a network without batch norm."""
    return (
        f"{backbone} has no batch norm, which this method is about. Take a network that has (resnet18, resnet50,"
        " mobilenet_v2, bn_inception, many of timm), or a method that needs none (plain, at), in params.yaml."
    )


def _list_norms(network: nn.Module) -> list[nn.Module]:
    return [m for m in network.modules() if isinstance(m, _BatchNorm)]


def is_folded(network: nn.Module) -> bool:
    """Whether all batch norms were folded into convolutions: they add an offset, and count with means of 0 and variances of 1,
    which are no photos' statistics. Normalised by a batch's own, such a network is of no use.
    """
    norms: list[Any] = [m for m in _list_norms(network) if m.track_running_stats and m.affine]
    whole = all(not norm.running_mean.any() and bool((norm.running_var == 1).all()) for norm in norms)
    return whole and any(bool(norm.bias.any()) for norm in norms)


def unfold(model: EmbeddingModel, batches: Iterable[torch.Tensor]) -> None:
    """Give folded batch norms the statistics of these normalised photos [B, 3, H, W], and the gains and offsets with which they
    compute what they did: the network's output in evaluation mode, in which it is left, is the same but for rounding.
    """
    norms: list[Any] = batch_norms(model)
    sums = [torch.zeros(3, norm.num_features, dtype=torch.float64) for norm in norms]

    def add(total: torch.Tensor, _: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        values = inputs[0].detach().double().transpose(0, 1).flatten(1).cpu()
        counts = torch.full(values.shape[:1], values.shape[1])
        total.add_(torch.stack([counts, values.sum(1), values.square().sum(1)]))

    with ExitStack() as watching, torch.no_grad():
        for norm, total in zip(norms, sums, strict=True):
            watching.enter_context(norm.register_forward_pre_hook(partial(add, total)))
        model.eval()
        for photos in batches:
            model.features(photos)
    with torch.no_grad():
        for norm, (count, total, squares) in zip(norms, sums, strict=True):
            if not count.any():  # no photo comes to it
                continue
            mean = total / count
            variance = (squares / count - mean.square()).clamp(min=0)
            gain = norm.weight.double().cpu() / (norm.running_var.double().cpu() + norm.eps).sqrt()
            norm.bias.add_(((mean - norm.running_mean.double().cpu()) * gain).to(norm.bias))
            norm.weight.copy_(gain * (variance + norm.eps).sqrt())
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)


@contextmanager
def learning_nothing(network: nn.Module) -> Iterator[None]:
    """Batch norms normalise as they would, by a batch's statistics in training mode, but keep none of them."""
    norms: list[Any] = [m for m in _list_norms(network) if m.track_running_stats]
    try:
        for norm in norms:
            norm.track_running_stats = False
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
