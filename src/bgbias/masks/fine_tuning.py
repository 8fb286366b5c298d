"""Teaching a published U²-Net the objects of one's own photos, from a handful of masks drawn by hand.

What a network learned from ten thousand photos is easily forgotten over thirty. Three things keep it: batch norm stays as
published (folded into the convolutions), the rate is low and the weights are averaged over the training, and what is used
lies between the published and the new weights (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022). How far
it lies from the published ones, and whether it leaves them at all, ``cross_validation`` chooses on photos that were held out.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from bgbias import seeds
from bgbias.compute.device import keep_freed_memory
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks.pairs import MaskPair
from bgbias.masks.training import Example, batch, deep_supervision, example, fit, save, soft_iou
from bgbias.masks.u2net import ConvNormRelu, U2Net


@dataclass(frozen=True)
class Recipe:
    """How a net is fine-tuned."""

    steps: int = 24
    batch_size: int = 4
    lr: float = 5e-5
    input_size: int = 320  # of the masks that are made
    # Of ``input_size``, the side of what is trained on: about the root of a crop's mean area, so that things have the size at
    # which masks are made. It halves the time.
    shown: float = 0.7
    averaged: float = 0.95  # per step, what the running mean of the weights keeps
    blends: tuple[float, ...] = (0.25, 0.5, 1.0)  # shares of the new weights to choose from, beside none
    crop: tuple[float, float] = (0.3, 1.0)  # share of the photo's area
    jitter: float = 0.3  # brightness, contrast and colour by up to so much
    seed: int = 0


@dataclass(frozen=True)
class Tuned:
    """Where a training began, and the weights it led to by their names."""

    published: U2Net
    weights: dict[str, Tensor]

    def at(self, blend: float) -> U2Net:
        """A folded net with this share of the new weights, rounded as it will be saved; with 0 it is the published one."""
        net = copy.deepcopy(self.published)
        with torch.no_grad():
            for n, p in net.named_parameters():
                p.lerp_(self.weights[n], blend).copy_(p.half())
        return net


def fine_tune(pairs: Sequence[MaskPair], start: U2Net, recipe: Recipe, device: str = "cpu") -> Tuned:
    """Training that started at ``start``, which stays as it was, and saw ``pairs``."""
    if len(pairs) < 2:
        raise UserError(f"One photo is too few to train on (there are {len(pairs)}); draw some more masks.")
    keep_freed_memory()
    net = copy.deepcopy(start).float().fold().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    published = copy.deepcopy(net)
    mean = {n: p.detach().clone() for n, p in net.named_parameters()}

    def average(step: int) -> None:
        # Plain averaging first, so that the running mean does not remember where it began.
        kept = min(recipe.averaged, step / (step + 1))
        with torch.no_grad():
            for n, p in net.named_parameters():
                mean[n].lerp_(p, 1 - kept)

    # One photo at a time: on a CPU its maps stay in the cache, which makes 780 ms a photo 530.
    at_once = 1 if device == "cpu" else None
    feed = batches(pairs, recipe)
    fit(net, feed, recipe.steps, supervision, recipe.lr, "fine-tuning", at_once=at_once, after_step=average)
    return Tuned(published, mean)


def supervision(outputs: Sequence[Tensor], truth: Tensor) -> Tensor:
    """Cross-entropy of all seven outputs, and the soft IoU of the fused one, which becomes the mask."""
    return deep_supervision(outputs, truth) + soft_iou(outputs[0], truth)


def batches(pairs: Sequence[MaskPair], recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
    """Network inputs [B,3,S,S] with masks [B,1,S,S], ``recipe.steps`` times.

    Each photo comes once before any comes again; crop, mirroring and colours are drawn anew each time.
    """
    upcoming: list[int] = []
    for step in range(recipe.steps):
        generator = seeds.generator("fine-tuning", recipe.seed, step)
        while len(upcoming) < recipe.batch_size:
            upcoming += generator.permutation(len(pairs)).tolist()
        chosen, upcoming = upcoming[: recipe.batch_size], upcoming[recipe.batch_size :]
        yield batch(augmented(pairs[n], recipe, generator) for n in chosen)


def augmented(pair: MaskPair, recipe: Recipe, generator: np.random.Generator) -> Example:
    """The network's input [3,S,S] and mask [S,S] of a random crop, half of them mirrored, in changed colours."""
    height, width = pair.mask.shape
    box, mirrored = pixels.random_box(
        generator, height, width, recipe.crop, (0.7 * width / height, 1.4 * width / height)
    )
    rows = slice(round(box.top * height), max(round((box.top + box.height) * height), 1))
    columns = slice(round(box.left * width), max(round((box.left + box.width) * width), 1))
    factors = generator.uniform(1 - recipe.jitter, 1 + recipe.jitter, 3)
    mask = pair.mask[rows, columns]
    # A crop without object would teach that what is left of it is none.
    photo = pair.photo[rows, columns]
    if mask.sum() < 0.5 * pair.mask.sum():
        photo, mask = pair.photo, pair.mask
    if mirrored:
        photo, mask = photo[:, ::-1], mask[:, ::-1]
    picture = Image.fromarray(np.ascontiguousarray(photo))
    changes = ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color
    for change, factor in zip(changes, factors, strict=True):
        picture = change(picture).enhance(factor)
    return example(np.asarray(picture), mask, max(round(recipe.shown * recipe.input_size), 32))


def save_unfolded(net: U2Net, out: Path) -> None:
    """Weights of a folded net under all official names: each batch norm is written as one that changes nothing."""
    whole = copy.deepcopy(net)
    for module in whole.modules():
        if isinstance(module, ConvNormRelu) and not isinstance(module.bn_s1, torch.nn.BatchNorm2d):
            module.bn_s1 = torch.nn.BatchNorm2d(module.conv_s1.out_channels)
    save(whole, out)
