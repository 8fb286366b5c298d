"""A grid that was run once, for the tests of what its models are asked."""

from __future__ import annotations

import pytest
from small_study import data_nodes, described, load, options, run

from bgbias.nodes import collect
from bgbias.study import plan
from bgbias.study.params import Study


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Four models, plain and cured, two seeds, and the backbone as it comes; scored and brought together. Nobody changes it."""
    folder = tmp_path_factory.mktemp("scored")
    raw = described(folder)
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "seeds": [0, 1], "pretrained": True}
    raw["train"]["embedding_dim"] = 6
    study = load(folder, options(raw, test_classes=5))
    data_nodes(study)
    for cell in plan.cells(study):
        trained = plan.trains(study, cell)
        run(study, cell, *(("train", "embed", "score", "attribute") if trained else ("embed", "score")))
    collect.collect(study)
    return study
