"""Several batch norms for the same convolutions: one for photos as they are, and one for each other distribution of photos.

Attacked photos have other statistics than clean ones; a norm of their own keeps these apart (Xie et al., CVPR 2020, for
classification; MDProp for metric learning; docs/methods.md, section 8). The model itself keeps the first norms and nothing else:
what is saved, validated and shipped is a network like any other, which has seen the other photos in training alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
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
        self._own = batch_norms(model)
        numbers = {id(norm): number for number, norm in enumerate(self._own)}
        # A norm may stand in several places.
        self._places = [
            (parent, name, numbers[id(child)])
            for parent in model.modules()
            for name, child in parent._modules.items()
            if id(child) in numbers
        ]
        self.names = tuple(names)
        self.sets = nn.ModuleList(nn.ModuleList(deepcopy(norm) for norm in self._own) for _ in names)
        model.auxiliary_norms = self.names

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """The model normalises with the norms of this distribution. Do not save or move it meanwhile."""
        chosen: Sequence[nn.Module] = self.sets[self.names.index(name)]  # type: ignore[assignment]
        try:
            self._put(chosen)
            yield
        finally:
            self._put(self._own)

    def trained(self) -> list[nn.Parameter]:
        """The parameters that are trained: those whose like in the model is, when it is asked."""
        found = []
        for norms in self.sets:
            for own, norm in zip(self._own, norms, strict=True):  # type: ignore[call-overload]
                for like, parameter in zip(own.parameters(), norm.parameters(), strict=True):
                    parameter.requires_grad_(like.requires_grad)
                    found += [parameter] * like.requires_grad
        return found

    def train(self, mode: bool = True) -> AuxiliaryNorms:
        """Training or evaluation mode; frozen norms stay in evaluation mode."""
        super().train(mode and not self._frozen)
        return self

    def _put(self, norms: Sequence[nn.Module]) -> None:
        for parent, name, number in self._places:
            parent._modules[name] = norms[number]


def batch_norms(model: EmbeddingModel) -> list[nn.Module]:
    """Those before pooling, in the model's order. A model without any is an error."""
    found = [m for m in _norms(model) if m is not model.head_norm]
    if not found:
        raise UserError(lacking(model.backbone))
    return found


@cache
def known_to_lack(backbone: str, params: Strict) -> bool:
    """Whether a backbone has no batch norm, by a look at the network without its weights; False if it cannot be built so."""
    try:
        with torch.device("meta"):
            return not _norms(backbones.build(backbone, params))
    except (NotImplementedError, RuntimeError):  # what reads its own numbers
        return False


def lacking(backbone: str) -> str:
    """What people are told of a network without batch norm."""
    return (
        f"{backbone} has no batch norm, which this method is about. Take a network that has (resnet18, resnet50,"
        " mobilenet_v2, bn_inception, many of timm), or a method that needs none (plain, at), in params.yaml."
    )


def _norms(network: nn.Module) -> list[nn.Module]:
    return [m for m in network.modules() if isinstance(m, _BatchNorm)]


@contextmanager
def learning_nothing(network: nn.Module) -> Iterator[None]:
    """Batch norms normalise as they would, by a batch's statistics in training mode, but keep none of them."""
    norms: list[Any] = [m for m in _norms(network) if m.track_running_stats]
    try:
        for norm in norms:
            norm.track_running_stats = False
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
