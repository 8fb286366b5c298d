"""Adversarial training: a naive twin of every loss, and what it leaves as it is (docs/methods.md, sections 8 and 11, G10)."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from adversarial_models import ADVERSARIAL, batch, contrastive, in_double, method, model
from pydantic import ValidationError
from torch import Tensor, nn

from bgbias import attacks, plugins, seeds
from bgbias.compute.device import autocast
from bgbias.errors import UserError
from bgbias.images.composite import blend_batch
from bgbias.models.model import EmbeddingModel
from bgbias.training.methods import Batch
from bgbias.training.methods.plain import Method as Plain

pytestmark = pytest.mark.usefixtures("small_plugins")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("at", {}),
    ("at", {"attacks": ["stax", "mtax:3"], "kappa": 0.5}),
    ("advprop_d", {"steps": 2}),
    ("mdprop", {}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "kappa": 0.3, "epsilon": 0.1}),
    ("at", {"losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2", "mtax:3"], "losses": "joint_half", "l2_reduction": "released"}),
]


def names(made: Any) -> tuple[str, ...]:
    return tuple(made.attacks)


def naive_contrastive(z: list[Tensor], labels: list[int]) -> Tensor:
    """Over ordered pairs, means of what is not 0: margins .2 and .9."""
    terms: dict[bool, list[Tensor]] = {True: [], False: []}
    for i, a in enumerate(z):
        for j, b in enumerate(z):
            if i != j:
                apart = (a - b).pow(2).sum().sqrt()
                excess = apart - 0.2 if labels[i] == labels[j] else 0.9 - apart
                if excess > 0:
                    terms[labels[i] == labels[j]].append(excess)
    return sum((torch.stack(t).mean() for t in terms.values() if t), torch.zeros((), dtype=torch.float64))


def naive(made: Any, given: Batch) -> tuple[Tensor, dict[str, EmbeddingModel]]:
    """A whole network for each batch norm, whose other weights are the same tensors; photos are attacked one by one."""
    net, options, labels = made.model, made.params, given.labels.tolist()
    nets = {"": net}
    for number, name in enumerate(names(made)):
        twin = deepcopy(net)
        twin.trunk[1] = made.norms.sets[number][0] if made.norms else net.trunk[1]
        twin.trunk[0], twin.embedder = net.trunk[0], net.embedder
        nets[name] = twin
    grey = given.images.double()
    parts = {"": list(range(len(labels)))}
    for number, name in enumerate(names(made)):
        share = torch.arange(len(labels)).tensor_split(len(names(made)))[number].tolist()
        parts[name] = share if options.losses == "joint_half" else parts[""]
    shown = {"": grey}
    for name in names(made):
        twin = nets[name].eval()
        count = attacks.targets(name)
        key = (name, *given.index.tolist())
        rows = attacks.targets_of_batch(
            given.labels, count, seeds.torch_generator("attack targets", *key)
        ).tolist()
        chosen = grey[parts[name]]
        generator = seeds.torch_generator("attack noise", *key)
        noise = 2 * torch.rand(chosen.shape, generator=generator, dtype=torch.float64) - 1
        std = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64).view(3, 1, 1)
        reach = 255 * options.epsilon * std
        changed = []
        for place, row in enumerate(parts[name]):
            photo = grey[row]
            goal = [twin(grey[t][None] / 127.5 - 1)[0].detach() for t in rows[row]]
            x = limited(photo + 255 * options.noise * std * noise[place], photo, reach)
            for _ in range(options.steps):
                leaf = x.clone().requires_grad_()
                apart = [(twin(leaf[None] / 127.5 - 1)[0] - e).pow(2).sum() for e in goal]
                if options.l2_reduction != "squared":
                    apart = [a.sqrt() for a in apart]
                (slope,) = torch.autograd.grad(sum(apart, torch.zeros(())), leaf)
                x = limited(x - reach / options.steps * slope.sign(), photo, reach)
            changed.append(x)
        shown[name] = torch.stack(changed)
    for twin in nets.values():
        twin.train()
    if made.norms is None:
        every = nets[""](torch.cat(list(shown.values())) / 127.5 - 1).split([len(x) for x in shown.values()])
        found = dict(zip(shown, every, strict=True))
    else:
        found = {name: nets[name](x / 127.5 - 1) for name, x in shown.items()}
    own = {name: [labels[i] for i in rows] for name, rows in parts.items()}
    if options.losses == "joint_half":
        joined = [z for name in found for z in found[name]]
        return naive_contrastive(joined, [y for name in found for y in own[name]]), nets
    each = {name: naive_contrastive(list(found[name]), own[name]) for name in found}
    total = each[""] + options.kappa * sum(each[n] for n in names(made))
    return total, nets


def limited(x: Tensor, photo: Tensor, reach: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, photo - reach), photo + reach).clamp(0, 255)


def gradients(made: Any) -> dict[str, Tensor]:
    parts = {"model": made.model, **({"norms": made.norms} if made.norms else {})}
    return {f"{n}.{k}": p.grad for n, part in parts.items() for k, p in part.named_parameters()}


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_loss_and_gradient_agree_with_the_naive_twin(
    name: str, options: dict[str, Any], frozen: bool
) -> None:
    kept = {"batch_norm": "frozen" if frozen else "trained"}
    ours, twin = (in_double(method(name, **kept, **options)) for _ in range(2))
    given = batch(size=8)
    found = ours.loss(given)["loss"]
    expected, _ = naive(twin, given)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    found.backward()
    expected.backward()
    for key, gradient in gradients(ours).items():
        torch.testing.assert_close(gradient, gradients(twin)[key], rtol=1e-6, atol=1e-10)
    for (key, ours_buffer), (_, twins) in zip(buffers(ours), buffers(twin), strict=True):
        torch.testing.assert_close(ours_buffer, twins, msg=key)


def buffers(made: Any) -> list[tuple[str, Tensor]]:
    return [(f"{n}.{k}", b) for n, part in made.modules().items() for k, b in part.named_buffers()]


def test_golden_losses_separate_and_joint() -> None:
    """G10g, on what the method calls: one loss each, or one of all."""
    z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]], dtype=torch.float64)
    moved = z + torch.tensor([[0.1, 0.0], [0.0, 0.1], [-0.1, 0.0], [0.0, -0.1]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    for losses, value in (("separate", 0.889551), ("joint_half", 0.481434)):
        made = method("advprop_d", losses=losses)
        maps = iter((z, nn.functional.normalize(moved, dim=1)))
        made.model.pooled_map = lambda _, maps=maps: next(maps)
        made.model.embed_features = lambda features: features
        made.attack_batch = lambda photos, given: ([photos], [torch.arange(4)])
        shown = batch(classes=2)
        given = Batch(shown.images, labels, shown.index)
        assert made.loss(given)["loss"].item() == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize("neutral", [{"epsilon": 0.0}, {"kappa": 0.0}])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_without_attacks_it_is_the_plain_loss_bit_for_bit(name: str, neutral: dict[str, float]) -> None:
    made = method(name, batch_norm="as_train", **neutral)
    plain = Plain(model().train(), contrastive())
    assert torch.equal(made.loss(batch())["loss"], plain.loss(batch())["loss"])
    assert made.modules().keys() == plain.modules().keys()
    assert made.model.auxiliary_norms == ()


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_attacks_move_no_batch_norm_and_leave_no_gradient(name: str) -> None:
    made, given = method(name, batch_norm="trained"), batch()
    before = {k: b.clone() for k, b in buffers(made)}
    made.attack_batch(given.images.float(), given)
    assert all(torch.equal(b, before[k]) for k, b in buffers(made))
    assert all(p.grad is None for part in made.modules().values() for p in part.parameters())
    assert all(m.training for m in made.model.modules())


def test_norms_learn_from_their_own_photos_alone() -> None:
    """Clean photos move the model's own as they do in plain training."""
    made = method("mdprop", attacks=["stax", "mtax:2"], epsilon=1.0)
    start = {k: b.clone() for k, b in buffers(made)}
    made.loss(batch())
    plain = Plain(model(frozen=False).train(), contrastive())
    plain.loss(batch())
    found = dict(made.model.named_buffers())
    assert all(torch.equal(b, found[k]) for k, b in plain.model.named_buffers())
    stax, mtax = (dict(part.named_buffers()) for part in made.norms.sets)
    assert not torch.equal(stax["0.running_mean"], mtax["0.running_mean"])
    assert not torch.equal(stax["0.running_mean"], start["norms.sets.0.0.running_mean"])


