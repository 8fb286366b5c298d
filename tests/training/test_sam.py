"""SAM as a method: a naive twin of the whole penalty, the photos it passes, what it refuses (docs/methods.md, section 7)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from sam_models import FORMS, NEGATIVES, batch, method
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.models.model import EmbeddingModel
from bgbias.training.methods import BaseMethod, Batch
from bgbias.training.methods import _sam as similarity_mining

pytestmark = pytest.mark.usefixtures("small_plugins")

# A naive twin: one photo of one tuple at a time, sums written out, in float64.


def stretch(count: int, length: int) -> Tensor:
    """Bilinear interpolation from ``count`` points to ``length``, as a matrix."""
    rows = torch.zeros(length, count, dtype=torch.float64)
    for i in range(length):
        place = min(max((i + 0.5) * count / length - 0.5, 0), count - 1)
        below = math.floor(place)
        rows[i, below] += 1 - (place - below)
        rows[i, min(below + 1, count - 1)] += place - below
    return rows


def naive_penalty(net: EmbeddingModel, photos: Tensor, chosen: list[list[int]], settings: Any) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for rows in chosen:
        features = [net.trunk(photos[i : i + 1])[0] for i in rows]
        vectors = [net.embedder.weight @ a.mean((1, 2)) + net.embedder.bias for a in features]
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
            attention = sum((k * channel for k, channel in zip(importance, a, strict=True)), torch.zeros(()))
            attention = attention * (attention > 0)
            attention = (attention - attention.min()) / (attention.max() - attention.min() + 1e-6)
            large = stretch(a.shape[1], photos.shape[2]) @ attention @ stretch(a.shape[2], photos.shape[3]).T
            masked.append(photos[i] * (1 - 1 / (1 + torch.exp(-settings.a * (large - settings.b)))))
        found = [net(m[None])[0] for m in masked]
        apart = [(found[0] - other).pow(2).sum().sqrt() for other in found[1:]]
        if len(rows) == 2:
            total = total - apart[0]
        for negative in apart[1:]:
            total = total + (apart[0] - negative).abs()
    return total / len(chosen)


def tuples(made: BaseMethod, given: Batch, negatives: int) -> Tensor:
    embeddings = made.model(made.photos(given)).detach()
    generator = seeds.torch_generator("similarity mining", *given.index.tolist())
    chosen = similarity_mining.pairs(given.labels, generator)
    for _ in range(negatives):
        chosen = similarity_mining.with_negatives(chosen, embeddings, given.labels, generator)
    return chosen


def in_double(made: Any) -> Any:
    """The method in float64, on photos that are normalised in it too."""
    made.model.double()
    made.photos = lambda given: made.model.preprocess(given.images.double())
    return made


def gradients(net: EmbeddingModel, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(net.parameters()), allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("score", ["published", "magnitude"])
@pytest.mark.parametrize("form", FORMS)
def test_mining_loss_and_its_gradient_agree_with_the_naive_twin(
    form: str, score: str, first_order: bool
) -> None:
    made = in_double(method(form, score=score, first_order=first_order, gamma=0.7))
    given = batch()
    chosen = tuples(made, given, NEGATIVES[form]).tolist()
    expected = naive_penalty(made.model, made.photos(given), chosen, made.params)
    found = made.loss(given)
    assert found["mining"].item() == pytest.approx(expected.item(), rel=1e-9)
    assert found["loss"].item() == pytest.approx(found["base_loss"].item() + 0.7 * expected.item(), rel=1e-9)
    pairs = zip(gradients(made.model, found["mining"]), gradients(made.model, expected), strict=True)
    for ours, naive in pairs:
        assert torch.allclose(ours, naive, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_is_the_slope_when_nothing_is_held_constant(form: str) -> None:
    """Central differences of the mining loss along a random direction of all weights."""
    made, given = in_double(method(form, w_detach=False)), batch()
    weights = list(made.model.parameters())
    generator = seeds.torch_generator("direction")
    direction = [torch.randn(w.shape, generator=generator, dtype=w.dtype) for w in weights]
    slope = sum(
        float((g * d).sum())
        for g, d in zip(gradients(made.model, made.loss(given)["mining"]), direction, strict=True)
    )
    values, step = [], 1e-8
    for sign in (2, -1):
        with torch.no_grad():
            for w, d in zip(weights, direction, strict=True):
                w += (step if sign == 2 else -2 * step) * d
        values.append(float(made.loss(given)["mining"].detach()))
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)
    assert abs(slope) > 1e-4


@pytest.mark.parametrize(
    ("option", "value"), [("w_detach", False), ("first_order", True), ("score", "magnitude")]
)
def test_each_reading_trains_differently(option: str, value: object) -> None:
    given = batch()
    plain, other = (method("sam_triplet", **options) for options in ({}, {option: value}))
    pairs = [gradients(m.model, m.loss(given)["mining"]) for m in (plain, other)]
    assert not all(torch.allclose(a, b, rtol=1e-3) for a, b in zip(*pairs, strict=True))


@pytest.mark.parametrize(("anchors", "count"), [(None, 8), (3, 3), (99, 8)])
@pytest.mark.parametrize("form", FORMS)
def test_trunk_is_passed_twice_with_so_many_tuples(form: str, anchors: int | None, count: int) -> None:
    made, sizes = method(form, anchors=anchors), list[int]()
    made.model.trunk.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    made.loss(batch())
    assert sizes == [8, count * (2 + NEGATIVES[form])]
    neutral, once = method(form, gamma=0.0), list[int]()
    neutral.model.trunk.register_forward_hook(lambda _, given, __: once.append(len(given[0])))
    neutral.loss(batch())
    assert once == [8]


def test_only_satisfied_leaves_out_tuples_that_are_not() -> None:
    given = batch(3)
    made = in_double(method("sam_triplet", only_satisfied=True))
    chosen = similarity_mining.satisfied(tuples(made, given, 1), made.model(made.photos(given)))
    assert 0 < len(chosen) < 8
    expected = naive_penalty(made.model, made.photos(given), chosen.tolist(), made.params)
    assert made.loss(given)["mining"].item() == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("form", ["sam_triplet", "sam_quad"])
def test_where_no_tuple_is_satisfied_the_base_loss_remains(form: str) -> None:
    """Every class has the same two photos: no negative is farther than the positive."""
    given = batch(each=2)
    repeated = Batch(given.images[:2].repeat(4, 1, 1, 1), given.labels, given.index)
    found = method(form, only_satisfied=True).loss(repeated)
    assert torch.equal(found["loss"], found["base_loss"])
    assert found["mining"] == 0
    found["loss"].backward()


def test_replaced_backgrounds_are_what_it_mines() -> None:
    given, others = batch(1), batch(2)
    plain, replacing = method("sam_triplet"), method("sam_triplet")
    replacing.replaces_backgrounds = True

    def composed(alpha: float) -> Batch:
        masks = torch.full((8, 1, 32, 32), alpha)
        return Batch(given.images, given.labels, given.index, masks, others.images)

    behind = Batch(others.images, given.labels, given.index)

    def mining(made: BaseMethod, shown: Batch) -> float:
        return made.loss(shown)["mining"].item()

    assert mining(replacing, composed(1)) == pytest.approx(mining(plain, given), rel=1e-4)
    assert mining(replacing, composed(0)) == pytest.approx(mining(plain, behind), rel=1e-4)
    assert mining(plain, given) != pytest.approx(mining(plain, behind), rel=1e-2)


# What is refused.


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("sam_siamese", {"only_satisfied": True}),
        ("sam_triplet", {"gama": 0.2}),
        ("sam_triplet", {"gamma": -0.1}),
        ("sam_quad", {"anchors": 0}),
        ("sam_quad", {"score": "signed"}),
    ],
)
def test_senseless_options_are_refused(form: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        plugins.load("methods", form).Params(**options)
