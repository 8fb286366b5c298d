"""Attacks on an embedding: small changes of a photo that bring it to photos of other classes. One attack, one file.

A file has ``TITLE``, its name for people; ``targets(variant)``, to how many photos of as many other classes each photo is
brought; and ``objective(embeddings, targets, reduction)``, the scalar to be minimised, of embeddings [B, d] of the changed photos
and [B, targets, d] of theirs, summed over photos. One that stands for many (``VARIANTS`` says what goes behind the colon, as in
``mtax:5``) is given the variant, others an empty text.

Their common engine is here, projected gradient descent (Madry et al., ICLR 2018; docs/methods.md, section 8). All works on plain
tensors and on any function from photos to embeddings.

Each target is a random photo of the classes that are left: neither the photo's own nor those of its targets before; drawn by
names, the same for every model. (The released code of MDProp permutes half a batch, so that a photo can be its own target, or one
of its class.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from pydantic import Field

from bgbias import plugins, seeds
from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.settings import Strict

# Of ImageNet's photos, by channel in RGB, for all networks: what a photo may be changed by is the same for each of them.
STD = (0.229, 0.224, 0.225)
WHITE = 255.0

Embed = Callable[[Tensor], Tensor]
"""Photos, float grey levels [B, 3, H, W] in RGB, to embeddings [B, d]."""


class Strength(Strict):
    """How far an attack may go, and how."""

    epsilon: float = Field(
        0.01,
        ge=0,
        description="by how much a pixel may change, in standard deviations of ImageNet's channels: .01 is .57 to .58 of 255",
    )
    steps: int = Field(1, ge=1, description="of epsilon / steps each")
    noise: float = Field(5e-4, ge=0, description="uniform, before the first step, in the unit of epsilon")
    l2_reduction: Literal["squared", "l2", "released"] = Field(
        "squared",
        description="of distances to targets: the mean of their squares, their mean, or the square of their mean over a batch",
    )


def targets(attack: str) -> int:
    """How many targets each photo has in the attack of this name (``stax``, ``mtax:5``)."""
    return int(plugins.load("attacks", attack).targets(plugins.variant(attack)))


def targets_of_batch(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rows of the batch, int64 [B, count]: each row's targets. ``generator`` is one of the CPU: every device draws the same.

    Too few classes for so many targets are an error.
    """
    classes = len(labels.unique())
    if classes <= count:
        raise UserError(
            f"An attack with {count} target{'s' * (count > 1)} needs photos of {count + 1} classes in a"
            f" batch; this one has {classes}. Take fewer targets, or raise train.batch_size in params.yaml."
        )
    on_cpu = labels.cpu()
    taken = on_cpu[:, None] == on_cpu[None]
    chosen = []
    for _ in range(count):
        drawn = torch.rand(taken.shape, generator=generator).masked_fill_(taken, -1.0)
        chosen.append(drawn.argmax(1))
        taken = taken | (on_cpu[chosen[-1]][:, None] == on_cpu[None])
    return torch.stack(chosen, 1).to(labels.device)


def targets_of_photos(labels: np.ndarray, keys: Sequence[tuple[str, object]], count: int) -> np.ndarray:
    """Rows of a split's photos with ``labels`` [N], int64 [N, count]; ``keys``: each photo's ``<dataset>|<split>`` and item.

    With u the first 8 bytes of sha256("<dataset>|<split>|attack|0|<item>|<number of the target>"), from 0, a target is
    photo u mod n of the n photos of the classes that are left, in the table's order. Too few classes are an error.
    """
    classes = len(np.unique(labels))
    if classes <= count:
        raise UserError(
            f"An attack with {count} target{'s' * (count > 1)} needs photos of {count + 1} classes; there"
            f" are photos of {classes}. Take fewer targets."
        )
    drawn_rows = np.empty((len(labels), count), np.int64)
    for row, (key_set, item) in enumerate(keys):
        is_left = labels != labels[row]
        for number in range(count):
            rows = np.flatnonzero(is_left)
            drawn = seeds.number(seeds.key(key_set, "attack", 0, item, number))
            drawn_rows[row, number] = rows[drawn % len(rows)]
            is_left &= labels != labels[drawn_rows[row, number]]
    return drawn_rows


def grey_levels(epsilon: float, like: Tensor) -> Tensor:
    """``epsilon`` standard deviations of each channel of photos in 0..255, [1, 3, 1, 1] of the type and place of ``like``."""
    return WHITE * epsilon * like.new_tensor(STD).view(1, 3, 1, 1)


def uniform(photos: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers in -1..1, a tensor of the photos' shape, by a generator of their device."""
    return photos.new_empty(photos.shape).uniform_(-1, 1, generator=generator)


def start(photos: Tensor, noise: float, drawn: Tensor) -> Tensor:
    """Photos [B, 3, H, W] in grey levels with ``noise`` times what ``uniform`` drew; an attack starts from there."""
    return photos + grey_levels(noise, photos) * drawn


def descend(
    objective: Callable[[Tensor], Tensor],
    photos: Tensor,
    begin: Tensor,
    epsilon: Tensor,
    steps: int,
) -> Tensor:
    """Photos [B, 3, H, W] after ``steps`` steps from ``begin`` against the sign of the gradient of ``objective``, a scalar.

    A step is ``epsilon / steps``, of a size that broadcasts to the photos; each ends within ``epsilon`` of ``photos`` and within
    0 to ``WHITE``, as the first one begins. Nothing but the photos is differentiated.
    """
    low, high = (photos - epsilon).clamp_(min=0), (photos + epsilon).clamp_(max=WHITE)
    step, x = epsilon / steps, begin.clamp(low, high)
    for _ in range(steps):
        x.requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(objective(x), x)
        x = (x.detach() - step * slope.sign()).clamp_(low, high)
    return x


def attack(
    embed: Embed, photos: Tensor, aims: Tensor, attack: str, strength: Strength, begin: Tensor
) -> Tensor:
    """Photos [B, 3, H, W], grey levels, changed so that ``embed`` brings them to their ``aims`` [B, targets, d].

    ``begin``: what the first step starts from, as ``start`` draws it. What ``embed`` calls should be ``evaluating``.
    """
    aim = plugins.load("attacks", attack).objective
    epsilon, aims = grey_levels(strength.epsilon, photos), aims.detach()
    return descend(
        lambda x: aim(embed(x), aims, strength.l2_reduction), photos, begin, epsilon, strength.steps
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode: photos do not see one another, and no batch norm learns. Each part's mode is put back."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode
