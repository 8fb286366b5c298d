"""The finding itself: plain training's drop grows with the bias that the toys were given, BGAugment's far less.

Four models are trained as the demo trains them, through Snakemake, from photos to scores. The queries at both correlations are
the same objects, so that the growth of a drop has paired-bootstrap bounds.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import project
import pytest
import yaml
from chance import chance_map_at_r

from bgbias import seeds
from bgbias.results import uncertainty
from bgbias.study import params
from bgbias.study.cell import Cell

UNBIASED, BIASED = "demo_00", "demo_90"
SMALLEST_GROWTH_OF_PLAIN, LARGEST_SHARE_OF_THE_CURED = 0.4, 1 / 3
LARGEST_DROP_WITHOUT_BIAS = 0.05
TIMES_CHANCE = 3

Values = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Values:
    """(clean, corrupted) MAP@R per query, the latter averaged over draws, by (dataset, method)."""
    made = project.fresh(tmp_path_factory.mktemp("effect") / "project")
    study = yaml.safe_load((made.folder / "params.yaml").read_text())
    block = {
        **study["grids"]["demo"]["cells"][0],
        "datasets": [UNBIASED, BIASED],
        "methods": ["plain", "bgaugment"],
    }
    study["grids"] = {"effect": {**study["grids"]["demo"], "cells": [block]}}
    study["grid"] = "effect"
    (made.folder / "params.yaml").write_text(yaml.safe_dump(study))
    files = params.load(made.folder / "params.yaml").files
    cells = [
        Cell(d, block["backbones"][0], block["losses"][0], m, block["seeds"][0])
        for d in block["datasets"]
        for m in block["methods"]
    ]
    made.snakemake(*(str(files.at("scores", **c.wildcards)) for c in cells))
    return {
        (c.dataset, c.method): _per_query(pd.read_parquet(made.folder / files.at("queries", **c.wildcards)))
        for c in cells
    }


@pytest.mark.workflow
def test_models_have_learned(values: Values) -> None:
    for (dataset, method), (clean, _) in values.items():
        # Every class of a toy split has the same number of photos.
        chance = chance_map_at_r(np.array([relevant(clean)]), len(clean) - 1)[0]
        assert clean.mean() >= TIMES_CHANCE * chance, f"{dataset} {method}"


@pytest.mark.workflow
def test_plain_drop_grows_with_the_bias(values: Values) -> None:
    assert growth(values, "plain").low > SMALLEST_GROWTH_OF_PLAIN


@pytest.mark.workflow
def test_bgaugment_drop_grows_far_less(values: Values) -> None:
    found = growth(values, "bgaugment")
    assert found.value < LARGEST_SHARE_OF_THE_CURED * growth(values, "plain").value
    # With its uncertainty, too, it stays below what plain training must show.
    assert found.high < SMALLEST_GROWTH_OF_PLAIN


def test_without_bias_nothing_drops(values: Values) -> None:
    for method in ("plain", "bgaugment"):
        clean, corrupted = values[UNBIASED, method]
        assert 1 - corrupted.mean() / clean.mean() < LARGEST_DROP_WITHOUT_BIAS, method


def growth(values: Values, method: str) -> uncertainty.Estimate:
    """Relative drop at the high correlation minus that at 0, with paired-bootstrap bounds: the queries are the same objects."""
    generator = seeds.generator("effect", method)
    made = uncertainty.bootstrap_difference_of_drops(
        *values[BIASED, method], *values[UNBIASED, method], generator
    )
    return made.relative


def relevant(clean: np.ndarray) -> int:
    """Other photos of a query's class, in a split of 16 classes of equal size."""
    return len(clean) // 16 - 1


def _per_query(queries: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    symmetric = queries[queries["setting"] == "symmetric"]
    by_image = symmetric.groupby(["condition", "image_id"])["map_at_r"].mean()
    return by_image["clean"].to_numpy(), by_image["random_background"].to_numpy()
