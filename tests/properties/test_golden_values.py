"""The golden values of docs/methods.md, section 11, in its order.

Those of G2 are held beside what makes pictures: tests/images, backgrounds, datasets, evaluation/test_conditions.py.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from fitting import SETTINGS, batch, method
from rankings import angles
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from bgbias import attacks, plugins, seeds
from bgbias.attribution import score as scores
from bgbias.attribution import similarity as attention
from bgbias.attribution.noise import add_noise
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import gradient_maps
from bgbias.evaluation.embedding_metrics import nmi
from bgbias.evaluation.metrics._rankings import recall
from bgbias.evaluation.retrieval import Neighbours, neighbours
from bgbias.models.necks._attention_net import AttentionNet
from bgbias.training import patch_negatives
from bgbias.training.methods import Batch, _attribution_penalty, _sam, s2sd
from bgbias.training.methods import _invariance as invariance
from bgbias.training.pretraining import byol
from bgbias.training.pretraining.moco_v2 import info_nce
from bgbias.training.repulsions import Further

pytestmark = pytest.mark.usefixtures("small_plugins")

approx = partial(pytest.approx, rel=0, abs=5e-7)
double = partial(torch.tensor, dtype=torch.float64)

CORNER, SOFT = [[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.5], [0.5, 0.0]]
# G4: embeddings z, their classes y and the class weights W, as rows; G8: a negative of each z.
Z, Y = double([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]]), torch.tensor([0, 0, 1, 1])
CLASS_WEIGHTS = double([[1, 0], [0, 2], [-1, -1]])
NEGATIVES = normalize(double([[1, 0.2], [0.5, 0.5], [0.2, 1], [-1, 0]]), dim=1)

CONTRASTIVE, SOFTMAX = {"pos_margin": 0.2, "neg_margin": 0.9}, {"temperature": 0.1, "lr": 1}
SUMS, ARC = {"alpha": 2, "beta": 40, "base": 0.5}, {"margin": 20, "scale": 10, "lr": 1}


def ranked(n: Neighbours) -> list[float]:
    """P@1, RP, MAP@R."""
    names = ("precision_at_1", "r_precision", "map_at_r")
    return [float(np.nanmean(plugins.load("metrics", name).per_query(n))) for name in names]


def test_g1_metrics() -> None:
    for relevance, expected in (
        ((1, 0, 1), (1, 0.666667, 0.555556)),
        ((0, 1, 1, 0), (0, 0.5, 0.291667)),
        ((1,), (1, 1, 1)),
    ):
        hits, count = np.array([relevance], dtype=bool), len(relevance)
        assert ranked(Neighbours(hits, np.array([count]), np.arange(count)[None])) == approx(expected)
    vectors, labels = angles(0, 10, 25, 40, 60, 75, 200), np.array([0, 0, 1, 0, 1, 1, 2])
    n = neighbours(vectors, labels, vectors, labels)
    assert ranked(n) == approx((0.666667, 0.333333, 0.333333))
    assert [recall(n, k).mean() for k in (1, 2, 4)] == approx((0.571429, 0.571429, 0.857143))


@pytest.mark.parametrize(
    ("values", "mask", "expected"),
    [
        ([[0.7, 0.1], [0.1, 0.1]], CORNER, 0.6),
        ([[1.0, 1.0], [1.0, 1.0]], CORNER, 0),
        ([[0.0, 1.0], [1.0, 1.0]], CORNER, -0.333333),
        ([[5.0, 0.0], [0.0, 0.0]], CORNER, 1),
        ([[0.4, 0.3], [0.2, 0.1]], SOFT, 0.3),
    ],
)
def test_g3_attribution_score(values: list[list[float]], mask: list[list[float]], expected: float) -> None:
    assert float(scores.score(double(values), double(mask))) == approx(expected)


def test_g3_attribution_map() -> None:
    ramp = scores.normalise(double([[1, 2, 3, 4, 5]]))  # up to the quantile of 4.96
    assert ramp[0].tolist() == approx([0, 0.252525, 0.505051, 0.757576, 1])
    strengths = dict.fromkeys(("ref", "robust"), 0.0)
    for gradient in (double([1, -1, 0]), double([0.5, 0.5, 0.5])):

        def embed(x: Tensor, gradient: Tensor = gradient) -> Tensor:
            """Its cosine with (1, 0) has this gradient everywhere."""
            along = ((x - x.detach())[:, :, 0, 0] * gradient).sum(1)
            return torch.stack((along, torch.ones_like(along)), 1)

        one, black = Attribution(samples=1), double([1, 0])
        made = gradient_maps(embed, torch.rand(1, 3, 1, 1).double(), ["key"], black, "cosine", one)
        strengths = {variant: strengths[variant] + float(made[variant]) for variant in strengths}
    assert strengths == approx({"ref": 0.5, "robust": 1.166667})
    full_range = torch.linspace(-128, 127, 12, dtype=torch.float64).view(1, 3, 2, 2)
    noise = add_noise(full_range, torch.ones(1, 1, 3, 2, 2), Attribution().noise) - full_range
    assert noise.flatten().tolist() == approx([38.25] * 12)


def build(name: str, settings: dict[str, Any]) -> Any:
    kind = plugins.load("losses", name)
    loss = kind.build(kind.Params(**settings), 3, 2, seeds.torch_generator("replaced"))
    for weights in loss.parameters():
        weights.data = CLASS_WEIGHTS.T.clone()
    return loss


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("contrastive", CONTRASTIVE, 0.438028),
        ("contrastive", {"pos_margin": -0.2, "neg_margin": 0.3841}, 0.832456),
        ("triplet", {"margin": 0.1}, 0),
        ("triplet", {"margin": 0.5}, 0.238028),
        ("multi_similarity", SUMS, 0.268971),
        ("arcface", ARC, 0.249237),
        ("normalized_softmax", SOFTMAX, 0.031775),
        ("cosface", {"margin": 0.35, "scale": 10, "lr": 1}, 0.426786),
        ("roth_arcface", {"margin": 0.5, "scale": 16}, 0.755547),
        ("roth_arcface", {"margin": 0.5, "scale": 16, "bug": True}, 0.00999),
        ("roth_arcface", {"margin": 0, "scale": 16}, 0.00999),
    ],
)
def test_g4_losses(name: str, settings: dict[str, Any], expected: float) -> None:
    assert build(name, settings)(Z, Y).item() == approx(expected)


def test_g6_attribution_regularisation() -> None:
    gradient, mask = double([[[[1, 2], [0, -1]]]]), double([[[[1, 0.5], [0, 0]]]])
    assert method("attr_loss", weight=1).penalty(gradient, mask).item() == approx(2)
    assert _attribution_penalty.fraction_outside(gradient, mask).item() == approx(0.5)


def test_g7_environments() -> None:
    logits, labels = double([[2, 0, -1], [1, 1, 0]]), torch.tensor([0, 1])
    uneven, even = double([[0.3, 0.7], [0.5, 0.5]])
    assert invariance.cross_entropy(logits, labels, uneven).item() == approx(0.65435)
    gradient = uneven @ invariance.proxy_gradients(logits, labels)
    assert gradient.tolist() == approx([0.2019, -0.404377, -0.012603])
    penalties = [invariance.irm_penalty(logits, labels, weights).item() for weights in (uneven, even)]
    assert penalties == approx([0.204443, 0.08689])
    # In a batch with a photo whose weights are (0.5, 0.5).
    first, halves = invariance.batch_weights(double([[0, math.log(3)], [0, 0]]))
    assert (first / halves / 2).tolist() == approx([0.25, 0.75])


def test_g7_spread_and_distance_of_nets() -> None:
    vectors, labels = double([[0, 0], [2, 0], [1, 3], [5, 5]]), torch.tensor([0, 0, 0, 1])
    spread = partial(invariance.spread_around_class_means, vectors, labels)
    around = [spread(double(weights)).item() for weights in ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1])]
    assert [*around, invariance.spread_between_pairs(vectors, labels).item()] == approx([1.8, 8, 24])
    nets: list[Any] = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    for net, matrix in zip(nets, ([[1, 2], [3, 4]], [[1, 0], [3, 2]]), strict=True):
        net.weight.data = double(matrix)
    assert invariance.relative_distance(nets).item() == approx(0.037778)
    assert invariance.distance(nets).item() == approx(4)


def test_g7_attention() -> None:
    net = AttentionNet(2, 2).double()
    net.channel[0], net.channel[2] = (nn.Linear(2, 2, bias=False) for _ in range(2))  # no bottleneck
    for weights in net.parameters():
        weights.data = torch.eye(2, dtype=torch.float64)
    attended = net(double([[[[1, 3]], [[3, 5]]]])).detach().requires_grad_()
    assert attended.flatten().tolist() == approx([0.767529, 2.567189, 2.583213, 4.800104])
    losses = cross_entropy(attended.mean((2, 3)), torch.tensor([0]), reduction="none")
    dummies = invariance.attention_gradients(attended, losses)
    assert [gradient.square().sum().item() for gradient in dummies] == approx([12.802885, 1.615655])


@pytest.mark.parametrize(
    ("name", "settings", "alpha", "expected"),
    [
        ("contrastive", CONTRASTIVE, 1, 0.438028 + 0.542411),
        ("triplet", {"margin": 0.1}, 1, 0.553813),
        ("multi_similarity", SUMS, 1, 0.606635),
        ("normalized_softmax", SOFTMAX, 1, 0.846244),
        ("normalized_softmax", SOFTMAX, 2, 8.760128),
        ("arcface", ARC, 1, 1.824641),
    ],
)
def test_g8_losses_with_negatives(name: str, settings: dict[str, Any], alpha: float, expected: float) -> None:
    further = Further(NEGATIVES[:, None], torch.ones(4, 1, dtype=torch.bool), alpha=alpha)
    found = plugins.load("repulsions", name).loss(build(name, settings), Z, Y, further)
    assert found.item() == approx(expected, abs=1e-6)


def test_g8_windows_and_pretraining() -> None:
    assert [patch_negatives.per_side(d, 224) for d in (16, 32, 33, 56, 72)] == [15, 8, 7, 5, 4]
    positive, queued, negative = double([0.8]), double([[0.1, -0.2]]), double([0.3])
    moco = partial(info_nce, positive, queued, 0.2)
    assert moco().item() == approx(0.03627)
    found = [moco(negative, alpha).item() for alpha in (1, 2, 3)]
    assert [*found, moco(-negative, 2).item()] == approx([0.112454, 0.339905, 0.987925, 0.037149])
    assert byol.distance(positive, negative, 0.05).item() == approx(0.33)


@pytest.mark.parametrize(
    ("roles", "same", "weights", "expected"),
    [
        ("apn", True, [0.48, 0, 0.6], [0.288, 0.384, 0.36]),
        ("ap", True, [0.8, 0.8, 1], [1.12, 1.12]),
        ("an", False, [0.6, 0, 0.6], [0.36, 0.36]),
        ("apnm", True, [0.288, 0, 0.6], None),
    ],
)
def test_g9_weights(roles: str, same: bool, weights: list[float], expected: list[float] | None) -> None:
    photos = {"a": [0.6, 0.8, 0], "p": [0.8, 0.6, 0], "n": [0, 0.8, 0.6], "m": [0, 0, 1]}
    embeddings = [double([photos[role]]) for role in roles]
    found = attention.dimension_weights(embeddings, same)
    assert found[0].tolist() == approx(weights)
    if expected is not None:
        assert [float((found * f).sum()) for f in embeddings] == approx(expected)


def test_g9_maps_and_mining() -> None:
    channels = double([[[[1, 0], [2, 1]], [[0, 3], [1, 0]]]])
    found = attention.weighted_map(double([[0.4, -0.2]]), channels)
    assert found.flatten().tolist() == approx([0.4, 0, 0.6, 0.4])
    stretched = attention.stretch(found)  # whose divisor has 1e-6 more
    assert stretched.flatten().tolist() == approx([0.666667, 0, 1, 0.666667], abs=3e-6)
    left = attention.soft_erasure(stretched, a=10, b=0.5)
    assert left.flatten().tolist() == approx([0.158869, 0.993307, 0.006693, 0.158869], abs=3e-6)
    masked = [double([vector]) for vector in ([1, 0], [0.6, 0.8], [0, 1])]
    losses = [_sam.mining_loss(roles).item() for roles in (masked, masked[:2])]
    assert losses == approx([0.519786, -0.894427])
    head, photo = double([[1, 2], [0, 1], [1, 0]]), double([[[[1, 2], [0, 1]], [[0, 1], [1, 2]]]])
    embedding = normalize(photo.requires_grad_().mean((2, 3)) @ head.T, dim=1)
    importance = attention.importance(embedding @ double([0.5, 0.2, 0.1]), photo)
    assert importance[0].tolist() == approx([-0.004112, 0.004112])


def test_g10_attacks() -> None:
    levels = [attacks.grey_levels(epsilon, double(0)).flatten().tolist() for epsilon in (0.01, 0.1)]
    assert levels[0] == approx([0.584, 0.5712, 0.5738], abs=5.1e-5)
    assert levels[1] == approx([5.8395, 5.712, 5.7375])
    f, goal = double([[0, 0]], requires_grad=True), double([[[3, 0], [0, 1], [0, 1]]])
    objective = plugins.load("attacks", "mtax:3").objective
    found = {reduction: objective(f, goal, reduction) for reduction in ("squared", "l2", "released")}
    assert [value.item() for value in found.values()] == approx([3.666667, 1.666667, 2.777778])
    for reduction, expected in (("squared", [-2, -1.333333]), ("l2", [-0.333333, -0.666667])):
        assert torch.autograd.grad(found[reduction], f)[0][0].tolist() == approx(expected)
    x = double([0.5, -0.2]) + 1  # within the range of photos
    begin, slope = x + double([0.0003, -0.0004]), double([2, -1])
    moved = attacks.descend(lambda y: (slope * y).sum(), x, begin, double(0.01), steps=1)
    assert (moved - 1).tolist() == approx([0.4903, -0.1904])


def test_g10_distillation_and_metrics_of_embeddings() -> None:
    student, teacher = (double([[1, c], [c, 1]]) for c in (0.2, 0.6))
    divergences = [s2sd.divergence(student, teacher, temperature) for temperature in (1, 2)]
    assert [d.item() for d in divergences] == approx([0.01861, 0.019638])
    total = s2sd.distilled(double(1), [double(2)], divergences[:1], weight=50, kappa=1)
    assert total.item() == approx(2.430517)
    classes, clusters = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    found = [nmi.normalized_mutual_information(classes, given) for given in (clusters, classes)]
    assert found == approx([0.478704, 1])
    cloud, labels = seeds.generator("cloud").normal(size=(60, 4)).astype(np.float32), np.arange(60) % 12
    of_starts = [
        nmi.normalized_mutual_information(labels, nmi.clusters(cloud, 12, start)) for start in range(10)
    ]
    assert nmi.of_embeddings(cloud, labels) == approx(np.mean(of_starts))
    assert np.std(of_starts) > 0
    vectors = np.array([[1, 0], [0, 1], [-1, 0], [-0.6, -0.8]], np.float32)
    density = plugins.load("embedding_metrics", "pi_ratio").of_embeddings(vectors, np.array([0, 0, 1, 1]))
    assert density == approx(0.359217)


@pytest.mark.parametrize(("losses", "expected"), [("separate", 0.889551), ("joint_half", 0.481434)])
def test_g10_losses_of_attacked_photos(losses: str, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "contrastive", CONTRASTIVE)
    moved = normalize(Z + double([[0.1, 0], [0, 0.1], [-0.1, 0], [0, -0.1]]), dim=1)
    made, embeddings = method("advprop_d", losses=losses), iter((Z, moved))
    made.model.pooled_map = lambda photos: next(embeddings)
    made.model.embed_features = lambda features: features
    made.attack_batch = lambda photos, given: ([photos], [torch.arange(4)])
    given = Batch(batch().images[:4], Y, torch.arange(4))
    assert made.loss(given)["loss"].item() == approx(expected)
