"""Negatives of no class: twins of the loss and of pictures made of windows, and what is refused (docs/methods.md, section 6)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from fitting import CUB, EIGHT, batch, gradients, method
from small_study import data_nodes, load, run

from bgbias import seeds
from bgbias.engine import graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.files import code
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.images.composite import blend_batch
from bgbias.images.pixels import RelativeBox
from bgbias.images.quilting import texture
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.training import patch_negatives
from bgbias.training.methods import Batch

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("scope", ["own", "all"])
@pytest.mark.parametrize("name", ["patch_ns", "texture_ns", "bgneg", "bgneg_rect"])
def test_loss_and_gradient_agree_with_the_naive_twin(name: str, scope: str, follows: bool) -> None:
    """The contrastive loss by photo: which pairs count, and how; the network learns from anchors alone unless asked."""
    given, made = batch(), method(name, kappa=0.7, scope=scope, ns_grad=follows)
    net = made.model
    photos = net.preprocess(given.images)
    generator = seeds.torch_generator("non-semantic negatives", *range(8))
    pictures, counts = made.negatives(given, photos, generator)
    assert counts.tolist() == [name.endswith("_ns") or i != 3 for i in range(8)]
    z, n = net(photos), torch.cat([net(picture[None]) for picture in pictures])
    pairs = [(i, j) for i in range(8) for j in range(8) if counts[j] and (i == j or scope == "all")]
    apart = [(z[i] - (n[j] if follows else n[j].detach())).norm() for i, j in pairs]
    near = [1.5 - d for d in apart if d < 1.5]
    twin = made.base_loss(z, EIGHT) + 0.7 * sum(near) / len(near)
    found = made.loss(given)["loss"]
    assert found.item() == pytest.approx(twin.item(), rel=1e-5)
    expected = gradients(made, twin)
    for key, gradient in gradients(made, made.loss(given)["loss"]).items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6)
    assert made.photos_a_step(made.params, 8) == (16, 16 if follows else 8)
    neutral = method(name, kappa=0.0, ns_grad=follows)
    assert neutral.photos_a_step(neutral.params, 8) == (8, 8)


@pytest.mark.parametrize("name", ["bgneg", "bgneg_rect"])
def test_a_replaced_background_is_the_negative_itself(name: str) -> None:
    given, made = batch(), method(name)
    made.replaces_backgrounds = True
    assert given.masks is not None
    assert given.backgrounds is not None
    given.masks[5] = 0  # a crop beside its object is a background already
    seen = made.photos(given)
    mixed = blend_batch(given.images, given.masks, given.backgrounds)
    torch.testing.assert_close(seen, made.model.preprocess(mixed))
    pictures, counts = made.negatives(given, seen, seeds.torch_generator("unused"))
    assert torch.equal(pictures, made.model.preprocess(given.backgrounds))
    assert counts.tolist() == [i not in (3, 5) for i in range(8)]


def test_a_loss_that_knows_no_such_negatives_is_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["losses"]["quadruplet"] = {"default": CUB["quadruplet"]}
    raw["grids"]["small"]["cells"][0] |= {"methods": ["patch_ns"], "losses": ["quadruplet"]}
    words = "to the loss 'quadruplet' nobody said.*contrastive.*repulsions/quadruplet.py"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))


def test_textures_are_made_once_and_come_in_their_photos_crops(tmp_path: Path, raw: dict[str, Any]) -> None:
    names = ("texture_ns", "texture_ns+bgaugment")
    raw["grids"]["small"]["cells"][0] |= {"methods": list(names), "losses": ["contrastive"]}
    study = load(tmp_path, raw)
    data_nodes(study)
    album = Album(study, "squares", 36, 32, backbone="pixels")
    photos = album.training(frozenset({"textures"}))
    parts = [(RelativeBox(0.1, 0.2, 0.5, 0.4), False), (RelativeBox(0.0, 0.0, 1.0, 1.0), True)]
    batch = photos.crop(np.array([3, 0]), parts, [])
    assert batch.textures is not None
    for row, (box, flip), made in zip((3, 0), parts, batch.textures, strict=True):
        quilt = texture(album._photos.get(photos.table.ids[row]))
        assert np.array_equal(made.permute(1, 2, 0).numpy(), pixels.crop(quilt, box, 32, flip))

    store = ImageStore(study.files.at("textures", dataset="squares", backbone="pixels"))
    assert set(store.ids) == {*album.table("train").ids, *album.table("val").ids}
    cell = Cell("squares", "pixels", "contrastive", names[1], 0)
    run(study, cell, "train")
    nodes = step("train", cell=cell), step("textures", dataset="squares", backbone="pixels")
    assert nodes[1] in graph.reads_from(study, nodes[0])
    # Another way to quilt concerns whoever trains on textures, through them, and nobody else.
    assert ["images/quilting.py" in code.modules(*graph.modules(study, n)) for n in nodes] == [False, True]


# Pictures made of windows.


def places(count: int, side: int) -> torch.Tensor:
    """Of which every pixel tells where it was."""
    return torch.arange(count * 2 * side * side, dtype=torch.float64).view(count, 2, side, side)


@pytest.mark.parametrize(("side", "window"), [(12, 5), (12, 4), (9, 9)])
def test_tiles_are_windows_from_left_to_right_and_down(side: int, window: int) -> None:
    (photo,), count = places(1, side), side // window + 1
    drawn = np.random.default_rng(side)
    tops, lefts = (torch.from_numpy(drawn.integers(0, side - window + 1, (count, count))) for _ in range(2))
    rows = [
        torch.cat([photo[:, y : y + window, x : x + window] for y, x in zip(*line, strict=True)], 2)
        for line in zip(tops.tolist(), lefts.tolist(), strict=True)
    ]
    made = patch_negatives.tile(photo[None], [window], [tops], [lefts])
    assert torch.equal(made[0], torch.cat(rows, 1)[:, :side, :side])


def test_each_photo_has_windows_of_its_own_from_everywhere() -> None:
    side = 32
    given = places(200, side)
    made = patch_negatives.patches(given, 16, 72, seeds.torch_generator("patches"))
    first = made[:, 0].reshape(200, -1) - given[:, 0, 0, 0].view(-1, 1)
    assert (first >= 0).all()
    assert (first < side * side).all()  # of the own photo
    runs = [1 + int(np.flatnonzero(np.diff(row[:side]) != 1)[0]) for row in first.numpy()]
    assert {min(runs), max(runs)} == {2, 10}  # 16 and 72 of 224
    corners = first[:, 0].long()
    assert corners.min() < side
    assert (corners % side).min() == 0


def test_objects_are_grown_boxed_and_blurred_as_scipy_does() -> None:
    side, reach, sigma = 64, 2, 2 * 64 / 224  # 7 and 2 pixels of 224
    drawn = np.random.default_rng(1)
    given = np.stack([scipy.ndimage.gaussian_filter(drawn.random((side, side)), 3) for _ in range(6)])
    given = (given - given.min()) / (given.max() - given.min())
    given = torch.from_numpy(given * (given > 0.6))[:, None]
    grown = patch_negatives.dilate(given)
    shapes = (given, grown, patch_negatives.boxes(grown), patch_negatives.blur(grown))
    for mask, found, box, soft in zip(*shapes, strict=True):
        away = scipy.ndimage.distance_transform_edt(mask[0].numpy() <= 0.5)
        assert np.array_equal(found[0].numpy(), (away <= reach).astype(float))
        ((rows, columns),) = scipy.ndimage.find_objects((found[0].numpy() > 0).astype(int))
        filled = np.zeros((side, side))
        filled[rows, columns] = 1
        assert np.array_equal(box[0].numpy(), filled)
        twin = scipy.ndimage.gaussian_filter(found[0].numpy(), sigma, mode="nearest", radius=2)
        np.testing.assert_allclose(soft[0].numpy(), twin, atol=1e-12)
    assert not patch_negatives.boxes(torch.zeros(1, 1, 8, 8)).any()


@pytest.mark.parametrize("name", ["bgneg", "bgneg_rect"])
def test_what_covers_an_object_shows_its_surroundings(name: str) -> None:
    side, given = 64, torch.zeros(4, 1, 64, 64)  # the last crop shows no object
    given[0, 0, 20:30, 24:40] = given[0, 0, 20:40, 24:27] = 1  # an L with room around it
    given[1] = 1  # nothing but object
    given[2, 0, :, 3:] = 1  # a stripe of background, too narrow for any window beside the grown object
    grass = torch.rand(4, 1, side, side, generator=seeds.torch_generator("grass"))
    level = torch.where(given > 0.5, 100.0, grass)
    shown = Batch(level, EIGHT[:4], EIGHT[:4], given)
    made, counts = method(name).negatives(shown, level, seeds.torch_generator("cover"))
    assert counts.tolist() == [True, False, False, False]
    assert torch.equal(made[3], level[3])
    # A window shows a twentieth of object at most; what is covered was 100 all over.
    assert (made[0][given[0] == 1] < 1.01).float().mean() > 0.9
    beside = torch.ones(side, side, dtype=torch.bool)
    beside[10:50, 14:50] = False
    assert torch.equal(made[0, 0][beside], level[0, 0][beside])
    # The box hides more than the outline: the corner, which is none of the object.
    hidden = (made[0, 0, 34:40, 31:40] != level[0, 0, 34:40, 31:40]).float().mean()
    assert hidden > 0.8 if name == "bgneg_rect" else hidden == 0


def test_windows_get_smaller_until_they_fit_beside_the_object() -> None:
    given = torch.ones(1, 1, 224, 224)
    given[..., :24] = 0  # 17 columns are left beside the grown object, and windows of 40 do not fit
    level = given * 100
    made, counts = patch_negatives.cover_objects(level, given, 40, 48, False, seeds.torch_generator("narrow"))
    assert counts.tolist() == [True]
    assert made[..., 30:].max() < 60
