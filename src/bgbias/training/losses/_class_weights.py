"""Classification losses of pytorch-metric-learning, with class weights that a generator draws and nothing else added."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from pytorch_metric_learning.distances import BaseDistance
from pytorch_metric_learning.losses import WeightRegularizerMixin
from pytorch_metric_learning.reducers import MeanReducer
from torch import nn

from bgbias.training.losses._full_precision import FullPrecision


def with_class_weights(
    kind: type[WeightRegularizerMixin],
    n_classes: int,
    dim: int,
    generator: torch.Generator,
    distance: BaseDistance,
    **options: Any,
) -> nn.Module:
    """The loss ``kind``, a mean over photos in full precision; its class weights [dim, n_classes] come from N(0, 1)."""
    return FullPrecision(
        kind(
            num_classes=n_classes,
            embedding_size=dim,
            weight_init_func=partial(nn.init.normal_, mean=0.0, std=1.0, generator=generator),
            weight_regularizer=None,
            distance=distance,
            reducer=MeanReducer(),
            embedding_regularizer=None,
            **options,
        )
    )
