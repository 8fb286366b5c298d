"""The search for settings: the page has what its table holds, and the grids train with what was chosen."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest

from bgbias.study import params
from bgbias.training.settings import Train

ROOT = Path(__file__).resolve().parents[2]
searched = runpy.run_path(str(ROOT / "docs/settings/__main__.py"), run_name="searched")


@pytest.mark.parametrize("grid", ["cub50", "grocery"])
def test_the_grids_train_with_what_was_chosen(grid: str) -> None:
    train = params.load(ROOT / "params.yaml", grid).train.model_dump()
    chosen = searched["SHORT"] | searched["RATES"] | searched["CANDIDATES"][searched["CHOSEN"]]
    assert Train.model_validate(train | chosen).model_dump() == train


def test_what_was_chosen_beats_the_untrained_backbone_at_the_same_length() -> None:
    found = pd.read_csv(ROOT / "docs/settings/cub50.csv")
    of_layers = found[found["settings"] == "random embedding layer"]
    assert len(of_layers) == len(searched["SEEDS"])
    trained = found[found["settings"] == searched["CHOSEN"]].groupby("loss")["val_map_at_r"].max()
    assert set(trained.index) == {"contrastive", "arcface"}
    assert trained.min() > of_layers["val_map_at_r"].max()