def test_frozen_norms_keep_their_statistics() -> None:
    made = method("mdprop", batch_norm="frozen")
    before = {k: b.clone() for k, b in buffers(made)}
    made.loss(batch())["loss"].backward()
    assert all(torch.equal(b, before[k]) for k, b in buffers(made))
    assert all(p.grad is not None for p in made.norms.parameters())


def test_attacks_are_the_same_for_the_same_photos_whatever_was_before() -> None:
    given = batch()
    first = method("at").attack_batch(given.images.float(), given)
    torch.manual_seed(5)
    other = method("at")
    other.loss(batch(3))
    again = other.attack_batch(given.images.float(), given)
    assert torch.equal(first[0][0], again[0][0])


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_attacks_do_not_depend_on_how_photos_lie_in_memory(memory: torch.memory_format) -> None:
    given = batch()
    laid = Batch(given.images.contiguous(memory_format=memory), given.labels, given.index)
    (found,), _ = method("at").attack_batch(laid.images.float(), laid)
    (expected,), _ = method("at").attack_batch(given.images.float(), given)
    assert found.is_contiguous(memory_format=memory)
    torch.testing.assert_close(found.contiguous(), expected)


def test_photos_on_replaced_backgrounds_are_attacked_there() -> None:
    given = batch()
    behind = torch.flip(given.images, (0,))
    masks = torch.zeros(len(given.labels), 1, 32, 32)
    masks[..., 8:24, 8:24] = 1
    whole = Batch(given.images, given.labels, given.index, masks, behind)
    made, seen = method("at"), list[Tensor]()
    made.replaces_backgrounds = True
    attacked = made.attack_batch
    made.attack_batch = lambda photos, given: seen.append(photos) or attacked(photos, given)
    made.loss(whole)
    assert torch.equal(seen[0], blend_batch(given.images, masks, behind))


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_mixed_precision_loses_no_gradient(name: str) -> None:
    """A cache of weights in bfloat16 must not outlive the pass without gradients that embeds the targets."""
    made, exact = (method(name, batch_norm="frozen") for _ in range(2))
    with autocast("cpu", "bf16"):
        found = made.loss(batch())["loss"]
    assert found.dtype == torch.float32
    found.backward()
    exact.loss(batch())["loss"].backward()
    for key, gradient in gradients(made).items():
        whole = gradients(exact)[key]
        assert math.isclose(gradient.norm(), whole.norm(), rel_tol=0.2), key


