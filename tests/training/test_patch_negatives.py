"""Pictures made of windows of photos, against naive twins (docs/methods.md, section 6)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
import torch

from bgbias import seeds
from bgbias.training import patch_negatives

PER_SIDE = {16: 15, 32: 8, 33: 7, 56: 5, 72: 4}  # docs/methods.md, section 11, G8


def photos(count: int, side: int) -> torch.Tensor:
    """Of which every pixel tells where it was."""
    return torch.arange(count * 2 * side * side, dtype=torch.float64).view(count, 2, side, side)


def test_windows_beside_one_another() -> None:
    assert {window: patch_negatives.per_side(window, 224) for window in PER_SIDE} == PER_SIDE


@pytest.mark.parametrize(("side", "window"), [(12, 5), (12, 4), (9, 9), (10, 1)])
def test_tiles_are_windows_from_left_to_right_and_down(side: int, window: int) -> None:
    given, count = photos(2, side), side // window + 1
    drawn = np.random.default_rng(side)
    tops, lefts = (torch.from_numpy(drawn.integers(0, side - window + 1, (count, count))) for _ in range(2))
    whole = torch.full((2, count * window, count * window), -1, dtype=torch.float64)
    for i in range(count):
        for j in range(count):
            y, x = int(tops[i, j]), int(lefts[i, j])
            whole[:, i * window : (i + 1) * window, j * window : (j + 1) * window] = given[
                0, :, y : y + window, x : x + window
            ]
    made = patch_negatives.tile(given[:1], [window], [tops], [lefts])
    assert torch.equal(made[0], whole[:, :side, :side])


def test_each_photo_has_windows_of_its_own_from_everywhere() -> None:
    side = 32
    given = photos(200, side)
    made = patch_negatives.patches(given, 16, 72, seeds.torch_generator("patches"))
    first = made[:, 0].reshape(200, -1) - given[:, 0, 0, 0].view(-1, 1)
    assert (first >= 0).all()
    assert (first < side * side).all()  # of the own photo
    runs = [1 + int(np.flatnonzero(np.diff(row[:side]) != 1)[0]) for row in first.numpy()]
    assert {min(runs), max(runs)} == {
        2,
        10,
    }  # 16 and 72 of 224; two windows may happen to go on in one another
    corners = first[:, 0].long()
    assert corners.min() < side
    assert (corners % side).min() == 0
    again = patch_negatives.patches(given, 16, 72, seeds.torch_generator("patches"))
    assert torch.equal(made, again)


def masks(side: int) -> torch.Tensor:
    drawn = np.random.default_rng(1)
    soft = np.stack([scipy.ndimage.gaussian_filter(drawn.random((side, side)), 3) for _ in range(6)])
    soft = (soft - soft.min()) / (soft.max() - soft.min())
    return torch.from_numpy(soft * (soft > 0.6))[:, None]


@pytest.mark.parametrize("side", [64, 224])
def test_objects_are_grown_boxed_and_blurred_as_scipy_does(side: int) -> None:
    given, reach = masks(side), round(7 * side / 224)
    grown = patch_negatives.dilate(given)
    for mask, found, box, soft in zip(
        given, grown, patch_negatives.boxes(grown), patch_negatives.blur(grown), strict=True
    ):
        away = scipy.ndimage.distance_transform_edt(mask[0].numpy() <= 0.5)
        assert np.array_equal(found[0].numpy(), (away <= reach).astype(float))
        ((rows, columns),) = scipy.ndimage.find_objects((found[0].numpy() > 0).astype(int))
        filled = np.zeros((side, side))
        filled[rows, columns] = 1
        assert np.array_equal(box[0].numpy(), filled)
        sigma = 2 * side / 224
        twin = scipy.ndimage.gaussian_filter(
            found[0].numpy(), sigma, mode="nearest", radius=max(1, round(3 * sigma))
        )
        np.testing.assert_allclose(soft[0].numpy(), twin, atol=1e-12)
    assert not patch_negatives.boxes(torch.zeros(1, 1, 8, 8)).any()


@pytest.mark.parametrize("box", [False, True])
def test_what_covers_an_object_shows_its_surroundings(box: bool) -> None:
    side, given = 64, torch.zeros(3, 1, 64, 64)
    given[0, 0, 20:30, 24:40] = 1  # an object with room around it
    given[1] = 1  # nothing but object
    given[2, 0, :, 3:] = 1  # a stripe of background, too narrow for any window beside the grown object
    level = torch.where(
        given > 0.5, 100.0, torch.rand(3, 1, side, side, generator=seeds.torch_generator("grass"))
    )
    shown = torch.cat([given, torch.zeros(1, 1, side, side)])  # the last crop shows no object
    level = torch.cat([level, level[:1]])
    made, counts = patch_negatives.cover_objects(level, shown, 16, 48, box, seeds.torch_generator("cover"))
    assert counts.tolist() == [True, False, False, False]
    assert torch.equal(made[3], level[3])
    inside = made[0, 0, 20:30, 24:40]
    # A window shows a twentieth of object at most; what is covered was 100 all over.
    assert (inside < 1.01).float().mean() > 0.9
    far = torch.ones(side, side, dtype=torch.bool)
    far[10:40, 14:50] = False
    assert torch.equal(made[0, 0][far], level[0, 0][far])


def test_windows_get_smaller_until_they_fit_beside_the_object() -> None:
    given = torch.ones(1, 1, 224, 224)
    given[..., :24] = 0  # 17 columns are left beside the grown object, and windows of 40 do not fit
    level = given * 100
    made, counts = patch_negatives.cover_objects(level, given, 40, 48, False, seeds.torch_generator("narrow"))
    assert counts.tolist() == [True]
    assert made[..., 30:].max() < 60
    narrow = given.clone()
    narrow[..., :24] = 1
    narrow[..., :11] = 0  # 4 columns: not even 8 pixels, of which a twentieth may be object
    assert patch_negatives.cover_objects(level, narrow, 40, 48, False, seeds.torch_generator("narrow"))[
        1
    ].tolist() == [False]
