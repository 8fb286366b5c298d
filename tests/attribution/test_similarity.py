"""Similarity attention: golden values (docs/methods.md, section 11, G9), naive twins, and attribution by it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from fitting import model
from in_memory import Pictures, table
from small_study import described, load
from torch import Tensor, nn

from bgbias import seeds
from bgbias.attribution import explanation
from bgbias.attribution import score as scores
from bgbias.attribution import similarity as attention
from bgbias.attribution.score import attribute_pairs, partners
from bgbias.attribution.settings import Attribution, SimilarityScore
from bgbias.engine import graph
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
CELL = Cell("squares", "pixels", "contrastive", "plain", 0)
ANCHOR, POSITIVE, NEGATIVE, SECOND = (
    torch.tensor([values], dtype=torch.float64)
    for values in ([0.6, 0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.8, 0.6], [0.0, 0.0, 1.0])
)
MAP = torch.tensor([[[[1.0, 0.0], [2.0, 1.0]], [[0.0, 3.0], [1.0, 0.0]]]], dtype=torch.float64)
GOLDEN = 5e-7


class Head(nn.Module):
    """Mean over places and a linear layer."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        return features.mean((2, 3)) @ self.rows.T


def unit(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=1)


def random_head(seed: int, channels: int = 4, dim: int = 3) -> Head:
    generator = seeds.torch_generator("test head", seed)
    return Head(torch.randn(dim, channels, generator=generator, dtype=torch.float64).tolist())


def random_maps(seed: int, roles: int, count: int = 3) -> list[Tensor]:
    generator = seeds.torch_generator("test maps", seed)
    return [torch.rand(count, 4, 3, 2, generator=generator, dtype=torch.float64) for _ in range(roles)]


# Golden values G9.


@pytest.mark.parametrize(
    ("photos", "same", "weights", "scores"),
    [
        ((ANCHOR, POSITIVE), True, [0.8, 0.8, 1.0], [1.12, 1.12]),
        ((ANCHOR, NEGATIVE), True, [0.4, 1.0, 0.4], [1.04, 1.04]),
        ((ANCHOR, NEGATIVE), False, [0.6, 0, 0.6], [0.36, 0.36]),
        ((ANCHOR, POSITIVE, NEGATIVE), True, [0.48, 0, 0.6], [0.288, 0.384, 0.36]),
        ((ANCHOR, POSITIVE, NEGATIVE, SECOND), True, [0.288, 0, 0.6], [0.1728, 0.2304, 0.36, 0.6]),
    ],
)
def test_golden_weights(
    photos: tuple[Tensor, ...], same: bool, weights: list[float], scores: list[float]
) -> None:
    found = attention.dimension_weights(photos, same)
    assert found[0].tolist() == pytest.approx(weights)
    assert [float((found * f).sum()) for f in photos] == pytest.approx(scores)


def test_golden_map() -> None:
    importance = torch.tensor([[0.4, -0.2]], dtype=torch.float64)
    found = attention.weighted_map(importance, MAP)
    assert found[0].flatten().tolist() == pytest.approx([0.4, 0, 0.6, 0.4])
    between = attention.stretch(found)
    # The divisor's 1e-6 shows in the sixth digit.
    assert between[0].flatten().tolist() == pytest.approx([0.666667, 0, 1, 0.666667], abs=3e-6)
    left = attention.soft_erasure(between, a=10, b=0.5)
    assert left[0].flatten().tolist() == pytest.approx([0.158869, 0.993307, 0.006693, 0.158869], abs=3e-6)
    # Where no place counts, nearly nothing is wiped out.
    left = attention.soft_erasure(attention.stretch(torch.full((1, 2, 2), 0.3)), a=10, b=0.5)
    assert left.flatten().tolist() == pytest.approx([1 - 0.006693] * 4, abs=1e-6)


def test_golden_importance_behind_a_head() -> None:
    head = Head([[1, 2], [0, 1], [1, 0]])
    features = torch.tensor([[[[1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 2.0]]]], dtype=torch.float64)
    features.requires_grad_()
    scores = unit(head(features)) @ torch.tensor([0.5, 0.2, 0.1], dtype=torch.float64)
    found = attention.importance(scores, features)
    assert found[0].tolist() == pytest.approx([-0.004112, 0.004112], abs=GOLDEN)


