"""Crops of whole batches have the numbers of Pillow's crops of single pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bgbias import seeds
from bgbias.images import pixels
from bgbias.photos import crops
from bgbias.photos.crops import DeviceCrops, PillowCrops, cropper

SIZE, COUNT = 37, 200


def pictures(channels: int) -> list[np.ndarray]:
    """Small and large, wide and tall, smooth as photos are and full of noise."""
    rng = seeds.generator("cropping", channels)
    made = []
    # The last ones' heights shrink by twice as many pixels as their widths, and by one more, where Pillow changes its order.
    squares = [(40, 61), (90, 40), (40, 40), (37, 37), (12, 15), (200, 64)]
    for height, width in [*squares, (90, 20), (91, 64), (92, 64)]:
        noise = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        smooth = pixels.resize_short(rng.integers(0, 256, (4, 6, 3), dtype=np.uint8), 40)[..., :channels]
        made += [noise, smooth]
    return [m[..., 0] if channels == 1 else m for m in made]


def on_device(shown: list[np.ndarray], device: str = "cpu") -> DeviceCrops:
    return DeviceCrops(shown.__getitem__, [p.shape for p in shown], SIZE, device)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("channels", [1, 3])
def test_crops_are_pillows_to_the_byte(channels: int, device: str) -> None:
    """Of tall pictures too, which Pillow resizes down before it resizes them across."""
    rng = seeds.generator("boxes", channels)
    shown = pictures(channels)
    rows = rng.integers(len(shown), size=COUNT).tolist()
    drawn = [pixels.random_box(rng, *shown[row].shape[:2]) for row in rows]
    boxes, flips = [b for b, _ in drawn], [f for _, f in drawn]
    found = on_device(shown, device).crops(rows, boxes, flips).cpu()
    assert (found.shape, found.dtype) == ((COUNT, channels, SIZE, SIZE), torch.uint8)
    assert found.is_contiguous(memory_format=torch.channels_last)
    for row, box, flip, crop in zip(rows, boxes, flips, found, strict=True):
        expected = pixels.crop(shown[row], box, SIZE, flip).reshape(SIZE, SIZE, channels)
        np.testing.assert_array_equal(crop.permute(1, 2, 0).numpy(), expected)
    assert any(flips)
    assert not all(flips)


def test_a_crop_does_not_depend_on_those_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on how many are too much at once, nor on who crops; the largest box reaches all four edges."""
    shown, rng = pictures(3), seeds.generator("boxes")
    rows, flips = range(len(shown)), [bool(n % 2) for n in range(len(shown))]
    boxes = [pixels.random_box(rng, *p.shape[:2])[0] for p in shown]
    boxes[0] = pixels.RelativeBox(0, 0, 1, 1)
    kept = on_device(shown)
    together = kept.crops(rows, boxes, flips)
    for row, crop in zip(rows, together, strict=True):
        assert torch.equal(kept.crops([row], [boxes[row]], [flips[row]])[0], crop)
    monkeypatch.setattr(crops, "SCRATCH", 1)
    assert torch.equal(kept.crops(rows, boxes, flips), together)
    for few in (True, False):
        one = cropper(shown.__getitem__, [p.shape for p in shown], SIZE, "cpu", few)
        assert isinstance(one, PillowCrops)
        found = one.crops(rows, boxes, flips)
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(found, together)
