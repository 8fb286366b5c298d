"""Random numbers belong to names: the numbers themselves are frozen, since published results hang on them."""

from __future__ import annotations

import numpy as np
import torch

from bgbias import seeds


def test_numbers_and_generators_are_frozen() -> None:
    # `printf %s 'cub200|test|bg|4|5923' | sha256sum` begins with these 16 hex digits.
    assert seeds.number(seeds.key("cub200", "test", "bg", 4, 5923)) == 0x1D891A38FEEF03F0
    assert seeds.number("") == 0xE3B0C44298FC1C14
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    crops = seeds.generator("crop", "cub50", 0, 1, 2).integers(0, 1000, 5)
    assert crops.tolist() == [376, 361, 122, 833, 174]
    drawn = torch.randint(0, 1000, (5,), generator=seeds.torch_generator("model", "cub50", "tiny", 0))
    assert drawn.tolist() == [971, 692, 176, 350, 162]
