"""Pretraining without labels: golden values, naive twins, and torchvision's own changes of colour."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import model, same, weights
from torch import Tensor, nn
from torchvision.transforms import functional

from bgbias import plugins, seeds
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.pretraining import _colours, byol, moco_v2
from bgbias.training.pretraining.moco_v2 import info_nce

pytestmark = pytest.mark.usefixtures("small_plugins")
KINDS = ("moco_v2", "byol")
NEGATIVES = ("patches", "textures", "surroundings", "boxes")
SIDE, PHOTOS, STEPS = 32, 6, 5
QUICK = {"epochs": 4, "batch_size": 4, "lr": 0.05, "dim": 5, "hidden": 7}


def batch(number: int = 0) -> Batch:
    """Two views each of some photos; the object is in the middle, of the last photo everywhere."""
    generator = seeds.torch_generator("views", number)
    photos, quilts = torch.randint(
        256, (2, 2 * PHOTOS, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8
    )
    masks = torch.zeros(2 * PHOTOS, 1, SIDE, SIDE)
    masks[:, :, 8:20, 6:22] = 1
    masks[PHOTOS - 1 :: PHOTOS] = 1
    index = torch.arange(PHOTOS).repeat(2)
    return Batch(photos, index, index, masks, None, quilts)


def pretraining(kind: str, seed: int = 0, **options: Any) -> Any:
    module = plugins.load("pretraining", kind)
    made = module.Pretraining(model(seed, False), module.Params(**QUICK | options), ("squares", 0), STEPS)
    made.start_epoch(1, lambda *_: iter(()))
    return made


def test_golden_values_of_both_losses() -> None:
    """Of METHODS' independent arithmetic."""
    p, q, f = torch.tensor([0.8]), torch.tensor([[0.1, -0.2]]), torch.tensor([0.3])
    assert info_nce(p, q, 0.2).item() == pytest.approx(0.03627, abs=5e-6)
    for alpha, expected in ((1, 0.112454), (2, 0.339905), (3, 0.987925)):
        assert info_nce(p, q, 0.2, f, alpha).item() == pytest.approx(expected, abs=5e-6)
    assert info_nce(p, q, 0.2, -f, 2).item() == pytest.approx(0.037149, abs=5e-6)
    assert byol.distance(p, f, 0.05).item() == pytest.approx(0.33, abs=1e-6)
    assert byol.distance(p).item() == pytest.approx(0.4, abs=1e-6)
    none = torch.tensor([-math.inf])
    assert info_nce(p, q, 0.2, none, 2).item() == info_nce(p, q, 0.2).item()


def test_colours_change_as_torchvision_changes_them_one_by_one() -> None:
    """A naive twin, picture by picture, of all that may be drawn: four changes in their order, then grey and blur."""
    params, generator = moco_v2.Params(**QUICK), seeds.torch_generator("colours")
    photos = torch.randint(256, (40, 3, 56, 56), generator=generator, dtype=torch.uint8)
    photos[0] = 77  # grey: it has no hue
    drawn = _colours.draw(40, params, 56, generator)
    for share, wanted in ((drawn.jittered, 0.8), (drawn.grey, 0.2), (drawn.blur > 0, 0.5)):
        assert abs(share.float().mean().item() - wanted) < 0.25
    assert 0 < drawn.blur[drawn.blur > 0].min() < drawn.blur.max() <= 2.0 * 56 / 224
    changes = (
        functional.adjust_brightness,
        functional.adjust_contrast,
        functional.adjust_saturation,
        functional.adjust_hue,
    )
    for number, found in enumerate(_colours.change_colours(photos, drawn) / 255):
        x = photos[number].float() / 255
        for kind in drawn.order[number].tolist() if drawn.jittered[number] else ():
            x = changes[kind](x, float(drawn.factors[number, kind]))
        x = functional.rgb_to_grayscale(x, 3) if drawn.grey[number] else x
        if sigma := float(drawn.blur[number]):
            x = functional.gaussian_blur(x, 2 * drawn.reach + 1, sigma)
        torch.testing.assert_close(found, x, atol=5e-6, rtol=0)


