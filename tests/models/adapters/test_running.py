"""How a model runs: so many pictures at once, fewer where memory is short, and in the precision that is chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from brought_models import ours
from torch import nn

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load


def views(count: int) -> np.ndarray:
    return seeds.generator("views").integers(0, 256, (count, 16, 16, 3), np.uint8)


class Small:
    """Takes few pictures at once, and remembers how many it was given."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most, self.error = most, error
        self.given: list[int] = []

    def __call__(self, batch: list[np.ndarray]) -> np.ndarray:
        self.given.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return np.array([picture.mean((0, 1)) for picture in batch])


SHORT = (
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("Failed to allocate memory for requested buffer of size 1048576"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
)


@pytest.mark.parametrize("error", SHORT)
def test_fewer_pictures_go_through_a_model_at_once_where_memory_is_short(
    error: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    small = Small(20, error)
    found = load(small, Options(size=16, batch_size=40))
    capfd.readouterr()
    vectors = found.embed(views(100))
    np.testing.assert_allclose(vectors, views(100).mean((1, 2)), rtol=1e-6)
    assert found.batch.size == 20
    found.embed(views(100))
    said = capfd.readouterr().err.splitlines()
    assert said == ["Small: memory is short for 40 pictures at once; goes on with 20 (--batch-size 20)"]
    assert small.given.count(40) == 1, "it is not tried again"


def test_a_model_that_takes_not_even_one_picture_is_told_with_what_helps() -> None:
    small = Small(2, SHORT[0])
    found = load(small, Options(size=16))
    small.most = 0
    with pytest.raises(UserError, match=r"Small needs more memory .*--batch-size 1: give a smaller --size"):
        found.embed(views(3))


def test_another_error_is_no_matter_of_memory() -> None:
    small = Small(2, ValueError("no such layer"))
    found = load(small, Options(size=16))
    with pytest.raises(UserError, match="Small fails on 3 pictures of 16 x 16 pixels: ValueError: no such"):
        found.embed(views(3))
    assert found.batch.size == 64


def test_vectors_do_not_hang_on_how_many_pictures_go_at_once() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU())
    few, many = (load(network, Options(size=35, batch_size=count, device="cpu")) for count in (2, 64))
    np.testing.assert_allclose(ours(few), ours(many), atol=1e-6)


def test_a_lower_precision_moves_vectors_a_little_and_is_reported() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 7, 7), nn.ReLU(), nn.Flatten(), nn.Linear(200, 8))
    exact = load(network, Options(size=35, device="cpu"))
    rounded = load(network, Options(size=35, device="cpu", precision="bfloat16"))
    assert "precision: bfloat16" in rounded.told
    difference = np.abs(ours(exact) - ours(rounded)).max()
    assert 0 < difference < 0.02 * np.abs(ours(exact)).max()


def test_rounding_to_fewer_bits_is_not_taken_for_pictures_that_are_mixed() -> None:
    """Another number of pictures is added up in another order; a network that mixes them is refused all the same."""

    class Apart(nn.Module):
        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = x.mean((2, 3))
            return found * (1 + self.share * (len(x) > 2))

    options = Options(size=16, device="cpu", precision="bfloat16")
    load(Apart(0.05), options).embed(views(8))
    with pytest.raises(UserError, match="another vector among the others than alone"):
        load(Apart(0.2), options).embed(views(8))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "float16", "device": "cpu"}, "--precision float16 is for GPUs"),
        ({"precision": "half"}, "--precision 'half' is unknown; there are float32, bfloat16, float16"),
        ({"batch_size": 0}, "--batch-size is 0; it is at least 1"),
        ({"workers": -1}, "--workers is -1; it is at least 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(nn.Conv2d(3, 8, 7, 7), Options(size=35, **options))  # type: ignore[arg-type]


def test_what_torch_does_not_compute_has_its_own_precision(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Small computes in its own precision; leave --precision bfloat16"):
        load(Small(9, SHORT[0]), Options(size=16, precision="bfloat16"))


def test_a_model_that_was_loaded_is_taken_as_it_is() -> None:
    found = load(Small(9, SHORT[0]), Options(size=16))
    assert load(found) is found
    with pytest.raises(UserError, match="Small was loaded with its options before; leave others out"):
        load(found, Options(size=32))
