"""Similarity attention as an attribution: partners, scores, and how it comes into and stays out of a study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from in_memory import Pictures, table
from small_study import described, load

from bgbias import plugins, seeds
from bgbias.attribution import explanation
from bgbias.attribution import score as scores
from bgbias.attribution.score import attribute_pairs, partners
from bgbias.attribution.settings import Attribution, SimilarityScore
from bgbias.engine import graph
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
CELL = Cell("squares", "pixels", "contrastive", "plain", 0)


def gallery(labels: dict[str, int]) -> EvaluationPhotos:
    """Photos of 36 pixels of noise; the mask of each is another rectangle; that of the last is not trusted."""
    generator = np.random.default_rng(0)
    photos = {i: generator.integers(0, 256, (36, 36, 3), dtype=np.uint8) for i in labels}
    masks = {i: np.zeros((36, 36), np.uint8) for i in labels}
    for number, mask in enumerate(masks.values()):
        mask[number : number + 16, 4:30] = 255
    usable = frozenset(list(labels)[:-1])
    return EvaluationPhotos(table(labels), Pictures(photos), 32, Pictures(masks), usable)  # type: ignore[arg-type]


def model() -> EmbeddingModel:
    backbone = plugins.load("backbones", "pixels").Params()
    return build_model("pixels", backbone, 4, seeds.torch_generator("model")).eval()


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
    found = attribute_pairs(model(), photos, table(LABELS), Attribution(similarity=score))
    assert found["image_id"].tolist() == list(LABELS)
    assert set(found["variant"]) == {"similarity"}
    for name in ("a", "b", "c", "d", "e"):
        pair = [photos.photos.get(i) for i in (name, chosen[name])]
        one = explanation.explain(model(), pair, score=score).maps[0]
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
