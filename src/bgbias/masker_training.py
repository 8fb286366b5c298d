"""Training the toy dataset's saliency net: U²-Net-p on rendered objects and scenes that no dataset shows.

Every one of the seven outputs is compared with the exact mask by binary cross-entropy, and the seven losses
are added (deep supervision, Qin et al. 2020, eq. 1-2, all weights 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from bgbias import mask_quality, progress, saliency, seeds
from bgbias.allocation import keep_freed_memory
from bgbias.atomic import replacing
from bgbias.toy.render import specimens
from bgbias.u2net import U2Net, u2netp

BATCH_SIZE = 8
LEARNING_RATE = 2e-3
WARM_UP = 0.05  # share of the steps in which the learning rate rises

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
    optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step / steps))
    net.train()
    losses: list[float] = []
    feed = batches(*pool, steps, input_size, seed)
    for step, (x, truth) in enumerate(progress.track(feed, steps, "toy masker"), 1):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = net(x)
        loss = deep_supervision(outputs, truth)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item() / 7)
        if step % 100 == 0:
            progress.say(f"toy masker: step {step}, mean loss of an output {np.mean(losses[-100:]):.4f}")
    save(net, out)
    return judge(out, specimens(held_out, size, seed + 1), input_size)


def rate(done: float) -> float:
    """The learning rate as a share of its peak: a linear rise, then half a cosine down to zero."""
    if done < WARM_UP:
        return (done + 1e-3) / (WARM_UP + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


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


def deep_supervision(outputs: list[Tensor], truth: Tensor) -> Tensor:
    """The sum over the outputs (logits [B,1,H,W]) of their binary cross-entropy with ``truth`` in 0..1."""
    return torch.stack([F.binary_cross_entropy_with_logits(o.float(), truth) for o in outputs]).sum()


def batches(
    photos: Photos, masks: Masks, steps: int, size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Network inputs [B,3,size,size] with masks [B,1,size,size], ``steps`` times; half are mirrored."""
    for step in range(steps):
        rng = seeds.generator("toy-masker", "batch", seed, step)
        chosen = rng.choice(len(photos), BATCH_SIZE, replace=False)
        facing = [
            slice(None, None, -1) if mirrored else slice(None) for mirrored in rng.random(BATCH_SIZE) < 0.5
        ]
        seen = [
            saliency.network_input(photos[n][:, side], size) for n, side in zip(chosen, facing, strict=True)
        ]
        true = [stretched(masks[n][:, side], size) for n, side in zip(chosen, facing, strict=True)]
        x = torch.from_numpy(np.stack(seen)).contiguous(memory_format=torch.channels_last)
        yield x, torch.from_numpy(np.stack(true))[:, None]


def stretched(mask: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """A mask in 0..1 at the network's size."""
    square = Image.fromarray(mask).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(square, np.float32) / np.float32(255)


def save(net: U2Net, out: Path) -> None:
    """The weights as float16 under the official names, without batch norm's counters, which nothing reads."""
    state = {
        name: tensor.half().contiguous()
        for name, tensor in net.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    with replacing(out) as temporary:
        save_file(state, temporary)


def judge(weights: Path, truth: tuple[Photos, Masks], input_size: int) -> float:
    """Mean IoU at threshold 128 of saved weights on these photos."""
    params = saliency.SaliencyParams(weights=str(weights), input_size=input_size, batch_size=8)
    made = saliency.build_masker("u2netp", u2netp, params, "cpu")(list(truth[0]))
    return float(np.mean([mask_quality.iou(m.alpha, t) for m, t in zip(made, truth[1], strict=True)]))
