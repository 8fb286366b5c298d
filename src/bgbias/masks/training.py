"""Training of saliency nets: of U²-Net-p for the toy dataset, on rendered objects and scenes that no dataset shows, and of a
published U²-Net for the objects of one's own photos, from a handful of masks drawn by hand.

What a network learned from ten thousand photos is easily forgotten over thirty. Three things keep it: batch norm stays as
published (folded into the convolutions), the rate is low and the weights are averaged over the training, and what is used
lies between the published and the new weights (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022). How far
it lies from the published ones, and whether it leaves them at all, ``cross_validation`` chooses on photos that were held out.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from torch import Tensor, nn

from bgbias import progress, seeds
from bgbias.compute.device import keep_freed_memory
from bgbias.errors import UserError
from bgbias.files.state_dicts import write_state_dict
from bgbias.images import pixels
from bgbias.masks import quality, saliency
from bgbias.masks.pairs import MaskPair
from bgbias.masks.u2net import ConvNormRelu, U2Net, u2netp
from bgbias.toy.render import specimens

WARM_UP = 0.05  # share of the steps in which the learning rate rises
STEPS_BETWEEN_LINES = 100
WEIGHT_DECAY = 1e-4
BATCH_SIZE, LEARNING_RATE = 8, 2e-3  # of the toys' net

Loss = Callable[[Sequence[Tensor], Tensor], Tensor]
Photos = NDArray[np.uint8]  # [N, S, S, 3]
Masks = NDArray[np.uint8]  # [N, S, S]
Example = tuple[NDArray[np.float32], NDArray[np.float32]]


def fit(
    net: U2Net,
    feed: Iterator[tuple[Tensor, Tensor]],
    steps: int,
    loss: Loss,
    lr: float,
    label: str,
    at_once: int | None = None,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train the parameters of ``net`` that ask for gradients on ``steps`` batches, in the mode it is in.

    ``feed`` gives network inputs [B,3,S,S] with masks [B,1,S,S] in 0..1. AdamW whose rate rises, then falls to zero;
    convolutions in bfloat16, the loss in float32. A batch passes ``at_once`` photos at a time (all if None), which changes
    memory and speed only: ``loss`` is a mean over photos. ``after_step`` hears how many steps are done.
    """
    trained = [p for p in net.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=lr, weight_decay=WEIGHT_DECAY, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step / steps))
    losses: list[float] = []
    device = trained[0].device
    for step, (x, truth) in enumerate(progress.track(feed, steps, label), 1):
        optimiser.zero_grad()
        part, value = at_once or len(x), 0.0
        for some, true in zip(x.split(part), truth.split(part), strict=True):
            with torch.autocast(device.type, torch.bfloat16):
                outputs = net(some.to(device, memory_format=torch.channels_last))
            share = loss(outputs, true.to(device)) * (len(some) / len(x))
            share.backward()
            value += share.item()
        nn.utils.clip_grad_norm_(trained, 5.0)
        optimiser.step()
        schedule.step()
        losses.append(value / len(outputs))
        if step % STEPS_BETWEEN_LINES == 0:
            recent = np.mean(losses[-STEPS_BETWEEN_LINES:])
            progress.say(f"{label}: step {step}, mean loss of an output {recent:.4f}")
        after_step(step)


