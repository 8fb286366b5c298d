"""Crops of the pictures of a batch: one after the other on the CPU, all at once in a GPU's memory; the same numbers.

A GPU would wait for Pillow. So there the prepared pictures lie in its memory, and a whole batch of crops is a few gathers:
Pillow's own separable filter (bilinear, antialiased, rounded to bytes after each direction), whose weights and places are worked
out for all crops together. No pixel differs from Pillow's by more than one grey level; hardly any does, but for tall pictures,
where Pillow resizes down before it resizes across: up to a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from bgbias.compute.device import shares
from bgbias.images import pixels
from bgbias.images.pixels import Picture, RelativeBox

SHARE = 0.15  # of a GPU's memory that one collection may take: there are photos, masks, backgrounds and the training itself
SCRATCH = 2**28  # numbers that may be at work at once
Rows = Sequence[int] | np.ndarray


class Crops(Protocol):
    """Pictures, known by their place, that can be cropped."""

    def crops(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        """The boxed parts, resized and mirrored: uint8 [B, channels, size, size], channels last."""


def cropper(
    picture: Picture, shapes: Sequence[tuple[int, ...]], size: int, device: str, few: bool = False
) -> Crops:
    """What crops pictures of these shapes to ``size`` fastest for this device. ``few``: each of them is cropped many times."""
    if device.startswith("cuda"):
        # Of all memory, not of what is free: who else is there at the moment must not decide what is trained on.
        memory = torch.cuda.get_device_properties(device).total_memory / shares()
        if sum(map(math.prod, shapes)) < SHARE * memory:
            return DeviceCrops(picture, shapes, size, device)
    return PillowCrops(picture, size, few)


class PillowCrops:
    """Crops one after the other."""

    def __init__(self, picture: Picture, size: int, few: bool = False) -> None:
        self._image = pixels.kept(picture) if few else lambda row: Image.fromarray(picture(row))
        self._size = size

    def crops(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        """As ``Crops`` says."""
        crops = [
            np.asarray(pixels.cropped(self._image(row), box, self._size, flip))
            for row, box, flip in zip(rows, boxes, flips, strict=True)
        ]
        batch = torch.from_numpy(np.stack(crops))
        return batch.permute(0, 3, 1, 2) if batch.ndim == 4 else batch.unsqueeze(1)


class DeviceCrops:
    """Pictures in the memory of a device, one after the other, and crops of them all at once."""

    def __init__(self, picture: Picture, shapes: Sequence[tuple[int, ...]], size: int, device: str) -> None:
        self._size, self._device = size, device
        self._channels = 3 if shapes and len(shapes[0]) == 3 else 1
        sizes = np.array([s[:2] for s in shapes], np.int64).reshape(-1, 2)
        starts = np.concatenate([[0], sizes.prod(axis=1).cumsum()]).astype(np.int64)
        self._pixels = torch.empty((int(starts[-1]), self._channels), dtype=torch.uint8, device=device)
        # One by one, so that they never lie in the computer's memory together.
        for row, start in enumerate(starts[:-1]):
            part = torch.from_numpy(picture(row).reshape(-1, self._channels).copy())
            self._pixels[start : start + len(part)] = part.to(device)
        self._sizes, self._starts = sizes, starts
        # Taps of the filter in each direction: 1 + 2 * support, the widest picture being shrunk most.
        self._taps = 1 + 2 * math.ceil(max(1.0, sizes.max(initial=1) / size))

    def crops(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        """As ``Crops`` says."""
        tallest = int(self._sizes[:, 0].max())
        at_once = max(1, SCRATCH // (tallest * self._size * self._taps * self._channels))
        parts = [
            self._some(rows[i : i + at_once], boxes[i : i + at_once], flips[i : i + at_once])
            for i in range(0, len(rows), at_once)
        ]
        return torch.cat(parts).contiguous(memory_format=torch.channels_last)

    def _some(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        chosen = np.asarray(rows, np.int64)
        heights, widths = self._sizes[chosen].T
        edges = np.array([(b.left, b.top, b.width, b.height) for b in boxes], np.float64).T
        x, across = self._filter(edges[0], edges[2], widths)
        y, down = self._filter(edges[1], edges[3], heights)
        mirrored = self._to_device(np.asarray(flips, bool))
        x = torch.where(mirrored[:, None, None], x.flip(1), x)
        across = torch.where(mirrored[:, None, None], across.flip(1), across)
        # First the rows that any output row reads, each resized across; then those are resized down.
        first = y.amin(dim=(1, 2))
        count = int((y.amax(dim=(1, 2)) - first).max()) + 1
        lowest = self._to_device(heights - 1)[:, None]
        line = (first[:, None] + torch.arange(count, device=first.device)).clamp(max=lowest)
        start = self._to_device(self._starts[chosen])[:, None] + line * self._to_device(widths)[:, None]
        places = start[:, :, None, None] + x[:, None]
        lines = _rounded((self._pixels[places] * across[:, None, :, :, None]).sum(3))  # [B, count, S, C]
        batch = torch.arange(len(chosen), device=first.device)[:, None, None]
        columns = lines[batch, y - first[:, None, None]]  # [B, S, taps, S, C]
        levels = _rounded((columns * down[:, :, :, None, None]).sum(2))
        return levels.to(torch.uint8).permute(0, 3, 1, 2)

    def _filter(self, begin: np.ndarray, length: np.ndarray, limit: np.ndarray) -> tuple[Tensor, Tensor]:
        """Which pixels each output pixel reads, int64 [B, size, taps], and with which weights, float32."""
        low = begin * limit
        scale = (np.minimum((begin + length) * limit, limit) - low) / self._size
        support = np.maximum(scale, 1.0)[:, None]
        centre = low[:, None] + (np.arange(self._size) + 0.5) * scale[:, None]
        first = np.maximum(np.trunc(centre - support + 0.5), 0)
        end = np.minimum(np.trunc(centre + support + 0.5), limit[:, None])
        place = first[..., None] + np.arange(self._taps)
        weight = 1 - np.abs((place - centre[..., None] + 0.5) / support[..., None])
        weight = np.where(place < end[..., None], np.maximum(weight, 0), 0)
        weight /= weight.sum(axis=2, keepdims=True)
        place = np.minimum(place, (limit - 1)[:, None, None])
        return self._to_device(place.astype(np.int64)), self._to_device(weight.astype(np.float32))

    def _to_device(self, values: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if self._device == "cpu":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _rounded(levels: Tensor) -> Tensor:
    return (levels + 0.5).floor_().clamp_(0, 255)
