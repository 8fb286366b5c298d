"""SAM: which tuples a batch has, and a naive twin of the whole penalty (docs/methods.md, section 7)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from fitting import batch, gradients, in_double, method
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from bgbias import seeds
from bgbias.models.model import EmbeddingModel
from bgbias.training.methods import BaseMethod, Batch
from bgbias.training.methods import _sam as mining

pytestmark = pytest.mark.usefixtures("small_plugins")
NEGATIVES = {"sam_siamese": 0, "sam_triplet": 1, "sam_quad": 2}
SCORES = ("published", "magnitude")


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


def test_random_choices_reach_every_candidate_about_equally() -> None:
    """Photo 1 is opposite to its anchor 0: every foreigner is closer."""
    z = normalize(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.5], [1.0, -0.5], [0.9, 0.1]]), dim=1)
    pair, labels = torch.tensor([[0, 1]]), torch.tensor([0, 0, 1, 1, 2])
    generator = seeds.torch_generator("farthest")
    chosen = [int(mining.with_negatives(pair, z, labels, generator)[0, 2]) for _ in range(300)]
    counts = torch.tensor(chosen).bincount(minlength=5).tolist()
    assert counts[:2] == [0, 0]
    assert min(counts[2:]) > 70


def test_photos_without_partner_and_tuples_without_class_are_left_out() -> None:
    labels, z, generator = torch.tensor([0, 0, 1]), torch.eye(3), seeds.torch_generator("few")
    assert choose(labels, z, 0, generator).tolist() == [[0, 1], [1, 0]]
    assert choose(labels, z, 1, generator).tolist() == [[0, 1, 2], [1, 0, 2]]
    assert choose(labels, z, 2, generator).shape == (0, 4)


def naive_penalty(net: EmbeddingModel, photos: Tensor, chosen: list[list[int]], settings: Any) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for rows in chosen:
        features = [net.trunk(photos[i : i + 1])[0] for i in rows]
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
            large = interpolate(attention[None, None], photos.shape[2:], mode="bilinear")[0]
            masked.append(photos[i] * (1 - torch.sigmoid(settings.a * (large - settings.b))))
        found = [net(m[None])[0] for m in masked]
        apart = [(found[0] - other).pow(2).sum().sqrt() for other in found[1:]]
        if len(rows) == 2:
            total = total - apart[0]
        for negative in apart[1:]:
            total = total + (apart[0] - negative).abs()
    return total / len(chosen)


def tuples(made: BaseMethod, given: Batch, negatives: int) -> Tensor:
    generator = seeds.torch_generator("similarity mining", *given.index.tolist())
    z = made.model(made.photos(given)).detach()
    chosen = choose(given.labels, z, negatives, generator)
    return mining.satisfied(chosen, z) if getattr(made.params, "only_satisfied", False) else chosen


@pytest.mark.parametrize(
    ("form", "options"),
    [
        *(
            (form, {"score": s, "first_order": f})
            for form in NEGATIVES
            for s in SCORES
            for f in (False, True)
        ),
        ("sam_triplet", {"only_satisfied": True}),
    ],
)
def test_mining_loss_and_its_gradient_agree_with_the_naive_twin(form: str, options: dict[str, Any]) -> None:
    made, given = in_double(method(form, "triplet", gamma=0.7, **options)), batch(3)
    chosen = tuples(made, given, NEGATIVES[form]).tolist()
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