def test_the_same_is_drawn_in_the_same_step_and_another_in_the_next() -> None:
    made, again = pretraining("moco_v2"), pretraining("byol")
    first, *_ = made.views(batch())
    assert torch.equal(first, again.views(batch())[0])  # whatever the pretraining is
    assert not torch.equal(first, made.views(batch())[0])
    made.start_epoch(2, lambda *_: iter(()))
    assert not torch.equal(first, made.views(batch())[0])
    made.start_epoch(1, lambda *_: iter(()))
    assert torch.equal(first, made.views(batch())[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_what_negatives_are_made_of(kind: str, negatives: str) -> None:
    made = pretraining(kind, negatives=negatives)
    seen, pictures, counts = made.views(batch())
    asked = {"moco_v2": PHOTOS, "byol": 2 * PHOTOS}[kind]  # views that the network sees
    assert seen.shape == (2 * PHOTOS, 3, SIDE, SIDE)
    assert pictures.shape == (asked, 3, SIDE, SIDE)
    whole = torch.arange(asked) % PHOTOS == PHOTOS - 1
    assert torch.equal(~counts, whole if negatives in ("surroundings", "boxes") else torch.zeros_like(whole))
    if negatives == "patches":
        assert set(pictures[0].flatten().tolist()) <= set(seen[0].flatten().tolist())
    elif negatives == "textures":
        # Seen as the photo is.
        twin = pretraining(kind, negatives=negatives)
        given = batch()
        shown, *_ = twin.views(Batch(given.textures, given.labels, given.index, None, None, given.textures))
        assert torch.equal(pictures, shown[:asked])
    else:
        outside = torch.ones(SIDE, SIDE, dtype=torch.bool)
        outside[2:26, 0:28] = False  # beyond the object, its rim and the blur around it
        torch.testing.assert_close(pictures[0][:, outside], seen[0][:, outside], atol=1e-5, rtol=0)
        assert not torch.allclose(pictures[0][:, 10:18, 10:18], seen[0][:, 10:18, 10:18])


class Twin:
    """What a pretraining is, in plain loops: a network, a head, a teacher, one photo after the other where that can be."""

    def __init__(self, made: Any) -> None:
        self.trunk, self.heads = copy.deepcopy(made.model.trunk), copy.deepcopy(made.heads)
        self.slow = copy.deepcopy(nn.ModuleList([made.model.trunk, made.heads["projector"]]))

    def assert_alike(self, made: Any) -> None:
        ours = (made.model.trunk, made.heads, made.teacher["trunk"], made.teacher["head"])
        for one, other in zip(ours, (self.trunk, self.heads, *self.slow), strict=True):
            for a, b in zip(one.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)

    def online(self, x: Tensor) -> Tensor:
        return self.heads["projector"](self.trunk(x).mean(3).mean(2))

    def taught(self, x: Tensor) -> Tensor:
        found = self.slow[1](self.slow[0](x).mean(3).mean(2)).detach()
        return found / found.norm(dim=1, keepdim=True)

    def follow(self, keep: float) -> None:
        ahead = [*self.trunk.named_parameters(), *self.heads["projector"].named_parameters()]
        behind = [*self.slow[0].named_parameters(), *self.slow[1].named_parameters()]
        for (name, new), (other, old) in zip(ahead, behind, strict=True):
            assert name == other
            old.data = keep * old.data + (1 - keep) * new.data


def steps_of(trunk: nn.Module, heads: nn.Module) -> Callable[[Tensor], float]:
    """What learns from a loss; the loss."""
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)

    def learn(loss: Tensor) -> float:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return learn


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.norm() * b.norm())


