"""A picture's vector is its own: models that mix the pictures of a batch are refused wherever they embed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import bgbias
from bgbias import seeds
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted, Options, load
from tests.support import toy_folder

AMONG = "another vector among the others than alone"


def views(count: int) -> np.ndarray:
    return seeds.generator("views").integers(0, 256, (count, 16, 16, 3), np.uint8)


class Mixing(nn.Module):
    """Right for two pictures; of more, each gets what its neighbour should have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        right = nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)
        return right if len(x) < 3 else right.roll(1, 0)


def mixing(batch: list[np.ndarray]) -> np.ndarray:
    """The same as a function."""
    right = np.array([picture.mean((0, 1)) for picture in batch])
    return right if len(batch) < 3 else np.roll(right, 1, 0)


def scripted(folder: Path) -> Adapted:
    torch.jit.save(torch.jit.script(Mixing()), folder / "mixing.pt")
    return load(f"torchscript:{folder / 'mixing.pt'}", Options(size=16, device="cpu"))


@pytest.mark.parametrize(
    "brought",
    [
        lambda _: load(Mixing(), Options(size=16, device="cpu")),
        lambda _: load(mixing, Options(size=16)),
        scripted,
    ],
)
def test_pictures_that_are_mixed_are_refused_at_any_size(
    brought: Callable[[Path], Adapted], tmp_path: Path
) -> None:
    for count in (64, 40, 3):
        with pytest.raises(UserError, match=f"picture 1 of {count} {AMONG}"):
            brought(tmp_path).embed(views(count))


def test_a_last_shorter_batch_and_a_late_one_are_tried() -> None:
    embedded = [0]

    def drifting(batch: list[np.ndarray]) -> list[np.ndarray]:
        """Something in it changes with the sixth large batch."""
        embedded[0] += len(batch) > 4
        return [p.mean((0, 1)) + (embedded[0] > 5 and len(batch) > 4) * 50 for p in batch]

    found = load(drifting, Options(size=16))
    for _ in range(7):
        found.embed(views(8))
    with pytest.raises(UserError, match=AMONG):
        found.embed(views(8))
    short = load(lambda b: [p.mean((0, 1)) * (1 + (len(b) == 5)) for p in b], Options(size=16))
    short.embed(views(8))
    with pytest.raises(UserError, match=f"of 5 {AMONG}"):
        short.embed(views(5))


def test_an_audit_refuses_before_masks_are_made(tmp_path: Path) -> None:
    toy_folder.made(tmp_path)
    with pytest.raises(UserError, match=f"{AMONG}.*It was shown views of"):
        bgbias.audit(tmp_path / "photos", mixing, masks=tmp_path / "masks", size=64, resize=64)


def test_embed_refuses_a_function_that_mixes_photos() -> None:
    with pytest.raises(UserError, match=f"The model gives picture 1 of 8 {AMONG}"):
        bgbias.embed(mixing, list(views(8)))
