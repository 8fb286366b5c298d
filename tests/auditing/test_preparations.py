"""Where the preparation was guessed, a few labelled photos say whether another usual one finds clearly more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from bgbias import seeds
from bgbias.auditing.embedding import compare_preparations as compare
from bgbias.auditing.photos import PhotoCollection, choose, look_at
from bgbias.models.adapters import Options, load

HALF = "--mean 0.5 0.5 0.5 --std 0.5 0.5 0.5"


class Bright(nn.Module):
    """Trained on colours in -1..1: it knows no others, as if what is brighter were white."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)).clamp(-1, 1) - 0.5


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> PhotoCollection:
    """Eight classes of bright colours."""
    place, random = tmp_path_factory.mktemp("bright"), seeds.generator("bright")
    for number in range(8):
        colour = random.integers(190, 250, 3)
        for photo in range(4):
            picture = np.clip(colour + random.integers(-5, 6, (32, 32, 3)), 0, 255).astype(np.uint8)
            path = place / f"class {number}" / f"{photo}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(picture).save(path)
    return look_at(choose(str(place), None, None, None, None))


def test_a_preparation_that_finds_clearly_more_is_named(collection: PhotoCollection) -> None:
    model = load(Bright(), Options(size=32, device="cpu"))
    found = compare(model, collection)
    assert found.better == HALF
    assert found.photos == 32
    (sentence,) = found.sentences
    assert (
        f"On 32 photos the model finds clearly more with {HALF}: MAP@R {100 * found.map_at_r[HALF]:.1f} %"
        in sentence
    )
    assert compare(model, collection) == found


def test_the_numbers_are_those_of_a_model_that_is_told(collection: PhotoCollection) -> None:
    told = load(Bright(), Options(size=32, mean=(0.5,) * 3, std=(0.5,) * 3, device="cpu"))
    guessed = load(Bright(), Options(size=32, device="cpu"))
    views = np.stack([guessed.look(np.full((40, 40, 3), level, np.uint8)) for level in (30, 200)])
    np.testing.assert_array_equal(guessed.alternatives[HALF](views), told.vectors(views))
    assert not compare(told, collection).map_at_r, "nothing was guessed"


def test_a_preparation_that_finds_as_much_is_not_named(collection: PhotoCollection) -> None:
    """A mean colour says as much, however it is scaled."""
    found = compare(load(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), Options(size=32)), collection)
    assert found.better is None
    assert not found.sentences
    assert len(found.map_at_r) == 4


def test_photos_without_classes_say_nothing(collection: PhotoCollection, tmp_path: Path) -> None:
    Image.new("RGB", (40, 40), "red").save(tmp_path / "one.png")
    Image.new("RGB", (40, 40), "blue").save(tmp_path / "two.png")
    unlabelled = look_at(choose(str(tmp_path), None, None, None, None))
    assert not compare(load(Bright(), Options(size=32)), unlabelled).map_at_r