@pytest.mark.parametrize("negatives", ["none", "patches", "surroundings"])
def test_moco_is_what_plain_loops_make_it(negatives: str) -> None:
    """Three steps: the order of the queue, the teacher's moving mean, and what learns."""
    options = {"queue": 10, "keep": 0.9, "negatives": negatives, "alpha": 2.0, "temperature": 0.3}
    made, views = pretraining("moco_v2", **options), pretraining("moco_v2", **options)
    twin, queue = Twin(made), list[Tensor]()
    learn, learn_twin = steps_of(made.model.trunk, made.heads), steps_of(twin.trunk, twin.heads)
    for number in range(3):
        found = learn(made.loss(batch(number))["loss"])
        seen, pictures, counts = views.views(batch(number))
        asked = twin.online(seen[:PHOTOS])
        twin.follow(0.9)
        others = twin.taught(seen[PHOTOS:])
        further = twin.taught(pictures) if negatives != "none" else None
        losses = []
        for n in range(PHOTOS):
            top = torch.exp(cosine(asked[n], others[n]) / 0.3)
            below = top + sum(torch.exp(cosine(asked[n], entry) / 0.3) for entry in queue)
            if further is not None and counts[n]:
                below = below + torch.exp(2.0 * cosine(asked[n], further[n]) / 0.3)
            losses.append(-torch.log(top / below))
        assert found == pytest.approx(learn_twin(sum(losses) / PHOTOS), abs=1e-5)
        queue = (queue + list(others))[-10:]
    # Of 18 views the last 10, the ninth in the first place.
    torch.testing.assert_close(made._read_queue().roll(-8, 0), torch.stack(queue), atol=1e-5, rtol=0)
    twin.assert_alike(made)


@pytest.mark.parametrize("negatives", ["none", "patches", "surroundings"])
def test_byol_is_what_plain_loops_make_it(negatives: str) -> None:
    options = {"keep": 0.8, "negatives": negatives, "alpha": 0.3}
    made, views = pretraining("byol", **options), pretraining("byol", **options)
    twin = Twin(made)
    learn, learn_twin = steps_of(made.model.trunk, made.heads), steps_of(twin.trunk, twin.heads)
    for number in range(3):
        found = learn(made.loss(batch(number))["loss"])
        seen, pictures, counts = views.views(batch(number))
        twin.follow(1 - 0.2 * (math.cos(math.pi * number / STEPS) + 1) / 2)
        foretold = twin.heads["predictor"](twin.online(seen))
        taught = twin.taught(seen)
        further = twin.taught(pictures) if negatives != "none" else None
        expected = torch.zeros(())
        for n in range(2 * PHOTOS):
            z = foretold[n] / foretold[n].norm()
            expected = expected + (z - taught[(n + PHOTOS) % (2 * PHOTOS)]).square().sum() / PHOTOS
            if further is not None and counts[n]:
                expected = expected - 0.3 * (z - further[n]).square().sum() / PHOTOS
        assert found == pytest.approx(learn_twin(expected), abs=1e-5)
    twin.assert_alike(made)
    assert not any(p.requires_grad for p in made.teacher.parameters())


@pytest.mark.parametrize("negatives", ["textures", "boxes"])
def test_what_is_seen_does_not_depend_on_what_the_network_computes_in(negatives: str) -> None:
    plain, mixed = pretraining("moco_v2", negatives=negatives), pretraining("moco_v2", negatives=negatives)
    with torch.autocast("cpu", torch.bfloat16):
        found = mixed.views(batch())
    assert all(torch.equal(a, b) for a, b in zip(plain.views(batch()), found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_that_do_not_count_leave_no_trace(kind: str) -> None:
    bare, without, with_some = (
        pretraining(kind, **o) for o in ({}, {"negatives": "patches", "alpha": 0.0}, {"negatives": "patches"})
    )
    assert torch.equal(bare.loss(batch())["loss"], without.loss(batch())["loss"])
    counts = [made.photos_a_step(made.params, 10) for made in (bare, without, with_some)]
    assert counts[0] == counts[1] < counts[2]


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_pretraining_ends_as_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"negatives": "surroundings"} | ({"queue": 7} if kind == "moco_v2" else {})

    def learn(name: str, epochs: int, seed: int = 0) -> dict[str, Tensor]:
        made = pretraining(kind, seed, **options)
        settings = made.params.as_training(8).model_copy(
            update={"max_epochs": epochs, "schedule": "constant"}
        )
        paths = tmp_path / f"{name}.pt", tmp_path / f"{name}.csv"
        loop.fit(made, lambda e: map(batch, (2 * e, 2 * e + 1)), lambda _: {}, "", settings, *paths, name)
        return weights(made)

    whole = learn("whole", 4)
    learn("broken", 2)
    torch.manual_seed(99)
    assert same(learn("broken", 4, seed=1), whole)