# Naive twins.


def naive_importances(
    head: Head, maps: list[Tensor], same: bool = True, magnitude: bool = False
) -> list[list[float]]:
    """1/hw W^T (I - f f^T) w / |g| of one tuple, in loops over Python numbers (docs/methods.md, section 7); of magnitudes,
    1/hw W^T (w sign g) / |g|.
    """
    rows = head.rows.tolist()
    means = [[float(channel.mean()) for channel in m[0]] for m in maps]
    raw = [[sum(r * v for r, v in zip(row, mean, strict=True)) for row in rows] for mean in means]
    lengths = [math.sqrt(sum(v * v for v in g)) for g in raw]
    unit = [[v / n for v in g] for g, n in zip(raw, lengths, strict=True)]
    weights = []
    for t, anchor in enumerate(unit[0]):
        if len(maps) == 2 and not same:
            weights.append(abs(anchor - unit[1][t]))
            continue
        weight = 1 - abs(anchor - unit[1][t])
        for negative in unit[2:]:
            weight *= abs(anchor - negative[t])
        weights.append(weight)
    found = []
    for f, length, m in zip(unit, lengths, maps, strict=True):
        score = sum(w * v for w, v in zip(weights, f, strict=True))
        toward = [(w - score * v) / length for w, v in zip(weights, f, strict=True)]
        if magnitude:
            toward = [w * math.copysign(1, v) / length for w, v in zip(weights, f, strict=True)]
        places = m.shape[2] * m.shape[3]
        found.append(
            [sum(row[k] * t for row, t in zip(rows, toward, strict=True)) / places for k in range(m.shape[1])]
        )
    return found


@pytest.mark.parametrize(("roles", "same"), [(2, True), (2, False), (3, True), (4, True)])
@pytest.mark.parametrize("score", ["published", "magnitude"])
def test_agrees_with_the_closed_form(roles: int, same: bool, score: SimilarityScore) -> None:
    head, maps = random_head(0), random_maps(0, roles)
    found = attention.importances(head, maps, same, score)
    for t in range(3):
        expected = naive_importances(head, [m[t : t + 1] for m in maps], same, score == "magnitude")
        for importance, twin in zip(found, expected, strict=True):
            assert importance[t].tolist() == pytest.approx(twin, rel=1e-9)


@pytest.mark.parametrize("roles", [2, 4])
def test_through_the_weights_it_is_the_slope_of_the_photos_own_score(roles: int) -> None:
    """Central differences of each score when one channel of one photo grows everywhere."""
    head, maps, step = random_head(5), random_maps(5, roles, count=1), 1e-6
    found = attention.importances(head, maps, w_detach=False)
    constant = attention.importances(head, maps)
    places = maps[0].shape[2] * maps[0].shape[3]

    def score(role: int, changed: Tensor) -> float:
        embeddings = [unit(head(changed if i == role else m)) for i, m in enumerate(maps)]
        return float((attention.dimension_weights(embeddings) * embeddings[role]).sum().detach())

    for role in range(roles):
        for channel in range(4):
            direction = torch.zeros_like(maps[role])
            direction[:, channel] = step
            slope = (score(role, maps[role] + direction) - score(role, maps[role] - direction)) / (2 * step)
            # A step everywhere moves the score by the sum over places; the importance is the mean.
            assert float(found[role][0, channel]) == pytest.approx(slope / places, rel=1e-5, abs=1e-9)
        assert not torch.allclose(found[role], constant[role])


# What must hold.


def test_places_that_make_most_of_both_embeddings_are_found_by_magnitude_alone() -> None:
    """Two photos whose embedding is one and the same, with both signs, made in one corner: the published score has no slope."""
    head = Head([[1, 0], [-1, 0]])
    features = torch.zeros(1, 2, 3, 3, dtype=torch.float64)
    features[0, 0, 0, 2] = 1.0
    published, magnitude = (
        attention.weighted_map(attention.importances(head, (features, features), score=score)[0], features)
        for score in ("published", "magnitude")
    )
    assert published.abs().max() < 1e-12
    assert attention.stretch(magnitude)[0, 0, 2] > 0.99
    assert magnitude.count_nonzero() == 1


