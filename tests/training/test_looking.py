"""Penalties on where a network looks: SAM and attribution regularisation (docs/methods.md, sections 7 and 4)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from backbone_models import BACKBONES, make, photos
from fitting import EIGHT, batch, gradients, in_double, method
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from bgbias import seeds
from bgbias.models.model import EmbeddingModel
from bgbias.training import loop
from bgbias.training.methods import _sam as mining
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")
FORMS = ("sam_siamese", "sam_triplet", "sam_quad")
HOW = [{"score": s, "first_order": first} for s in ("published", "magnitude") for first in (False, True)]


def choose(labels: Tensor, embeddings: Tensor, negatives: int, generator: torch.Generator) -> Tensor:
    chosen = mining.pairs(labels, generator)
    for _ in range(negatives):
        chosen = mining.with_negatives(chosen, embeddings, labels, generator)
    return chosen


@pytest.mark.parametrize("negatives", [0, 1, 2])
def test_tuples_agree_with_a_search_by_loops(negatives: int) -> None:
    """Where nothing lies beyond the positive, any photo of a class not yet taken will do."""
    generator = seeds.torch_generator("test mining")
    z = normalize(torch.randn(12, 3, generator=generator, dtype=torch.float64), dim=1)
    labels, apart = torch.arange(4).repeat_interleave(3), torch.cdist(z, z)
    found = choose(labels, z, negatives, seeds.torch_generator("tuples"))
    assert found[:, 0].tolist() == list(range(12))
    for a, p, *others in found.tolist():
        assert a != p
        assert labels[a] == labels[p]
        taken = {int(labels[a])}
        for n in others:
            left = [i for i in range(12) if int(labels[i]) not in taken]
            beyond = [i for i in left if apart[a, i] > apart[a, p]]
            assert n in left
            if beyond:
                assert apart[a, n] == apart[a, beyond].min()
            taken.add(int(labels[n]))
    away = apart[found[:, :1], found[:, 1:]]
    assert torch.equal(mining.satisfied(found, z), found[(away[:, :1] < away[:, 1:]).all(1)])
    # Photos without a partner and tuples without a further class are left out.
    few = choose(torch.tensor([0, 0, 1]), torch.eye(3), negatives, generator).tolist()
    assert few == ([[0, 1], [1, 0]], [[0, 1, 2], [1, 0, 2]], [])[negatives]


def test_random_choices_reach_every_candidate_about_equally() -> None:
    """Photo 1 is opposite to its anchor 0: every foreigner is closer."""
    z = normalize(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.5], [1.0, -0.5], [0.9, 0.1]]), dim=1)
    pair, labels = torch.tensor([[0, 1]]), torch.tensor([0, 0, 1, 1, 2])
    generator = seeds.torch_generator("farthest")
    chosen = [int(mining.with_negatives(pair, z, labels, generator)[0, 2]) for _ in range(300)]
    counts = torch.tensor(chosen).bincount(minlength=5).tolist()
    assert counts[:2] == [0, 0]
    assert min(counts[2:]) > 70


def naive_penalty(net: EmbeddingModel, seen: Tensor, chosen: list[list[int]], settings: Any) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for rows in chosen:
        features = [net.trunk(seen[i : i + 1])[0] for i in rows]
        vectors = [net.embedder(a.mean((1, 2))) for a in features]
        units = [g / g.pow(2).sum().sqrt() for g in vectors]
        weight = 1 - (units[0] - units[1]).abs()
        for negative in units[2:]:
            weight = weight * (units[0] - negative).abs()
        weight = weight.detach()
        masked = []
        for i, a, g, f in zip(rows, features, vectors, units, strict=True):
            length = g.pow(2).sum().sqrt()
            if settings.score == "published":
                toward = (weight - (weight * f).sum() * f) / length
            else:
                toward = weight * g.sign().detach() / length.detach()
            importance = net.embedder.weight.T @ toward / (a.shape[1] * a.shape[2])
            if settings.first_order:
                importance = importance.detach()
            attention = (importance[:, None, None] * a).sum(0).relu()
            attention = (attention - attention.min()) / (attention.max() - attention.min() + 1e-6)
            large = interpolate(attention[None, None], seen.shape[2:], mode="bilinear")[0]
            masked.append(seen[i] * (1 - torch.sigmoid(settings.a * (large - settings.b))))
        found = [net(m[None])[0] for m in masked]
        apart = [(found[0] - other).pow(2).sum().sqrt() for other in found[1:]]
        if len(rows) == 2:
            total = total - apart[0]
        for negative in apart[1:]:
            total = total + (apart[0] - negative).abs()
    return total / len(chosen)


@pytest.mark.parametrize(
    ("form", "options"),
    [*((form, how) for form in FORMS for how in HOW), ("sam_triplet", {"only_satisfied": True})],
)
def test_mining_loss_and_its_gradient_agree_with_the_naive_twin(form: str, options: dict[str, Any]) -> None:
    made, given = in_double(method(form, "triplet", gamma=0.7, **options)), batch(3)
    generator = seeds.torch_generator("similarity mining", *given.index.tolist())
    chosen = made._choose_tuples(made.model(made.photos(given)), EIGHT, generator).tolist()
    assert len(chosen[0]) == 2 + FORMS.index(form)
    assert (0 < len(chosen) < 8) == ("only_satisfied" in options)
    expected = naive_penalty(made.model, made.photos(given), chosen, made.params)
    found = made.loss(given)
    assert found["mining"].item() == pytest.approx(expected.item(), rel=1e-9)
    assert found["loss"].item() == pytest.approx(found["base_loss"].item() + 0.7 * expected.item(), rel=1e-9)
    ours, naive = (gradients(made, value) for value in (found["mining"], expected))
    for name in naive:
        assert torch.allclose(ours[name], naive[name], rtol=1e-7, atol=1e-12), name


def test_where_no_tuple_is_satisfied_the_base_loss_remains() -> None:
    """Every class has the same two photos: no negative is farther than the positive."""
    given = batch()
    repeated = replace(given, images=given.images[:2].repeat(4, 1, 1, 1))
    found = method("sam_quad", "triplet", only_satisfied=True).loss(repeated)
    assert torch.equal(found["loss"], found["base_loss"])
    assert found["mining"] == 0
    found["loss"].backward()


# Attribution regularisation.


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize(
    ("name", "of"), [("attr_loss", "cosface"), ("attr_frac", "triplet"), ("attr_emb", "arcface")]
)
def test_penalty_is_what_gradients_make_beside_the_object(name: str, of: str, count: int | None) -> None:
    """By one differentiation of the whole batch, whose photos do not see one another, also where batch norm follows the batch
    in training. A photo without a trusted mask has no penalty.
    """
    options = {"weight": 0.7, "photos": count, "frozen": False}
    made, twin = (in_double(method(name, of, **options)) for _ in range(2))
    given = batch()
    found = made.loss(given)
    base = twin.base_loss(twin.model(twin.photos(given)), EIGHT)
    net = twin.model.eval()
    seen = twin.photos(given).requires_grad_()
    embeddings = net(seen)
    black = net(net.preprocess(torch.zeros_like(seen[:1])))[0].detach()
    value = (embeddings @ black).sum() if name == "attr_emb" else twin.base_loss(embeddings, EIGHT)
    (slope,) = torch.autograd.grad(value, seen)
    outside, dims = 1 - given.masks, (1, 2, 3)  # type: ignore[operator]
    fractions = (outside * slope**2).sum(dims) / (slope**2).sum(dims)
    each = ((outside * slope) ** 2).sum(dims) if name == "attr_loss" else fractions
    expected = each[:: len(each) // (count or len(each))].mean().item()  # evenly spread
    assert found["penalty"].item() == pytest.approx(expected, rel=1e-6)
    assert found["loss"].item() == pytest.approx(base.item() + 0.7 * expected, rel=1e-6)
    with pytest.raises(ValueError, match="batches with masks"):
        made.loss(replace(given, masks=None))


@pytest.mark.parametrize("name", BACKBONES)
def test_any_backbone_can_be_differentiated_twice(name: str) -> None:
    made, shown = method("attr_frac", net=make(name)), photos(name, 4)
    gradients = made.gradients(shown, EIGHT[:4], range(4))
    masks = torch.zeros_like(shown[:, :1])
    masks[..., : shown.shape[3] // 2] = 1
    made.penalty(gradients, masks).backward()
    first = next(made.model.trunk.parameters())
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.model.parameters())


def test_mixed_precision_reaches_the_base_loss_and_not_the_penalty() -> None:
    made, given = method("attr_frac", photos=2), batch()
    exact = made.loss(given)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = made.loss(given)
    assert torch.equal(mixed["penalty"], exact["penalty"])
    assert not torch.equal(mixed["base_loss"], exact["base_loss"])


def test_no_tf32_where_gradients_are_differentiated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second differentiation is in training's own backward pass; without a penalty, training is plain's."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    seen = list[bool]()
    for weight, allowed in ((1.0, False), (0.0, True)):
        made = method("attr_frac", weight=weight)
        made.model.embedder.weight.register_hook(lambda _: seen.append(torch.backends.cudnn.allow_tf32))
        loop.train_epoch(made, iter([batch()]), loop.make_optimizer(made, Train()), Train(), "cpu", 1)
        assert set(seen) == {allowed}
        seen.clear()
    assert torch.backends.cudnn.allow_tf32
