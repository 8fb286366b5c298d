"""Methods, losses and batches that do not go together are refused when planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import described, load

from bgbias.errors import UserError
from bgbias.study import plan
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


def study_of(folder: Path, method: str, loss: str, batch_size: int = 8, **options: Any) -> Study:
    raw = described(folder)
    raw["train"]["batch_size"] = batch_size
    raw["losses"]["cosface"] = {"default": {"margin": 0.2, "scale": 8, "lr": 0.01}}
    raw["methods"] = {"mine": {"kind": method, **options}} if options else {}
    name = "mine" if options else method
    raw["grids"]["small"]["cells"][0] |= {"methods": [name, f"{name}+bgaugment"], "losses": [loss]}
    return load(folder, raw)


@pytest.mark.parametrize("method", ["sam_siamese", "sam_triplet", "sam_quad"])
@pytest.mark.parametrize("loss", ["arcface", "cosface"])
def test_tuples_need_a_loss_with_several_photos_a_class(tmp_path: Path, method: str, loss: str) -> None:
    words = (
        rf"/{method}/seed0: the method '{method}' compares photos of one class, but with '{loss}' a batch has one photo of each"
        r".*\(contrastive, multi_similarity, quadruplet, roth_arcface, roth_multi_similarity, triplet\)"
    )
    with pytest.raises(UserError, match=words):
        plan.checked_cells(study_of(tmp_path, method, loss))


@pytest.mark.parametrize(("method", "classes"), [("sam_siamese", 1), ("sam_triplet", 2), ("sam_quad", 3)])
def test_tuples_need_a_batch_of_several_classes(tmp_path: Path, method: str, classes: int) -> None:
    """With four photos each, as the contrastive loss has them."""
    plan.checked_cells(study_of(tmp_path, method, "contrastive", 4 * classes))
    if classes > 1:
        words = rf"of {classes} classes, but a batch of {4 * classes - 4} has {classes - 1}.*at least {4 * classes}"
        with pytest.raises(UserError, match=words):
            plan.checked_cells(study_of(tmp_path, method, "contrastive", 4 * classes - 4))


def test_a_batch_that_classes_do_not_fill_is_refused_whoever_wants_it(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="batch_size is 10, but the loss 'contrastive' wants 4 photos a class"
    ):
        plan.checked_cells(study_of(tmp_path, "plain", "contrastive", 10))
    plan.checked_cells(study_of(tmp_path, "plain", "arcface", 10))
    with pytest.raises(UserError, match="batch_size is 10, but method 'mine' wants 4 photos a class"):
        plan.checked_cells(study_of(tmp_path, "dcml_code", "cosface", 10, environments=3))
    plan.checked_cells(study_of(tmp_path, "dcml_code", "cosface", 10, images_per_class=5))


@pytest.mark.parametrize("kind", ["dcml_code", "dcml_paper"])
def test_losses_over_pairs_have_no_class_weights_to_re_weight(tmp_path: Path, kind: str) -> None:
    words = r"'mine' re-weights cross-entropies, but 'contrastive' compares pairs.*arcface, cosface, normal"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(study_of(tmp_path, kind, "contrastive", gamma=0.01))


OF_PAIRS = """
from bgbias.training.losses.contrastive import DISTANCE, build
from bgbias.settings import Strict

IMAGES_PER_CLASS = 1

class Params(Strict):
    lr: float
"""


def test_a_loss_with_a_learning_rate_need_not_have_class_weights(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine" / "losses").mkdir(parents=True)
    (tmp_path / "mine" / "losses" / "paced_pairs.py").write_text(OF_PAIRS)
    raw = described(tmp_path)
    raw["plugins"].append("mine")
    raw["losses"]["paced_pairs"] = {"default": {"lr": 0.1}}
    raw["methods"] = {"mine": {"kind": "dcml_paper", "gamma": 0.01}}
    raw["grids"]["small"]["cells"][0] |= {"methods": ["mine"], "losses": ["paced_pairs"]}
    study = load(tmp_path, raw)
    with pytest.raises(
        UserError,
        match=r"'paced_pairs' compares pairs.*weights \(arcface, cosface, normalized_softmax, roth_arcface\)",
    ):
        plan.checked_cells(study)
