"""Similarity attention: a naive twin, and attribution by it (docs/methods.md, section 7)."""

from __future__ import annotations

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


class Head(nn.Module):
    """Mean over places and a linear layer."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        return features.mean((2, 3)) @ self.rows.T


def closed_form(head: Head, maps: list[Tensor], same: bool, magnitude: bool) -> list[Tensor]:
    """1/hw W^T (I - f f^T) w / |g| of one tuple (docs/methods.md, section 7); of magnitudes, 1/hw W^T (w sign g) / |g|."""
    vectors = [head(m)[0] for m in maps]
    units = [g / g.square().sum().sqrt() for g in vectors]
    first, *others = ((units[0] - f).abs() for f in units[1:])
    weight = 1 - first if same else first
    for apart in others:
        weight = weight * apart
    found = []
    for g, f in zip(vectors, units, strict=True):
        toward = weight * g.sign() if magnitude else weight - (weight * f).sum() * f
        found.append(head.rows.T @ toward / g.square().sum().sqrt() / maps[0][0, 0].numel())
    return found


@pytest.mark.parametrize(("roles", "same"), [(2, True), (2, False), (3, True), (4, True)])
@pytest.mark.parametrize("score", ["published", "magnitude"])
def test_importances_are_those_of_the_closed_form(roles: int, same: bool, score: SimilarityScore) -> None:
    generator = seeds.torch_generator("test maps")
    head = Head(torch.randn(3, 4, generator=generator).tolist())
    maps = [torch.rand(3, 4, 3, 2, generator=generator, dtype=torch.float64) for _ in range(roles)]
    found = attention.importances(head, maps, same, score)
    for t in range(3):
        expected = closed_form(head, [m[t : t + 1] for m in maps], same, score == "magnitude")
        for importance, twin in zip(found, expected, strict=True):
            torch.testing.assert_close(importance[t], twin)


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
