"""Methods with negatives of no class: a naive twin, what they show the network, what they refuse (docs/methods.md, section 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fitting import CUB, EIGHT, batch, gradients, method
from small_study import data_nodes, described, load, run

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

pytestmark = pytest.mark.usefixtures("small_plugins")
METHODS = ("patch_ns", "texture_ns", "bgneg", "bgneg_rect")


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("scope", ["own", "all"])
@pytest.mark.parametrize("name", METHODS)
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
    torch.testing.assert_close(
        seen, made.model.preprocess(blend_batch(given.images, given.masks, given.backgrounds))
    )
    pictures, counts = made.negatives(given, seen, seeds.torch_generator("unused"))
    assert torch.equal(pictures, made.model.preprocess(given.backgrounds))
    assert counts.tolist() == [i not in (3, 5) for i in range(8)]


def test_the_box_hides_more_than_the_outline() -> None:
    given = batch()
    assert given.masks is not None
    given.masks[:, :, 4:8, 6:13] = 0  # an L
    changed = []
    for name in ("bgneg", "bgneg_rect"):
        made, _ = method(name).negatives(given, given.images.float(), seeds.torch_generator("one"))
        differs = (made != given.images).any(1)
        changed.append(differs[:3, 4:6, 6:10].float().mean().item())  # in the corner, which is none of it
    assert changed[0] < 0.01
    assert changed[1] > 0.8


@pytest.mark.parametrize(
    ("loss", "options", "words"),
    [
        ("quadruplet", {}, "to the loss 'quadruplet' nobody said.*contrastive.*repulsions/quadruplet.py"),
        ("contrastive", {"alpha": 2}, "methods.away.alpha is 2.0, but 'contrastive' compares distances"),
        ("contrastive", {"kappa": -1}, "methods.away.kappa"),
    ],
)
def test_what_says_nothing_is_refused_when_planning(
    tmp_path: Path, loss: str, options: dict[str, Any], words: str
) -> None:
    raw = described(tmp_path)
    raw["methods"] = {"away": {"kind": "patch_ns", **options}}
    raw["losses"][loss] = {"default": CUB[loss]}
    raw["grids"]["small"]["cells"][0] |= {"methods": ["away"], "losses": [loss]}
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))


def test_textures_are_made_once_and_come_in_their_photos_crops(tmp_path: Path) -> None:
    raw = described(tmp_path)
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
