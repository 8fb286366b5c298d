"""The finding itself: plain training's drop grows with the bias that the toys were given, BGAugment's far less.

Four models are trained as the demo trains them, through Snakemake, from photos to scores: one seed, so that what is asserted is
of these models, over classes. The queries at both correlations are the same objects, and a drop's growth is paired by them.

With the demo's three seeds plain's drop grew by .81 [.73, .89], .77 [.68, .87] and .74 [.60, .88], BGAugment's by .24 [.16, .32],
.18 [.05, .31] and .18 [.08, .28]; without bias drops were -.07 to -.02. The margins leave room for other seeds.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import project
import pytest
import yaml
from chance import chance_map_at_r

import bgbias
from bgbias.results.uncertainty import change_of_relative_drop
from bgbias.study import params
from bgbias.study.cell import Cell

UNBIASED, BIASED = "demo_00", "demo_90"
SMALLEST_GROWTH_OF_PLAIN, LARGEST_SHARE_OF_THE_CURED = 0.4, 1 / 2
LARGEST_DROP_WITHOUT_BIAS = 0.05
TIMES_CHANCE = 3

Values = dict[tuple[str, str], pd.DataFrame]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Values:
    """Queries with their ``label``, and MAP@R ``clean`` and ``corrupted``, the latter averaged over draws, by (dataset,
    method).
    """
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
    for (dataset, method), queries in values.items():
        others = queries.groupby("label").size() - 1
        chance = chance_map_at_r(others.to_numpy(), len(queries) - 1).mean()
        assert queries["clean"].mean() >= TIMES_CHANCE * chance, f"{dataset} {method}"


@pytest.mark.workflow
def test_plain_drop_grows_with_the_bias(values: Values) -> None:
    assert growth(values, "plain").low > SMALLEST_GROWTH_OF_PLAIN


@pytest.mark.workflow
def test_bgaugment_drop_grows_far_less(values: Values) -> None:
    # With its uncertainty, too, it stays below what plain training must show.
    assert growth(values, "bgaugment").high < SMALLEST_GROWTH_OF_PLAIN

    def beyond_its_share(*means: np.ndarray) -> np.ndarray:
        cured, plain = change_of_relative_drop(*means[:4]), change_of_relative_drop(*means[4:])
        return cured - LARGEST_SHARE_OF_THE_CURED * plain

    columns = [*paired(values, "bgaugment"), *paired(values, "plain")]
    assert bgbias.estimate(columns, classes(values), beyond_its_share).high < 0


@pytest.mark.workflow
def test_without_bias_nothing_drops(values: Values) -> None:
    for method in ("plain", "bgaugment"):
        clean, corrupted = paired(values, method)[2:]
        assert 1 - corrupted.mean() / clean.mean() < LARGEST_DROP_WITHOUT_BIAS, method


def growth(values: Values, method: str) -> bgbias.Estimate:
    """Relative drop at the high correlation minus that at 0."""
    return bgbias.estimate(paired(values, method), classes(values), change_of_relative_drop)


def paired(values: Values, method: str) -> list[np.ndarray]:
    """Clean and corrupted values at the high correlation, then those at 0, of the same objects."""
    biased, unbiased = values[BIASED, method], values[UNBIASED, method]
    pd.testing.assert_index_equal(biased.index, unbiased.index)
    return [queries[name].to_numpy() for queries in (biased, unbiased) for name in ("clean", "corrupted")]


def classes(values: Values) -> np.ndarray:
    """Each query's class, the same at both correlations and for both methods."""
    return values[BIASED, "plain"]["label"].to_numpy()


def _per_query(queries: pd.DataFrame) -> pd.DataFrame:
    symmetric = queries[queries["setting"] == "symmetric"]
    means = (
        symmetric.groupby(["image_id", "label", "condition"])["map_at_r"]
        .mean()
        .unstack()
        .reset_index("label")
    )
    return means.rename(columns={"random_background": "corrupted"})
