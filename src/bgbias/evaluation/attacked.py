"""Test photos, attacked on the network that embeds them (docs/methods.md, section 8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from bgbias import attacks, seeds
from bgbias.attacks import Strength, _targets
from bgbias.compute.device import autocast
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.photos import EvaluationPhotos, workers
from bgbias.models.model import EmbeddingModel

PGD_20 = Strength(steps=20)
"""Projected gradient descent as the paper of MDProp tests by it."""


def embed_attacked(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    clean: np.ndarray,
    attack: str,
    strength: Strength = PGD_20,
    draw: int = 0,
    device: str = "cpu",
    precision: str = "fp32",
    batch_size: int = 64,
) -> np.ndarray:
    """Embeddings float32 [N, d] of the split's photos, each attacked towards others of it, for the model alone.

    ``clean`` [N, d]: the model's embeddings of the photos as they are, in the table's order, of which the targets' are taken.
    Targets and noise are drawn by the photos' names and ``draw``, not by the batch that a photo is in, and are the same for
    every model of one input size. Too few classes for the attack are an error.
    """
    labels, keys = photos.table.labels, photos.table.keys
    rows = _targets.of_photos(labels, keys, attacks.targets(attack), draw)
    aims = torch.from_numpy(clean)[rows]
    found = []
    with attacks.evaluating(model):
        for start, views in _batches(photos, batch_size, device):
            stop = start + len(views)
            noise = [_noise(key, draw, views.shape[1:]) for key in keys[start:stop]]
            grey = views.float().to(device)
            begin = grey + attacks.grey_levels(strength.noise, grey) * torch.stack(noise).to(device)
            goal = aims[start:stop].to(device)
            with autocast(device, precision):
                moved = attacks.attacked(
                    lambda x: model(model.preprocess(x)), grey, goal, attack, strength, begin
                )
                with torch.no_grad():
                    found.append(model(model.preprocess(moved)).float().cpu())
    return torch.cat(found).numpy()


def _batches(photos: EvaluationPhotos, batch_size: int, device: str) -> Iterator[tuple[int, torch.Tensor]]:
    """The first row, and views uint8 [B, 3, S, S] as networks are fastest with."""
    views = photos.views([(CLEAN, 0)], workers(device))
    start = 0
    while gathered := list(itertools.islice(views, batch_size)):
        yield start, torch.from_numpy(np.stack(gathered)).permute(0, 3, 1, 2)
        start += len(gathered)


def _noise(key: tuple[str, str], draw: int, shape: torch.Size) -> torch.Tensor:
    """Uniform in -1..1, by the photo's name: drawn on the CPU, so that every device starts alike."""
    key_set, key_item = key
    generator = seeds.torch_generator("attack noise", key_set, draw, key_item)
    return torch.empty(shape).uniform_(-1, 1, generator=generator)
