"""Methods, losses and batches that do not go together are refused when planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import described, load

from bgbias.errors import UserError
from bgbias.study import plan

pytestmark = pytest.mark.usefixtures("small_plugins")
SAM = {"sam_siamese": 1, "sam_triplet": 2, "sam_quad": 3}  # classes that a batch must have
SEVERAL = r"\(contrastive, multi_similarity, quadruplet, roth_arcface, roth_multi_similarity, triplet\)"


@pytest.mark.parametrize(
    ("method", "loss", "batch", "words"),
    [
        *(
            (sam, loss, 8, rf"/{sam}/seed0: the method '{sam}' compares photos of one class, but with '{loss}'.*{SEVERAL}")
            for sam in SAM
            for loss in ("arcface",)
        ),
        # With four photos each, as the contrastive loss has them.
        *((sam, "contrastive", 4 * classes, "") for sam, classes in SAM.items()),
        *(
            (sam, "contrastive", 4 * n - 4, rf"of {n} classes, but a batch of {4 * n - 4} has {n - 1}.*at least {4 * n}")
            for sam, n in SAM.items()
            if n > 1
        ),
        ("plain", "contrastive", 10, "batch_size is 10, but the loss 'contrastive' wants 4 photos a class"),
        ("plain", "arcface", 10, ""),
        ({"kind": "dcml_code", "environments": 3}, "cosface", 10, "is 10, but method 'mine' wants 4 photos a class"),
        (
            {"kind": "dcml_paper", "gamma": 0.01},
            "contrastive",
            8,
            r"'mine' re-weights .*'contrastive' compares pairs.*weights \(arcface, cosface, normalized_softmax, roth_arc",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_what_does(
    tmp_path: Path, method: str | dict[str, Any], loss: str, batch: int, words: str
) -> None:
    raw = described(tmp_path)
    raw["train"]["batch_size"] = batch
    raw["losses"]["cosface"] = {"default": {"margin": 0.2, "scale": 8, "lr": 0.01}}
    raw["methods"] = {"mine": method} if isinstance(method, dict) else {}
    name = "mine" if isinstance(method, dict) else method
    raw["grids"]["small"]["cells"][0] |= {"methods": [name, f"{name}+bgaugment"], "losses": [loss]}
    study = load(tmp_path, raw)
    if not words:
        plan.checked_cells(study)
        return
    with pytest.raises(UserError, match=words):
        plan.checked_cells(study)
