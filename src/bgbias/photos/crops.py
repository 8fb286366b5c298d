"""Crops of the pictures of a batch: one after the other on the CPU, all at once in a GPU's memory; the same bytes.

A GPU would wait for Pillow. So there the prepared pictures lie in its memory, and a whole batch of crops is a few gathers:
Pillow's own separable filter (bilinear, antialiased), in whole numbers as Pillow computes it, whose weights and places are worked
out for all crops together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from bgbias.compute.device import shares
from bgbias.compute.transfer import to_device
from bgbias.images import pixels
from bgbias.images.pixels import Picture, RelativeBox

SHARE = 0.15  # of a GPU's memory that one collection may take: there are photos, masks, backgrounds and the training itself
SCRATCH = 2**28  # numbers that may be at work at once
BITS = 22  # binary places of a weight, as Pillow has them: a weighted mean of grey levels fits into int32
Rows = Sequence[int] | np.ndarray


def cropper(
    picture: Picture,
    shapes: Sequence[tuple[int, ...]],
    size: int,
    device: str,
    few: bool = False,
    share: float = SHARE,
) -> PillowCrops | DeviceCrops:
    """What crops pictures of these shapes to ``size`` fastest for this device, of whose memory they may take a ``share``; of a
    ``few`` each is cropped many times.
    """
    if device.startswith("cuda"):
        # Of all memory, not of what is free: who else is there at the moment must not decide what is trained on.
        memory = torch.cuda.get_device_properties(device).total_memory / shares()
        if sum(map(math.prod, shapes)) < share * memory:
            return DeviceCrops(picture, shapes, size, device)
    return PillowCrops(picture, size, few)


class PillowCrops:
    """Crops one after the other."""

    def __init__(self, picture: Picture, size: int, few: bool = False) -> None:
        self._picture = picture
        self._image = pixels.cache_pictures(picture) if few else lambda row: Image.fromarray(picture(row))
        self._size = size

    def crops(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        """The boxed parts of the pictures of these rows, resized and mirrored: uint8 [B, channels, size, size], channels last."""
        crops = [
            np.asarray(pixels.crop_picture(self._image(row), box, self._size, flip))
            for row, box, flip in zip(rows, boxes, flips, strict=True)
        ]
        return _as_batch(crops)

    def centres(self, rows: Rows) -> Tensor:
        """The centre crops of the pictures of these rows, in the same form; no picture may be smaller than ``size``."""
        return _as_batch([pixels.centre_crop(self._picture(row), self._size) for row in rows])


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
        """What ``PillowCrops`` gives, to the bit."""
        lines = max(int(self._sizes.max()), self._size)
        at_once = max(1, SCRATCH // (lines * self._size * self._taps * self._channels))
        parts = [
            self._crop_batch(rows[i : i + at_once], boxes[i : i + at_once], flips[i : i + at_once])
            for i in range(0, len(rows), at_once)
        ]
        return torch.cat(parts).contiguous(memory_format=torch.channels_last)

    def centres(self, rows: Rows) -> Tensor:
        """What ``PillowCrops`` gives, to the bit."""
        chosen, steps = np.asarray(rows, np.int64), np.arange(self._size)
        corner = (self._sizes[chosen] - self._size) // 2
        lines = (corner[:, :1] + steps) * self._sizes[chosen, 1:] + corner[:, 1:] + self._starts[chosen, None]
        where = self._to_device(lines)[:, :, None] + self._to_device(steps)
        return self._pixels[where].permute(0, 3, 1, 2)

    def _crop_batch(self, rows: Rows, boxes: Sequence[RelativeBox], flips: Sequence[bool]) -> Tensor:
        chosen = np.asarray(rows, np.int64)
        sizes = self._sizes[chosen]
        edges = np.array([(b.top, b.left, b.height, b.width) for b in boxes], np.float64)
        # A picture that shrinks much more in height than in width is resized down first, as Pillow 13 does; every other across.
        spare = sizes - self._size
        down_first = spare[:, 0] > 2 * np.maximum(spare[:, 1], 0)
        down, across = (self._filter(edges[:, n], edges[:, 2 + n], sizes[:, n]) for n in (0, 1))
        across = _choose(np.asarray(flips, bool), [part[:, ::-1] for part in across], across)
        # Lines are columns where those are resized first, else rows: from pixel to pixel, and from line to line.
        step, leap = _choose(down_first, (sizes[:, 1], 1), (1, sizes[:, 1]))
        places, weights = _choose(down_first, down, across)
        lines, line_weights = _choose(down_first, across, down)
        # First the lines that any output line reads, each resized along itself; then those are resized across each other.
        begin = lines.min(axis=(1, 2))
        count = int((lines.max(axis=(1, 2)) - begin).max()) + 1
        last = np.where(down_first, sizes[:, 1], sizes[:, 0]) - 1
        line = np.minimum(begin[:, None] + np.arange(count), last[:, None])
        start = self._to_device(self._starts[chosen][:, None] + line * leap[:, None])
        where = start[:, :, None, None] + self._to_device(places * step[:, None, None])[:, None]
        # [B, count, S, C], and then the lines that each output line reads: [B, S, taps, S, C].
        resized = _weigh(self._pixels[where], self._to_device(weights)[:, None, :, :, None], 3)
        batch = torch.arange(len(chosen), device=start.device)[:, None, None]
        columns = resized[batch, self._to_device(lines - begin[:, None, None])]
        levels = _weigh(columns, self._to_device(line_weights)[:, :, :, None, None], 2)
        turned = self._to_device(down_first)[:, None, None, None]
        return torch.where(turned, levels.transpose(1, 2), levels).permute(0, 3, 1, 2)

    def _filter(self, begin: np.ndarray, length: np.ndarray, limit: np.ndarray) -> list[np.ndarray]:
        """Which pixels each output pixel reads, int64 [B, size, taps], and with which weights, int32 in ``BITS``."""
        # Pillow has edges in single precision, all else in double, and adds weights up one after the other.
        low = (begin * limit).astype(np.float32)
        high = np.minimum((begin + length) * limit, limit).astype(np.float32)
        scale = (high - low).astype(np.float64) / self._size
        support = np.maximum(scale, 1.0)[:, None]
        centre = low.astype(np.float64)[:, None] + (np.arange(self._size) + 0.5) * scale[:, None]
        first = np.maximum(np.trunc(centre - support + 0.5), 0)
        end = np.minimum(np.trunc(centre + support + 0.5), limit[:, None])
        pixel = first[..., None] + np.arange(self._taps)
        weight = 1 - np.abs((pixel - centre[..., None] + 0.5) * (1.0 / support)[..., None])
        weight = np.where(pixel < end[..., None], np.maximum(weight, 0), 0)
        weight /= weight.cumsum(axis=2)[..., -1:]
        pixel = np.minimum(pixel, (limit - 1)[:, None, None])
        return [pixel.astype(np.int64), np.trunc(weight * 2**BITS + 0.5).astype(np.int32)]

    def _to_device(self, values: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(np.ascontiguousarray(values)), self._device)


def _as_batch(crops: Sequence[np.ndarray]) -> Tensor:
    batch = torch.from_numpy(np.stack(crops))
    return batch.permute(0, 3, 1, 2) if batch.ndim == 4 else batch.unsqueeze(1)


def _choose(
    which: np.ndarray, these: Iterable[np.ndarray | int], those: Iterable[np.ndarray | int]
) -> list[np.ndarray]:
    """For each crop of a batch, [B, ...], these arrays' part if ``which`` [B], else those'."""
    return [
        np.where(which.reshape(-1, *[1] * (max(np.ndim(a), np.ndim(b)) - 1)), a, b)
        for a, b in zip(these, those, strict=True)
    ]


def _weigh(levels: Tensor, weights: Tensor, taps: int) -> Tensor:
    """The weighted mean of grey levels over the dimension ``taps``, rounded to uint8."""
    total = (levels * weights).sum(taps, dtype=torch.int32)
    return ((total + (1 << BITS - 1)) >> BITS).clamp_(0, 255).to(torch.uint8)
