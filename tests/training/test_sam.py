"""SAM as a method: its neutral setting, a naive twin of the whole penalty, and what it refuses (docs/methods.md, section 7)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_study import data_nodes, described, history, load, run
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.compute.device import autocast
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.study.cell import Cell
from bgbias.training import loop
from bgbias.training import mining as similarity_mining
from bgbias.training.batches import Batch
from bgbias.training.methods import BaseMethod
from bgbias.training.methods.plain import Method as Plain
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

NEGATIVES = {"sam_siamese": 0, "sam_triplet": 1, "sam_quad": 2}
FORMS = sorted(NEGATIVES)


def model(seed: int = 0, backbone: str = "pixels", **options: Any) -> EmbeddingModel:
    chosen = plugins.load("backbones", backbone).Params(**options)
    # Training mode, as in training: batch norm is frozen.
    return build_model(backbone, chosen, 4, seeds.torch_generator("model", seed)).train()


def method(form: str, seed: int = 0, **options: Any) -> Any:
    module = plugins.load("methods", form)
    return module.Method(model(seed), triplet(), module.Params(**options))


def triplet() -> torch.nn.Module:
    loss = plugins.load("losses", "triplet")
    made: torch.nn.Module = loss.build(loss.Params(margin=0.5), 4, 4, torch.Generator())
    return made


def batch(seed: int = 0, classes: int = 4, size: int = 32, each: int = 2) -> Batch:
    generator = seeds.torch_generator("batch", seed)
    count = classes * each
    pictures = torch.randint(256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    return Batch(pictures, torch.arange(classes).repeat_interleave(each), 100 * seed + torch.arange(count))


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


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


# Training.


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., dict[str, Tensor]]:
    scores = itertools.count()

    def validate(net: EmbeddingModel) -> dict[str, float]:
        return {"val_map_at_r": next(scores) / 1000}

    def batches(epoch: int) -> Iterator[Batch]:
        yield from (batch(10 * epoch + step) for step in range(2))

    def run(made: BaseMethod, name: str, epochs: int = 2) -> dict[str, Tensor]:
        settings = Train(iterations_per_epoch=2, lr=1e-3, max_epochs=epochs, patience=9)
        paths = tmp_path / f"{name}.pt", tmp_path / f"{name}.csv"
        loop.fit(made, batches, validate, "val_map_at_r", settings, *paths, digest=name)
        return made.model.state_dict()

    return run


@pytest.mark.parametrize("form", FORMS)
def test_without_weight_it_is_plain_training_bit_for_bit(
    form: str, fit: Callable[..., dict[str, Tensor]]
) -> None:
    plain = fit(Plain(model(), triplet()), "plain")
    assert same(fit(method(form, gamma=0.0), "neutral"), plain)
    assert not same(fit(method(form), "mining"), plain)


@pytest.mark.parametrize("form", FORMS)
def test_resumed_training_ends_as_an_uninterrupted_one(
    form: str, fit: Callable[..., dict[str, Tensor]]
) -> None:
    whole = fit(method(form), "whole", 4)
    fit(method(form), "broken", 2)
    torch.manual_seed(99)
    assert same(fit(method(form, seed=1), "broken", 4), whole)


@pytest.mark.parametrize("form", FORMS)
def test_frozen_batch_norm_is_not_moved_by_masked_photos(
    form: str, fit: Callable[..., dict[str, Tensor]]
) -> None:
    made = method(form)
    before = {k: v.clone() for k, v in made.model.trunk[1].named_buffers()}
    fit(made, "frozen")
    assert same(dict(made.model.trunk[1].named_buffers()), before)


@pytest.mark.parametrize("form", FORMS)
def test_masked_photos_teach_no_batch_norm(form: str) -> None:
    """Of one that learns its statistics, those after a step are of the photos alone."""
    learned = []
    for gamma in (0.0, 0.25):
        module = plugins.load("methods", form)
        net = build_model(
            "pixels",
            plugins.load("backbones", "pixels").Params(),
            4,
            seeds.torch_generator("model", 0),
            False,
        ).train()
        before = {k: v.clone() for k, v in net.trunk.named_buffers()}
        module.Method(net, triplet(), module.Params(gamma=gamma)).loss(batch())["loss"].backward()
        learned.append(dict(net.trunk.named_buffers()))
        assert not same(learned[-1], before)
        assert net.trunk[1].track_running_stats
    assert same(*learned)


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


@pytest.mark.parametrize(
    ("backbone", "options", "size"),
    [
        ("tiny", {}, 56),
        ("resnet18", {"weights": None}, 64),
        ("timm:vit_tiny_patch16_224", {"weights": None, "img_size": 32}, 32),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_any_backbone_with_a_feature_map_can_be_mined(
    backbone: str, options: dict[str, Any], size: int, precision: str
) -> None:
    module = plugins.load("methods", "sam_quad")
    made = module.Method(model(0, backbone, **options), triplet(), module.Params())
    given = batch(size=size)
    with autocast("cpu", precision):
        found = made.loss(given)
        plain = Plain(made.model, made.base_loss).loss(given)
    found["loss"].backward()
    assert torch.equal(found["base_loss"], plain["loss"])
    assert found["mining"] > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.model.parameters())


def test_named_options_train_a_model_of_params_yaml(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["methods"] = {"sam_strong": {"kind": "sam_triplet", "gamma": 0.5, "score": "magnitude"}}
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "sam_strong+bgaugment", 0)
    run(study, cell, "train", "embed")
    rows = history(study.files.at("history", **cell.wildcards))
    for row in rows:
        parts = [float(row[name]) for name in ("loss", "base_loss", "mining")]
        assert parts[0] == pytest.approx(parts[1] + 0.5 * parts[2], rel=1e-5)
        assert parts[2] > 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("replaced", ["", "+bgaugment"])
def test_without_weight_a_model_of_params_yaml_is_plain_bit_for_bit(
    tmp_path: Path, form: str, replaced: str
) -> None:
    from safetensors.torch import load_file

    raw = described(tmp_path)
    raw["methods"] = {"neutral": {"kind": form, "gamma": 0}, "twin": {"kind": "plain"}}
    study = load(tmp_path, raw)
    data_nodes(study)
    made = []
    for name in ("twin", "neutral"):
        cell = Cell("squares", "pixels", "contrastive", name + replaced, 0)
        run(study, cell, "train")
        made.append(load_file(study.files.at("model", **cell.wildcards)))
    assert same(*made)


# What is refused.


@pytest.mark.parametrize(
    ("form", "given", "told"),
    [
        ("sam_siamese", batch(classes=8, each=1), "two photos of a class .* 8 photos of 8 classes"),
        ("sam_triplet", batch(classes=1, each=8), "and 1 other classes .* 8 photos of 1 classes"),
        ("sam_quad", batch(classes=2, each=4), "and 2 other classes .* 8 photos of 2 classes"),
    ],
)
def test_batch_without_any_tuple_is_an_error(form: str, given: Batch, told: str) -> None:
    with pytest.raises(UserError, match=told):
        method(form).loss(given)


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
