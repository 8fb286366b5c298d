"""Training the toy dataset's saliency net: U²-Net-p on rendered objects and scenes that no dataset shows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bgbias import progress, seeds
from bgbias.compute.device import keep_freed_memory
from bgbias.masks import quality, saliency
from bgbias.masks.training import batch, deep_supervision, example, fit, save
from bgbias.masks.u2net import U2Net, u2netp
from bgbias.toy.render import specimens

BATCH_SIZE = 8
LEARNING_RATE = 2e-3

Photos = NDArray[np.uint8]  # [N, S, S, 3]
Masks = NDArray[np.uint8]  # [N, S, S]


def train(
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
    return judge(out, specimens(held_out, size, seed + 1), input_size)


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


def judge(weights: Path, truth: tuple[Photos, Masks], input_size: int) -> float:
    """Mean IoU at threshold 128 of saved weights on these photos."""
    params = saliency.SaliencyParams(weights=str(weights), input_size=input_size, batch_size=8)
    predicted = saliency.build_masker("u2netp", params, "cpu")(list(truth[0]))
    return float(np.mean([quality.iou(m.alpha, t) for m, t in zip(predicted, truth[1], strict=True)]))
