"""Attacks: naive twins, and what an attack must leave as it is (docs/methods.md, section 8)."""

from collections import Counter

import numpy as np
import pytest
import torch
from fitting import model
from in_memory import Pictures, hash_number, table
from torch import Tensor

from bgbias import attacks, seeds
from bgbias.attacks import Strength
from bgbias.errors import UserError
from bgbias.evaluation.attack_eval import embed_attacked
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import embed_views
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import How

pytestmark = pytest.mark.usefixtures("small_plugins")


def embed(net: EmbeddingModel) -> attacks.Embed:
    return lambda x: net(net.preprocess(x))


def naive(net: EmbeddingModel, shown: Tensor, goal: Tensor, strength: Strength) -> Tensor:
    """One photo after the other: the released reduction alone needs the whole batch, and has the same signs."""
    net.eval()
    std = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64).view(3, 1, 1)
    noise = 2 * torch.rand(shown.shape, generator=seeds.torch_generator("noise"), dtype=shown.dtype) - 1
    made, reach = [], 255 * strength.epsilon * std
    for photo, drawn, targets in zip(shown, noise, goal, strict=True):
        low, high = (photo - reach).clamp(min=0), (photo + reach).clamp(max=255)
        x = (photo + 255 * strength.noise * std * drawn).clamp(low, high)
        for _ in range(strength.steps):
            leaf = x.clone().requires_grad_()
            # As a network with these facts normalises: grey levels / 127.5 - 1.
            apart = (net(leaf[None] / 127.5 - 1)[0] - targets).square().sum(1)
            apart = apart if strength.l2_reduction == "squared" else apart.sqrt()
            (slope,) = torch.autograd.grad(apart.sum(), leaf)
            x = (x - reach / strength.steps * slope.sign()).clamp(low, high)
        made.append(x)
    return torch.stack(made)


@pytest.mark.parametrize("noise", [5e-4, 0.2], ids=["little noise", "more noise than epsilon"])
@pytest.mark.parametrize("reduction", ["squared", "l2", "released"])
@pytest.mark.parametrize("attack", ["stax", "mtax:2", "mtax:3"])
def test_attack_agrees_with_its_twin_and_moves_no_model(attack: str, reduction: str, noise: float) -> None:
    """The twin sees photo by photo, so that batches change nothing, and ends each step within epsilon and the range. Neither
    weights nor statistics nor modes move, and no gradient is left behind; a frozen norm in a training model stays so.
    """
    net, generator = model(frozen=False).double(), seeds.torch_generator("attacked photos")
    net.trunk[1].train(noise > 0.1)
    state, modes = {k: v.clone() for k, v in net.state_dict().items()}, [m.training for m in net.modules()]
    # Some pixels are black or white, where the range ends.
    shown = (300 * torch.rand(2, 3, 8, 8, generator=generator, dtype=torch.float64) - 20).clamp(0, 255)
    goal = torch.randn(2, attacks.targets(attack), net.dim, generator=generator, dtype=torch.float64)
    goal = torch.nn.functional.normalize(goal, dim=2)
    strength = Strength(epsilon=0.05, steps=3, l2_reduction=reduction, noise=noise)  # type: ignore[arg-type]
    begin = attacks.start(shown, noise, attacks.uniform(shown, seeds.torch_generator("noise")))
    with attacks.evaluating(net):
        found = attacks.attack(embed(net), shown, goal, attack, strength, begin)
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not shown.requires_grad
    torch.testing.assert_close(found, naive(net, shown, goal, strength))
    assert ((found - shown).abs() <= attacks.grey_levels(0.05, shown) + 1e-9).all()
    assert not torch.equal(found, shown)


def test_names_that_are_no_attacks_are_refused() -> None:
    for name, said in (
        ("mtax:1", "'mtax:1' in attacks: write a number of targets of 2 or more"),
        ("mtax", "needs the number of targets behind a colon"),
        ("stax:3", "'stax' takes nothing behind a colon"),
    ):
        with pytest.raises(UserError, match=said):
            attacks.targets(name)


# Targets: of other classes, no two alike, the same for every model (section 8).
LABELS = [0, 0, 1, 1, 1, 2, 3, 3]


def test_targets_of_a_batch_are_of_other_classes_each_and_all_alike_likely() -> None:
    """The first is any photo of another class, not any class: of six photos, each in a sixth of the draws."""
    labels, first = torch.tensor(LABELS), Counter[int]()
    for n in range(1200):
        found = attacks.targets_of_batch(labels, 3, seeds.torch_generator("t", n))
        first[int(found[0, 0])] += 1
        rows = torch.cat((torch.arange(8)[:, None], found), 1)
        assert all(len({*row}) == 4 for row in labels[rows].tolist())
    assert set(first) == set(range(2, 8))
    # Six standard deviations of a binomial count.
    assert all(abs(n - 200) < 6 * (1200 * 5 / 36) ** 0.5 for n in first.values())
    with pytest.raises(UserError, match="4 targets needs photos of 5 classes in a batch; this one has 4"):
        attacks.targets_of_batch(labels, 4, seeds.torch_generator("t"))


@pytest.mark.parametrize("count", [3, 1])
def test_targets_of_photos_agree_with_a_naive_twin(count: int) -> None:
    items = [f"{n}.jpg" for n in range(8)]
    found = attacks.targets_of_photos(np.array(LABELS), [("toys|test", i) for i in items], count)
    assert found.shape == (8, count)
    for label, item, row in zip(LABELS, items, found.tolist(), strict=True):
        seen = {label}
        for number, chosen in enumerate(row):
            left = [r for r, other in enumerate(LABELS) if other not in seen]
            assert chosen == left[hash_number(f"toys|test|attack|0|{item}|{number}") % len(left)]
            seen.add(LABELS[chosen])
    with pytest.raises(UserError, match="1 target needs photos of 2 classes; there are photos of 1"):
        attacks.targets_of_photos(np.zeros(3, int), [("toys|test", n) for n in range(3)], 1)


@pytest.mark.parametrize("attack", ["stax", "mtax:2"])
def test_test_photos_are_attacked_one_by_one_by_their_names(attack: str) -> None:
    """A pixel that lies beside a kink of the network may go either way, with what float32 rounds."""
    pictures = seeds.generator("attacked").integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    named = {str(n): picture for n, picture in enumerate(pictures)}
    labels = dict(zip(named, LABELS, strict=True))
    shown = EvaluationPhotos(table(labels), Pictures(named), 32)  # type: ignore[arg-type]
    net, strength = model().eval(), Strength(epsilon=0.1, steps=3)
    clean = embed_views(net, shown.views([("clean", 0)]))
    found = embed_attacked(net, shown, clean, attack, strength, How(batch_size=3))
    rows = attacks.targets_of_photos(shown.table.labels, shown.table.keys, attacks.targets(attack))
    for row, (key_set, item) in enumerate(shown.table.keys):
        photo = torch.from_numpy(shown.clean(str(row))).permute(2, 0, 1).float()[None]
        drawn = attacks.uniform(photo, seeds.torch_generator("attack noise", key_set, 0, item))
        goal = torch.from_numpy(clean[rows[row]])[None]
        begin = attacks.start(photo, strength.noise, drawn)
        moved = attacks.attack(embed(net), photo, goal, attack, strength, begin)
        np.testing.assert_allclose(found[row], embed(net)(moved)[0].detach(), atol=2e-4)
    assert not np.allclose(found, clean, atol=1e-2)
    assert embed_attacked(net, shown, clean, attack, Strength(epsilon=0.0)) is clean