@pytest.mark.parametrize("name", ["advprop_d", "mdprop", "st_unfrozen"])
def test_a_network_without_batch_norm_is_refused(name: str) -> None:
    from bgbias.models.model import build_model

    tiny = build_model("tiny", plugins.load("backbones", "tiny").Params(), 4, seeds.torch_generator("tiny"))
    module = plugins.load("methods", name)
    with pytest.raises(UserError, match="tiny has no batch norm"):
        module.Method(tiny, contrastive(), module.Params())
    at = plugins.load("methods", "at")
    assert at.Method(tiny, contrastive(), at.Params()).norms is None


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("mdprop", {"attacks": []}, "at least 1"),
        ("mdprop", {"attacks": ["stax", "stax"]}, "named twice"),
        ("at", {"losses": "joint_half", "kappa": 0.5}, "one loss of all photos"),
        ("advprop_d", {"attacks": ["mtax:3"]}, "Extra inputs"),
        ("st_unfrozen", {"batch_norm": "frozen"}, "trained"),
        ("at", {"epsilon": -1}, "greater than or equal"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        plugins.load("methods", name).Params(**wrong)


def test_attacks_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match=r"no 'pgd' in attacks"):
        plugins.load("methods", "at").Params(attacks=["pgd"])


def test_a_batch_with_too_few_classes_is_told() -> None:
    made = method("mdprop", attacks=["mtax:5"])
    with pytest.raises(UserError, match="5 targets needs photos of 6 classes in a batch; this one has 4"):
        made.loss(batch())
