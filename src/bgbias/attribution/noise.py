"""The noise of smoothed gradients: the same numbers on every device, made where they are used.

A generator whose next number follows from the last one is a single thread's work. SplitMix64 computes each from a counter alone.
"""

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np
import torch
from torch import Tensor

from bgbias import seeds
from bgbias.compute.transfer import to_device

# SplitMix64's constants, whose 64 bits torch reads with a sign: 9E3779B97F4A7C15, BF58476D1CE4E5B9, 94D049BB133111EB.
STEP, MIX = -0x61C8864680B583EB, ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1))


def draw_noise(keys: Sequence[str], shape: tuple[int, ...], device: str) -> Tensor:
    """Standard normal numbers for each of B photos, float32 [B, *shape] on a device.

    They depend on a photo's key and the shape alone: every model, batch and device sees the same, to the bit. Sixteen random bits
    choose one of 65,536 quantiles of the normal distribution, which are equally likely.
    """
    numbers = [seeds.number(seeds.key("attribution", key)) for key in keys]
    first = to_device(torch.from_numpy(np.array(numbers, np.uint64).view(np.int64)), device)
    words = split_mix(first, -(-prod(shape) // 4))
    chosen = words.view(torch.int16)[:, : prod(shape)].int() & 0xFFFF
    return _find_quantiles(device).index_select(0, chosen.flatten()).view(-1, *shape)


def split_mix(first: Tensor, count: int) -> Tensor:
    """So many numbers of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) from
    each seed, int64 [B, count] from int64 [B]: 64 random bits each.
    """
    z = first[:, None] + STEP * torch.arange(1, count + 1, device=first.device)
    for shift, factor in MIX:
        z ^= (z >> shift).bitwise_and_((1 << (64 - shift)) - 1)  # without the sign, which torch repeats
        z *= factor
    return z


def add_noise(photos: Tensor, numbers: Tensor, noise: float) -> Tensor:
    """Views [B * samples, 3, H, W] of photos [B, 3, H, W], from the numbers drawn for each: ``noise`` times a photo's range."""
    ranges = photos.amax((1, 2, 3)) - photos.amin((1, 2, 3))
    return (photos[:, None] + (noise * ranges).view(-1, 1, 1, 1, 1) * numbers).flatten(0, 1)


@cache
def _find_quantiles(device: str) -> Tensor:
    """The middles of as many parts of the normal distribution as 16 bits tell apart, float32 [65536]."""
    middles = (torch.arange(2**16, dtype=torch.float64) + 0.5) / 2**16
    return torch.special.ndtri(middles).float().to(device)
