"""Targets of attacks: other classes, no two alike, the same for every model (docs/methods.md, section 8)."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest
import torch

from bgbias import attacks, seeds
from bgbias.errors import UserError

LABELS = [0, 0, 1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_targets_of_a_batch_are_of_other_classes_each(seed: int, count: int) -> None:
    labels = torch.tensor(LABELS)
    found = attacks.targets_of_batch(labels, count, seeds.torch_generator("targets", seed))
    assert found.shape == (8, count)
    for row, chosen in zip(LABELS, labels[found].tolist(), strict=True):
        assert len({row, *chosen}) == 1 + count


def test_targets_of_a_batch_are_all_alike_likely() -> None:
    """The first is any photo of another class, not any class: of six photos, each in a sixth of the draws."""
    drawn = [
        attacks.targets_of_batch(torch.tensor(LABELS), 2, seeds.torch_generator("t", n)) for n in range(3000)
    ]
    first = Counter(int(d[0, 0]) for d in drawn)
    assert set(first) == set(range(2, 8))
    # Six standard deviations of a binomial count.
    assert all(abs(n - 500) < 6 * (3000 * 5 / 36) ** 0.5 for n in first.values())


def naive(labels: list[int], items: list[str], count: int, draw: int) -> list[list[int]]:
    table = []
    for label, item in zip(labels, items, strict=True):
        seen, row = {label}, []
        for number in range(count):
            left = [r for r, other in enumerate(labels) if other not in seen]
            text = f"toys|test|attack|{draw}|{item}|{number}"
            row.append(left[int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % len(left)])
            seen.add(labels[row[-1]])
        table.append(row)
    return table


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("draw", [0, 1])
def test_manifest_agrees_with_its_naive_twin(draw: int, count: int) -> None:
    items = [f"{n}.jpg" for n in range(8)]
    keys = [("toys|test", item) for item in items]
    found = attacks.targets_of_photos(np.array(LABELS), keys, count, draw)
    assert found.tolist() == naive(LABELS, items, count, draw)


def test_first_target_of_several_is_that_of_one() -> None:
    keys = [("toys|test", n) for n in range(8)]
    one, three = (attacks.targets_of_photos(np.array(LABELS), keys, count, 0) for count in (1, 3))
    assert (one[:, 0] == three[:, 0]).all()


def test_too_few_classes_are_told() -> None:
    with pytest.raises(UserError, match="4 targets needs photos of 5 classes in a batch; this one has 4"):
        attacks.targets_of_batch(torch.tensor(LABELS), 4, seeds.torch_generator("t"))
    with pytest.raises(UserError, match="1 target needs photos of 2 classes; there are photos of 1"):
        attacks.targets_of_photos(np.zeros(3, int), [("toys|test", n) for n in range(3)], 1, 0)
