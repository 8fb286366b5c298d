"""Methods with negatives of no class: a naive twin, what they show the network, what they refuse (docs/methods.md, section 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fitting import EIGHT, batch, method, model
from known_losses import CUB
from small_study import data_nodes, described, load, run
from torch import Tensor

from bgbias import plugins, seeds
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
METHODS = ("patch_ns", "texture_ns", "bgneg", "bgneg_rect")
PAIRED = ("contrastive", "triplet")  # whose negatives count by distances, which no alpha weighs
SUMMED = ("multi_similarity", "arcface", "cosface", "normalized_softmax")
NEUTRAL = [
    *((loss, {"kappa": 0.0}) for loss in (*PAIRED, *SUMMED)),
    *((loss, {"alpha": 0.0}) for loss in SUMMED),
]


def gradients(made: Any, given: Batch) -> list[Tensor]:
    found = torch.autograd.grad(made.loss(given)["loss"], list(made.model.parameters()), allow_unused=True)
    return [torch.zeros(()) if g is None else g for g in found]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("loss", "neutral"), NEUTRAL)
def test_without_negatives_it_is_the_plain_loss_bit_for_bit(
    name: str, loss: str, neutral: dict[str, float]
) -> None:
    given, made = batch(), method(name, loss, **neutral)
    plain = plugins.load("methods", "plain")
    usual = plain.Method(made.model, made.base_loss, plain.Params())
    assert torch.equal(made.loss(given)["loss"], usual.loss(given)["loss"])
    for ours, theirs in zip(gradients(made, given), gradients(usual, given), strict=True):
        assert torch.equal(ours, theirs)
    assert made.photos_a_step(made.params, 8) == (8, 8)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("scope", ["own", "all"])
def test_naive_twin(name: str, scope: str) -> None:
    """The contrastive loss by photo: which pairs count, and how."""
    given, made = batch(), method(name, kappa=0.7, scope=scope)
    net = made.model
    photos = net.preprocess(given.images)
    generator = seeds.torch_generator("non-semantic negatives", *range(8))
    pictures, counts = made.negatives(given, photos, generator)
    with torch.no_grad():
        z, n = net(photos), [net(picture[None])[0] for picture in pictures]
    pairs = [(i, j) for i in range(8) for j in range(8) if counts[j] and (i == j or scope == "all")]
    apart = [float((z[i] - n[j]).norm()) for i, j in pairs]
    near = [1.5 - d for d in apart if d < 1.5]
    twin = float(made.base_loss(z, EIGHT)) + 0.7 * sum(near) / len(near)
    assert made.loss(given)["loss"].item() == pytest.approx(twin, rel=1e-5)
    assert counts.tolist() == [name.endswith("_ns") or i != 3 for i in range(8)]


@pytest.mark.parametrize("name", METHODS)
def test_the_network_learns_from_anchors_alone_unless_asked(name: str) -> None:
    given = batch()
    still, both = method(name), method(name, ns_grad=True)
    assert torch.equal(still.loss(given)["loss"], both.loss(given)["loss"])
    for made, follows in ((still, False), (both, True)):
        net = made.model
        photos = net.preprocess(given.images)
        pictures, counts = made.negatives(
            given, photos, seeds.torch_generator("non-semantic negatives", *range(8))
        )
        z, n = net(photos), net(pictures)
        apart = (z - (n if follows else n.detach())).norm(dim=1)[counts]
        twin = made.base_loss(z, EIGHT) + (1.5 - apart)[apart < 1.5].mean()
        expected = torch.autograd.grad(twin, list(net.parameters()), allow_unused=True)
        for ours, theirs in zip(gradients(made, given), expected, strict=True):
            torch.testing.assert_close(
                ours, torch.zeros(()) if theirs is None else theirs, rtol=1e-4, atol=1e-6
            )
    pairs = zip(gradients(still, given), gradients(both, given), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)
    assert still.photos_a_step(still.params, 8) == (16, 8)
    assert both.photos_a_step(both.params, 8) == (16, 16)


def test_statistics_are_learned_from_photos_alone() -> None:
    given, made = batch(), method("patch_ns", frozen=False)
    plain = method("patch_ns", frozen=False, kappa=0.0)
    made.loss(given)
    plain.loss(given)
    learned, usual = dict(made.model.named_buffers()), dict(plain.model.named_buffers())
    assert learned.keys() == usual.keys()
    assert all(torch.equal(learned[name], usual[name]) for name in learned)
    fresh = dict(model(False).named_buffers())
    assert any(not torch.equal(learned[name], fresh[name]) for name in learned)


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


def test_patches_are_of_the_photos_as_the_model_sees_them() -> None:
    given, made = batch(), method("patch_ns")
    made.replaces_backgrounds = True
    seen = made.photos(given)
    pictures, _ = made.negatives(given, seen, seeds.torch_generator("seen"))
    assert torch.equal(pictures, patch_negatives.patches(seen, 16, 72, seeds.torch_generator("seen")))


@pytest.mark.parametrize(
    ("loss", "options", "words"),
    [
        ("quadruplet", {}, "to the loss 'quadruplet' nobody said.*contrastive.*repulsions/quadruplet.py"),
        ("contrastive", {"alpha": 2}, "methods.away.alpha is 2.0, but 'contrastive' compares distances"),
        ("contrastive", {"smallest": 80}, "smallest is 80, largest 72: exchange them"),
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
    cells = [Cell("squares", "pixels", "contrastive", name, 0) for name in names]
    for cell in cells:
        assert "textures" in {node.name for node in graph.reads_from(study, step("train", cell=cell))}
        run(study, cell, "train")
    # Another way to quilt concerns whoever trains on textures, through them, and nobody else.
    quilter = step("textures", dataset="squares", backbone="pixels")
    quilted = [
        "images/quilting.py" in code.modules(*n.code(study)) for n in (step("train", cell=cells[0]), quilter)
    ]
    assert quilted == [False, True]
