"""Training of saliency nets: the loss, the loop and the file of the weights that all trainings share, and the training of the toy
dataset's own net, U²-Net-p on rendered objects and scenes that no dataset shows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from bgbias import progress, seeds
from bgbias.compute.device import keep_freed_memory
from bgbias.files.state_dicts import write_state_dict
from bgbias.masks import quality, saliency
from bgbias.masks.u2net import U2Net, u2netp
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
    """One minus the intersection over union of the probabilities with ``truth`` [B,1,H,W], mean over photos.

    Every object counts the same, large or small (Rahman & Wang 2016, as in BASNet).
    """
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
    seen, true = zip(*examples, strict=True)
    x = torch.from_numpy(np.stack(seen)).contiguous(memory_format=torch.channels_last)
    return x, torch.from_numpy(np.stack(true))[:, None]


def save(net: U2Net, out: Path) -> None:
    """The weights as float16 under the official names, without batch norm's counters, which nothing reads."""
    state = {k: v.half() for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    write_state_dict(state, out)


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
    net = initialised(seed).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.train()
    fit(net, batches(*pool, steps, input_size, seed), steps, deep_supervision, LEARNING_RATE, "toy masker")
    save(net, out)
    # Of the weights as they are written.
    params = saliency.SaliencyParams(weights=str(out), input_size=input_size, batch_size=8)
    shown, truths = specimens(held_out, size, seed + 1)
    predicted = saliency.build_masker("u2netp", params, "cpu")(list(shown))
    return float(np.mean([quality.iou(m.alpha, t) for m, t in zip(predicted, truths, strict=True)]))


def initialised(seed: int) -> U2Net:
    """A U²-Net-p with He-normal weights of this seed and zero biases."""
    net = u2netp()
    generator = seeds.torch_generator("toy-masker", "weights", seed)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return net


def batches(
    photos: Photos, masks: Masks, steps: int, size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Network inputs [B,3,size,size] with masks [B,1,size,size], ``steps`` times; half are mirrored."""
    for step in range(steps):
        rng = seeds.generator("toy-masker", "batch", seed, step)
        chosen = rng.choice(len(photos), BATCH_SIZE, replace=False)
        facing = np.where(rng.random(BATCH_SIZE) < 0.5, -1, 1)
        shown = list(zip(chosen, facing, strict=True))
        yield batch(example(photos[n][:, ::side], masks[n][:, ::side], size) for n, side in shown)