def rate(done: float) -> float:
    """The learning rate as a share of its peak: a linear rise, then half a cosine down to zero."""
    if done < WARM_UP:
        return (done + 1e-3) / (WARM_UP + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


def deep_supervision(outputs: Sequence[Tensor], truth: Tensor) -> Tensor:
    """The sum over the outputs (logits [B,1,H,W]) of their binary cross-entropy with ``truth`` in 0..1.

    All weights are 1 (Qin et al. 2020, eq. 1-2).
    """
    return torch.stack([F.binary_cross_entropy_with_logits(o.float(), truth) for o in outputs]).sum()


def soft_iou(logits: Tensor, truth: Tensor) -> Tensor:
    """One minus the IoU of the probabilities with ``truth`` [B,1,H,W], mean over photos (Rahman & Wang 2016, as in BASNet)."""
    p = logits.float().sigmoid()
    both = (p * truth).sum((1, 2, 3))
    either = (p + truth - p * truth).sum((1, 2, 3))
    return (1 - (both + 1) / (either + 1)).mean()


def example(photo: NDArray[np.uint8], mask: NDArray[np.uint8], size: int) -> Example:
    """The network's input [3,S,S] and the mask [S,S] in 0..1 at its size."""
    square = Image.fromarray(mask).resize((size, size), Image.Resampling.BILINEAR)
    return saliency.network_input(photo, size), np.asarray(square, np.float32) / np.float32(255)


def batch(examples: Iterable[Example]) -> tuple[Tensor, Tensor]:
    """Network inputs [B,3,S,S] with masks [B,1,S,S]."""
    inputs, masks = zip(*examples, strict=True)
    x = torch.from_numpy(np.stack(inputs)).contiguous(memory_format=torch.channels_last)
    return x, torch.from_numpy(np.stack(masks))[:, None]


def save(net: U2Net, out: Path) -> None:
    """The weights as float16 under the official names, without batch norm's counters, which nothing reads."""
    state = {k: v.half() for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    write_state_dict(state, out)


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
class TunedNet:
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


def fine_tune(pairs: Sequence[MaskPair], start: U2Net, recipe: Recipe, device: str = "cpu") -> TunedNet:
    """Training that started at ``start``, which stays as it was, and saw ``pairs``."""
    if len(pairs) < 2:
        raise UserError(f"One photo is too few to train on (there are {len(pairs)}); draw some more masks.")
    keep_freed_memory()
    net = copy.deepcopy(start).float().fold().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    published = copy.deepcopy(net)
    mean = {n: p.detach().clone() for n, p in net.named_parameters()}

    def average(step: int) -> None:
        # Plain averaging first, so that the running mean does not remember where it began.
        keep = min(recipe.averaged, step / (step + 1))
        with torch.no_grad():
            for n, p in net.named_parameters():
                mean[n].lerp_(p, 1 - keep)

    # One photo at a time: on a CPU its maps stay in the cache, which makes 780 ms a photo 530.
    at_once = 1 if device == "cpu" else None
    feed = batches(pairs, recipe)
    fit(net, feed, recipe.steps, supervision, recipe.lr, "fine-tuning", at_once=at_once, after_step=average)
    return TunedNet(published, mean)


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
        yield batch(augment(pairs[n], recipe, generator) for n in chosen)


def augment(pair: MaskPair, recipe: Recipe, generator: np.random.Generator) -> Example:
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


def train_on_toys(
    out: Path,
    steps: int = 1600,
    size: int = 64,
    input_size: int = 96,
    photos: int = 6000,
    held_out: int = 200,
    seed: int = 0,
) -> float:
    """Train U²-Net-p from scratch on ``photos`` specimens of ``size`` pixels, seen at ``input_size``.

    Writes float16 weights to ``out`` (.safetensors, 2.4 MB) and gives the mean IoU at threshold 128 of these
    very weights on ``held_out`` other specimens. The same seed gives the same weights on the same machine.
    """
    keep_freed_memory()
    progress.say(f"rendering {photos} specimens of {size} px")
    pool = specimens(photos, size, seed)
    net = initialise(seed).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.train()
    fit(
        net, toy_batches(*pool, steps, input_size, seed), steps, deep_supervision, LEARNING_RATE, "toy masker"
    )
    save(net, out)
    # Of the weights as they are written.
    params = saliency.SaliencyParams(weights=str(out), input_size=input_size, batch_size=8)
    photos_held_out, truths = specimens(held_out, size, seed + 1)
    predicted = saliency.build_masker("u2netp", params, "cpu")(list(photos_held_out))
    return float(np.mean([quality.iou(m.alpha, t) for m, t in zip(predicted, truths, strict=True)]))


def initialise(seed: int) -> U2Net:
    """A U²-Net-p with He-normal weights of this seed and zero biases."""
    net = u2netp()
    generator = seeds.torch_generator("toy-masker", "weights", seed)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return net


def toy_batches(
    photos: Photos, masks: Masks, steps: int, size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Network inputs [B,3,size,size] with masks [B,1,size,size], ``steps`` times; half are mirrored."""
    for step in range(steps):
        rng = seeds.generator("toy-masker", "batch", seed, step)
        chosen = rng.choice(len(photos), BATCH_SIZE, replace=False)
        facing = np.where(rng.random(BATCH_SIZE) < 0.5, -1, 1)
        views = list(zip(chosen, facing, strict=True))
        yield batch(example(photos[n][:, ::side], masks[n][:, ::side], size) for n, side in views)