def test_can_be_trained_through_only_when_asked() -> None:
    head, maps = random_head(2), random_maps(2, 2)
    kept, dropped = (attention.importances(head, maps, create_graph=g)[0] for g in (True, False))
    assert torch.equal(kept.detach(), dropped)
    kept.sum().backward()  # type: ignore[no-untyped-call]
    assert head.rows.grad is not None
    assert head.rows.grad.abs().sum() > 0
    assert not dropped.requires_grad


def test_enlarged_maps_lie_over_the_photo() -> None:
    """The corner that counts is the corner that is found, whatever the sides."""
    small = torch.zeros(1, 2, 3)
    small[0, 0, 2] = 1.0
    large = attention.enlarge(small, (20, 30))[0]
    assert large.shape == (20, 30)
    assert large[:5, 25:].min() == 1
    assert large[10:, :10].max() == 0


# As an attribution.


def gallery(labels: dict[str, int]) -> EvaluationPhotos:
    """Photos of 36 pixels of noise; the mask of each is another rectangle; that of the last is not trusted."""
    generator = np.random.default_rng(0)
    photos = {i: generator.integers(0, 256, (36, 36, 3), dtype=np.uint8) for i in labels}
    masks = {i: np.zeros((36, 36), np.uint8) for i in labels}
    for number, mask in enumerate(masks.values()):
        mask[number : number + 16, 4:30] = 255
    usable = frozenset(list(labels)[:-1])
    return EvaluationPhotos(table(labels), Pictures(photos), 32, Pictures(masks), usable)  # type: ignore[arg-type]


LABELS = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "alone": 2, "untrusted": 0}


def test_partner_is_another_photo_of_the_class_by_names_alone() -> None:
    found = partners(table(LABELS), LABELS)
    assert found.keys() == LABELS.keys() - {"alone"}
    assert all(LABELS[a] == LABELS[b] and a != b for a, b in found.items())
    backwards = partners(table(dict(reversed(LABELS.items()))), ["b", "d"])
    assert backwards == {name: found[name] for name in ("b", "d")}
    of_three = [partners(table({f"{n}{i}": 0 for i in range(3)}), [f"{n}0"]) for n in "abcdefgh"]
    assert {partner[-1] for chosen in of_three for partner in chosen.values()} == {"1", "2"}


@pytest.mark.parametrize("score", ["magnitude", "published"])
def test_scores_are_those_of_the_explanation_of_the_pair(score: SimilarityScore) -> None:
    """The same maps, made one pair at a time by the other way to them."""
    photos, chosen = gallery(LABELS), partners(table(LABELS), LABELS)
    found = attribute_pairs(model().eval(), photos, table(LABELS), Attribution(similarity=score))
    assert found["image_id"].tolist() == list(LABELS)
    assert set(found["variant"]) == {"similarity"}
    for name in ("a", "b", "c", "d", "e"):
        pair = [photos.photos.get(i) for i in (name, chosen[name])]
        one = explanation.explain(model().eval(), pair, score=score).maps[0]
        mask = torch.from_numpy(photos.mask(name) / 255)
        expected = scores.score(scores.normalise(torch.from_numpy(one)), mask)
        row = found.set_index("image_id").loc[name]
        assert row["score"] == pytest.approx(expected, abs=1e-3)
        assert row["mask_fraction"] == pytest.approx(float(mask.mean()))
    reasons = found.set_index("image_id")["skipped"]
    assert reasons[reasons != ""].to_dict() == {"alone": "alone in its class", "untrusted": "untrusted mask"}
    assert found["score"].isna().equals(found["skipped"] != "")


def test_study_that_does_not_ask_keeps_its_digest(tmp_path: Path) -> None:
    raw = described(tmp_path)
    without = load(tmp_path, raw)
    assert "similarity" not in graph.spec(without, "attribute", cell=CELL)["attribution"]
    raw["attribution"]["similarity"] = "published"
    asked = load(tmp_path, raw)
    assert graph.digest(asked, "attribute", cell=CELL) != graph.digest(without, "attribute", cell=CELL)
    assert graph.digest(asked, "train", cell=CELL) == graph.digest(without, "train", cell=CELL)
