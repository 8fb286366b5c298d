"""Attacks: golden values, naive twins, and what an attack must leave as it is (docs/methods.md, sections 8 and 11, G10)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from fitting import model
from pydantic import ValidationError
from torch import Tensor

from bgbias import attacks, plugins, seeds
from bgbias.attacks import Strength
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel

pytestmark = pytest.mark.usefixtures("small_plugins")

NAMES = ("stax", "mtax:2", "mtax:3")
REDUCTIONS = ("squared", "l2", "released")


def network() -> EmbeddingModel:
    """In double precision, with batch norms that have seen something and learn in training."""
    net = model().double()
    net.freeze_batch_norm = False
    net.train()(torch.randn(8, 3, 32, 32, generator=seeds.torch_generator("seen"), dtype=torch.float64))
    return net


def photos(count: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    """Grey levels; some pixels black or white, where the range ends."""
    drawn = torch.rand(count, 3, 32, 32, generator=seeds.torch_generator("attacked photos"), dtype=dtype)
    return (300 * drawn - 20).clamp(0, 255)


def embed(net: EmbeddingModel) -> attacks.Embed:
    return lambda x: net(net.preprocess(x))


def aims(net: EmbeddingModel, count: int, number: int) -> Tensor:
    drawn = torch.randn(count, number, net.dim, generator=seeds.torch_generator("aims"), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn, dim=2)


def run(net: EmbeddingModel, attack: str, shown: Tensor, goal: Tensor, **options: Any) -> Tensor:
    strength = Strength(**options)
    begin = attacks.start(shown, strength.noise, attacks.uniform(shown, seeds.torch_generator("noise")))
    with attacks.evaluating(net):
        return attacks.attack(embed(net), shown, goal, attack, strength, begin)


def naive(net: EmbeddingModel, shown: Tensor, goal: Tensor, options: Any) -> Tensor:
    """One photo, one pixel, one step at a time; the released reduction is the only one that needs the whole batch."""
    net.eval()
    strength = Strength(**options)
    noise = 2 * torch.rand(shown.shape, generator=seeds.torch_generator("noise"), dtype=shown.dtype) - 1
    reach = [255 * strength.epsilon * s for s in (0.229, 0.224, 0.225)]
    x = shown.clone()
    for i, c, h, w in torch.cartesian_prod(*(torch.arange(n) for n in shown.shape)).tolist():
        moved = shown[i, c, h, w] + 255 * strength.noise * (0.229, 0.224, 0.225)[c] * noise[i, c, h, w]
        x[i, c, h, w] = inside(float(moved), float(shown[i, c, h, w]), reach[c])
    for _ in range(strength.steps):
        slopes = []
        for i in range(len(x)):
            leaf = x[i : i + 1].clone().requires_grad_()
            # As a network with these facts normalises: grey levels / 127.5 - 1.
            embedding = net(leaf / 127.5 - 1)[0]
            total = torch.zeros((), dtype=torch.float64)
            for target in goal[i]:
                square = sum(((a - b) ** 2 for a, b in zip(embedding, target, strict=True)), torch.zeros(()))
                total = total + (square if strength.l2_reduction == "squared" else square.sqrt())
            slopes.append(torch.autograd.grad(total / len(goal[i]), leaf)[0][0])
        for i, c, h, w in torch.cartesian_prod(*(torch.arange(n) for n in shown.shape)).tolist():
            slope = float(slopes[i][c, h, w])
            step = reach[c] / strength.steps * (math.copysign(1, slope) if slope else 0)
            x[i, c, h, w] = inside(float(x[i, c, h, w]) - step, float(shown[i, c, h, w]), reach[c])
    return x


def inside(value: float, photo: float, reach: float) -> float:
    return min(max(value, photo - reach, 0.0), photo + reach, 255.0)


def test_golden_epsilon_in_grey_levels() -> None:
    levels = attacks.grey_levels(0.01, torch.zeros((), dtype=torch.float64))
    assert levels.flatten().tolist() == pytest.approx([0.584, 0.5712, 0.5738], abs=5e-5)


@pytest.mark.parametrize(
    ("reduction", "value", "slope"),
    [
        ("squared", 3.666667, (-2.0, -1.333333)),
        ("l2", 1.666667, (-0.333333, -0.666667)),
        # The square of a mean: twice the mean times its gradient.
        ("released", 2.777778, (-1.111111, -2.222222)),
    ],
)
def test_golden_objectives(reduction: str, value: float, slope: tuple[float, float]) -> None:
    f = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    goal = torch.tensor([[[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]]], dtype=torch.float64)
    found = plugins.load("attacks", "mtax:3").objective(f, goal, reduction)
    assert found.item() == pytest.approx(value, abs=5e-7)
    assert torch.autograd.grad(found, f)[0][0].tolist() == pytest.approx(slope, abs=5e-7)


def test_golden_step() -> None:
    # A grey level higher: all lies in the range of photos.
    x = 1 + torch.tensor([0.5, -0.2], dtype=torch.float64)
    begin = x + torch.tensor([0.0003, -0.0004], dtype=torch.float64)
    slope = torch.tensor([2.0, -1.0], dtype=torch.float64)
    epsilon = torch.tensor(0.01, dtype=torch.float64)
    found = attacks.descend(lambda y: (slope * y).sum(), x, begin, epsilon, steps=1)
    assert found.tolist() == pytest.approx([1.4903, 0.8096], abs=1e-12)


@pytest.mark.parametrize("noise", [5e-4, 0.2], ids=["little noise", "more noise than epsilon"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("attack", NAMES)
def test_attack_agrees_with_its_naive_twin(attack: str, reduction: str, noise: float) -> None:
    """Which sees photo by photo, so that batches change nothing, and ends each step within epsilon and the range."""
    net, shown = network(), photos(2)[:, :, :8, :8].contiguous()
    options = {"epsilon": 0.05, "steps": 3, "l2_reduction": reduction, "noise": noise}
    goal = aims(net, 2, attacks.targets(attack))
    found = run(net, attack, shown, goal, **options)
    torch.testing.assert_close(found, naive(net, shown, goal, options))
    assert ((found - shown).abs() <= attacks.grey_levels(0.05, shown) + 1e-9).all()
    assert not torch.equal(found, shown)


@pytest.mark.parametrize("attack", NAMES)
def test_photos_come_closer_to_their_targets_with_more_strength(attack: str) -> None:
    net, shown = network(), photos()
    goal = aims(net, 3, attacks.targets(attack))

    def apart(x: Tensor) -> float:
        with attacks.evaluating(net), torch.no_grad():
            return float(plugins.load("attacks", attack).objective(embed(net)(x), goal, "squared"))

    reached = [apart(run(net, attack, shown, goal, epsilon=e, steps=20)) for e in (0.0, 0.01, 0.1, 1.0)]
    assert torch.equal(run(net, attack, shown, goal, epsilon=0.0, steps=4), shown)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < 0.9 * reached[0]


@pytest.mark.parametrize("training", [True, False])
def test_nothing_of_the_model_moves(training: bool) -> None:
    """Neither weights nor statistics nor modes, and no gradient is left behind; a frozen norm in a training model stays so."""
    net = network().train(training)
    frozen = net.trunk[1]
    frozen.train(False)
    state = {k: v.clone() for k, v in net.state_dict().items()}
    modes = [m.training for m in net.modules()]
    shown, passes = photos(), list[int]()
    net.trunk.register_forward_hook(lambda _, given, __: passes.append(len(given[0])))
    run(net, "mtax:2", shown, aims(net, 3, 2), steps=3)
    assert passes == [3] * 3, "a step is one pass forward"
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not shown.requires_grad
    with pytest.raises(ZeroDivisionError), attacks.evaluating(net):
        raise ZeroDivisionError
    assert [m.training for m in net.modules()] == modes


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mtax:1", "'mtax:1' in attacks: write a number of targets of 2 or more"),
        ("mtax:x", "'mtax:x' in attacks: write a number"),
        ("mtax:-2", "'mtax:-2' in attacks needs the number of targets behind a colon"),
        ("mtax", "needs the number of targets behind a colon"),
        ("max:3", "no 'max:3' in attacks"),
        ("stax:3", "'stax' takes nothing behind a colon"),
    ],
)
def test_names_that_are_no_attacks_are_refused(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        attacks.targets(name)


@pytest.mark.parametrize(
    "wrong", [{"epsilon": -0.1}, {"steps": 0}, {"noise": -1.0}, {"l2_reduction": "l1"}, {"step": 1}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Strength(**wrong)


# Targets: of other classes, no two alike, the same for every model (section 8).
LABELS = [0, 0, 1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_targets_of_a_batch_are_of_other_classes_each(seed: int, count: int) -> None:
    labels = torch.tensor(LABELS)
    found = attacks.targets_of_batch(labels, count, seeds.torch_generator("targets", seed))
    assert found.shape == (8, count)
    for row, chosen in zip(LABELS, labels[found].tolist(), strict=True):
        assert len({row, *chosen}) == 1 + count


def test_targets_of_a_batch_are_all_alike_likely() -> None:
    """The first is any photo of another class, not any class: of six photos, each in a sixth of the draws."""
    drawn = [
        attacks.targets_of_batch(torch.tensor(LABELS), 2, seeds.torch_generator("t", n)) for n in range(1200)
    ]
    first = Counter(int(d[0, 0]) for d in drawn)
    assert set(first) == set(range(2, 8))
    # Six standard deviations of a binomial count.
    assert all(abs(n - 200) < 6 * (1200 * 5 / 36) ** 0.5 for n in first.values())


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("draw", [0, 1])
def test_targets_of_photos_agree_with_a_naive_twin(draw: int, count: int) -> None:
    items = [f"{n}.jpg" for n in range(8)]
    found = attacks.targets_of_photos(np.array(LABELS), [("toys|test", i) for i in items], count, draw)
    for label, item, row in zip(LABELS, items, found.tolist(), strict=True):
        seen = {label}
        for number, chosen in enumerate(row):
            left = [r for r, other in enumerate(LABELS) if other not in seen]
            text = f"toys|test|attack|{draw}|{item}|{number}"
            drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            assert chosen == left[drawn % len(left)]
            seen.add(LABELS[chosen])
    assert found.shape == (8, count)


def test_too_few_classes_are_told() -> None:
    with pytest.raises(UserError, match="4 targets needs photos of 5 classes in a batch; this one has 4"):
        attacks.targets_of_batch(torch.tensor(LABELS), 4, seeds.torch_generator("t"))
    with pytest.raises(UserError, match="1 target needs photos of 2 classes; there are photos of 1"):
        attacks.targets_of_photos(np.zeros(3, int), [("toys|test", n) for n in range(3)], 1, 0)
